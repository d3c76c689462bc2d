package controllers_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// grows builds a policy for Services and ServiceCIDRs with the label grows=NAME.
func grows(name string, growth v1alpha1.Growth) *v1alpha1.ServiceCIDRPolicy {
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"grows": name}}
	return &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ServiceCIDRPolicySpec{
		ServiceCIDRSelector: labels, ServiceSelector: labels, OnFull: v1alpha1.OnFullFail, Growth: &growth,
	}}
}

// condition reads one of a policy, the zero Condition if it is not of the present generation.
func condition(ctx context.Context, policy, kind string) metav1.Condition {
	GinkgoHelper()
	p := &v1alpha1.ServiceCIDRPolicy{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: policy}, p)).To(Succeed())
	if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.ObservedGeneration == p.Generation {
		return *c
	}
	return metav1.Condition{}
}

// say waits until a condition has a reason, and words in its message.
func say(ctx context.Context, policy, kind string, status metav1.ConditionStatus, reason, words string) {
	GinkgoHelper()
	Eventually(condition).WithArguments(ctx, policy, kind).Should(And(
		HaveField("Status", status), HaveField("Reason", reason), HaveField("Message", ContainSubstring("%s", words))))
}

// createdFor are the ServiceCIDRs that were created for a policy.
func createdFor(ctx context.Context, policy string) (names []string) {
	GinkgoHelper()
	list := &networkingv1.ServiceCIDRList{}
	Expect(admin.List(ctx, list)).To(Succeed())
	for _, c := range list.Items {
		if c.Annotations[v1alpha1.AnnotationCreatedFor] == policy {
			names = append(names, c.Name)
		}
	}
	return names
}

// sweep deletes those when the spec ends.
func sweep(policies ...string) {
	DeferCleanup(func(ctx SpecContext) {
		for _, policy := range policies {
			for _, name := range createdFor(ctx, policy) {
				Expect(admin.Delete(ctx, framework.NewServiceCIDR(name))).To(Succeed())
			}
		}
	})
}

// change patches a policy.
func change(ctx context.Context, policy string, how func(*v1alpha1.ServiceCIDRPolicySpec)) {
	GinkgoHelper()
	p := &v1alpha1.ServiceCIDRPolicy{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: policy}, p)).To(Succeed())
	before := client.MergeFrom(p.DeepCopy())
	how(&p.Spec)
	Expect(admin.Patch(ctx, p, before)).To(Succeed())
}

// notes are those of the events about an object.
func notes(ctx context.Context, name, reason string) (out []string) {
	GinkgoHelper()
	kube := suite.Must(kubernetes.NewForConfig(environment.Config))
	list := suite.Must(kube.EventsV1().Events("").List(ctx, metav1.ListOptions{}))
	for _, e := range list.Items {
		if e.Regarding.Name == name && e.Reason == reason {
			out = append(out, e.Note)
		}
	}
	return out
}

const growing, growthExhausted = v1alpha1.PolicyGrowing, v1alpha1.PolicyGrowthExhausted

var _ = Describe("A policy with growth", func() {
	It("says what it would create, creates it, and says beforehand when there is no more", func(ctx SpecContext) {
		seed := framework.NewServiceCIDR("seed", "10.99.0.0/28", "fd00:10:99::/124")
		seed.Labels = map[string]string{"grows": "seed"}
		create(ctx, seed)
		sweep("seed")
		create(ctx, grows("seed", v1alpha1.Growth{
			From:             []v1alpha1.Supernet{{CIDR: "10.99.1.0/27", PrefixLength: 28}, {CIDR: "fd00:10:99:1::/64", PrefixLength: 124}},
			ReservedNetworks: []string{"10.99.1.3/32"}, WhenFreePercent: 50, DryRun: true,
		}))
		say(ctx, "seed", growing, metav1.ConditionFalse, "EnoughFree", "grown-10-99-1-16-28 (10.99.1.16/28), ServiceCIDR grown-fd00-10-99-1---124 (fd00:10:99:1::/124)")
		say(ctx, "seed", growthExhausted, metav1.ConditionFalse, "BlocksLeft", "")

		say(ctx, "seed", v1alpha1.PolicyProgrammed, metav1.ConditionTrue, "Programmed", "")
		for i := range 8 {
			create(ctx, dual(fmt.Sprint("grows-", i), framework.WithLabel("grows", "seed")))
		}
		say(ctx, "seed", growing, metav1.ConditionFalse, "DryRun", "Would create ServiceCIDR grown-10-99-1-16-28 (10.99.1.16/28), for no more than 50 % of the IPv4 addresses are free")
		Expect(createdFor(ctx, "seed")).To(BeEmpty())

		change(ctx, "seed", func(s *v1alpha1.ServiceCIDRPolicySpec) { s.Growth.DryRun = false })
		say(ctx, "seed", growthExhausted, metav1.ConditionTrue, "NoBlockLeft", "growth.reservedNetworks has 10.99.1.3/32, ServiceCIDR grown-10-99-1-16-28 has 10.99.1.16/28")
		say(ctx, "seed", growing, metav1.ConditionFalse, "EnoughFree", "grown-fd00-10-99-1--10-124 (fd00:10:99:1::10/124)")
		Expect(createdFor(ctx, "seed")).To(ConsistOf("grown-10-99-1-16-28", "grown-fd00-10-99-1---124"))
		Eventually(notes).WithArguments(ctx, "seed", "ServiceCIDRCreated").Should(ConsistOf(
			"Created ServiceCIDR grown-10-99-1-16-28 (10.99.1.16/28)", "Created ServiceCIDR grown-fd00-10-99-1---124 (fd00:10:99:1::/124)"))
		Eventually(notes).WithArguments(ctx, "seed", "ServiceCIDRPolicyGrowthExhausted").Should(ConsistOf(ContainSubstring("Add a supernet")))
		p := &v1alpha1.ServiceCIDRPolicy{}
		Eventually(func() []v1alpha1.PolicyRange {
			Expect(admin.Get(ctx, client.ObjectKey{Name: "seed"}, p)).To(Succeed())
			return p.Status.Ranges
		}).Should(ContainElements(HaveField("CIDR", "10.99.1.16/28"), HaveField("CIDR", "fd00:10:99:1::/124")))

		change(ctx, "seed", func(s *v1alpha1.ServiceCIDRPolicySpec) { s.Growth = nil })
		Eventually(func() []metav1.Condition {
			Expect(admin.Get(ctx, client.ObjectKey{Name: "seed"}, p)).To(Succeed())
			return p.Status.Conditions
		}).ShouldNot(ContainElement(HaveField("Type", HavePrefix("Grow"))))
	})

	It("leaves a block to the policy that was first, and says so", func(ctx SpecContext) {
		last := v1alpha1.Growth{From: []v1alpha1.Supernet{{CIDR: "10.99.2.0/28", PrefixLength: 28}}}
		sweep("first", "second")
		create(ctx, grows("first", last))
		create(ctx, grows("second", last))
		loser := ""
		Eventually(func() string {
			for _, name := range []string{"first", "second"} {
				if condition(ctx, name, growing).Reason == "NoBlockLeft" {
					loser = name
				}
			}
			return loser
		}).ShouldNot(BeEmpty())
		winner := map[string]string{"first": "second", "second": "first"}[loser]
		say(ctx, loser, growing, metav1.ConditionFalse, "NoBlockLeft", fmt.Sprintf("created for ServiceCIDRPolicy %q, has 10.99.2.0/28", winner))
		say(ctx, winner, growing, metav1.ConditionFalse, "EnoughFree", "no further range")
		Expect(createdFor(ctx, winner)).To(ConsistOf("grown-10-99-2-0-28"))
		Expect(createdFor(ctx, loser)).To(BeEmpty())
	})

	It("says when the API server has another ServiceCIDR of the name, and goes on with the other family", func(ctx SpecContext) {
		create(ctx, framework.NewServiceCIDR("grown-10-99-3-0-28", "10.99.4.0/28"))
		sweep("unlucky")
		create(ctx, grows("unlucky", v1alpha1.Growth{From: []v1alpha1.Supernet{
			{CIDR: "10.99.3.0/28", PrefixLength: 28}, {CIDR: "fd00:10:99:3::/124", PrefixLength: 124},
		}}))
		say(ctx, "unlucky", growing, metav1.ConditionFalse, "CreationFailed", "ServiceCIDR grown-10-99-3-0-28 already")
		Expect(createdFor(ctx, "unlucky")).To(ConsistOf("grown-fd00-10-99-3---124"))
		Eventually(notes).WithArguments(ctx, "unlucky", "ServiceCIDRCreationFailed").Should(HaveLen(1))
	})

	It("does not grow by creations that are refused", func(ctx SpecContext) {
		seed := framework.NewServiceCIDR("refused", "10.99.5.0/28", "fd00:10:99:5::/124")
		seed.Labels = map[string]string{"grows": "refused"}
		create(ctx, seed)
		sweep("refused")
		create(ctx, grows("refused", v1alpha1.Growth{WhenFreePercent: 50, From: []v1alpha1.Supernet{
			{CIDR: "10.99.6.0/27", PrefixLength: 28}, {CIDR: "fd00:10:99:6::/64", PrefixLength: 124},
		}}))
		say(ctx, "refused", v1alpha1.PolicyProgrammed, metav1.ConditionTrue, "Programmed", "")
		refusing(ctx, "refused")

		for i := range 10 { // of the 14 addresses that each family has
			refused := framework.NewService("refused", fmt.Sprint("refused-", i), framework.WithLabel("grows", "refused"), framework.RequireDualStack())
			Expect(admin.Create(ctx, refused)).To(MatchError(ContainSubstring("refused.down.example")))
		}
		// This Service has the policy looked at.
		create(ctx, dual("comes", framework.WithLabel("grows", "refused")))
		Consistently(createdFor).WithArguments(ctx, "refused").WithTimeout(2 * time.Second).Should(BeEmpty())
		say(ctx, "refused", growing, metav1.ConditionFalse, "EnoughFree", "grown-10-99-6-0-28")
	})
})

// refusing makes a namespace whose Services are refused after our webhook has drawn their
// addresses, and before the API server writes an IPAddress: a webhook that is asked behind ours is
// down. (What a quota refuses has its IPAddresses for a moment.)
func refusing(ctx context.Context, name string) {
	GinkgoHelper()
	create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	kube := suite.Must(kubernetes.NewForConfig(environment.Config))
	down := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "zz-" + name}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
		Name: name + ".down.example", SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: new("https://" + freeAddress())},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
		}},
	}}}
	configurations := kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	suite.Must(configurations.Create(ctx, down, metav1.CreateOptions{}))
	DeferCleanup(func(ctx SpecContext) {
		Expect(configurations.Delete(ctx, down.Name, metav1.DeleteOptions{})).To(Succeed())
	})
	headless := framework.NewService(name, "headless", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	Eventually(admin.Create).WithArguments(ctx, headless, client.DryRunAll).Should(MatchError(ContainSubstring(name + ".down.example")))
}
