package enforcement_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// objects are the kinds, of the two that the operator writes, that exist.
func objects(ctx context.Context) (kinds []string) {
	GinkgoHelper()
	for _, o := range []*metav1.PartialObjectMetadata{
		{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicyBinding"}},
		{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: home}},
	} {
		err := admin.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: v1alpha1.ExclusiveName}, o)
		Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
		if err == nil {
			kinds = append(kinds, o.Kind)
		}
	}
	return kinds
}

// No webhook runs here: what is refused the API server refuses.
var _ = Describe("The API server", Ordered, ContinueOnFailure, func() {
	It("keeps strangers out of a range of both families, and goes on when the operator is down", func(ctx SpecContext) {
		stop := start(ctx)
		offer(ctx, "red", "10.1.0.0/28", "fd00:1::/124")
		create(ctx, exclusive("red", "red", "red"))
		enforced(ctx, "red", "10.1.0.3", "fd00:1::3")
		stop()

		By("chosen addresses")
		for _, addresses := range [][]string{{"10.1.0.3"}, {"fd00:1::3"}, {"10.1.0.3", "fd00:1::3"}, {"10.96.0.20", "fd00:1::3"}} {
			Expect(admin.Create(ctx, service("plain", "stranger", nil, addresses...))).To(beRefused("red"), "%v", addresses)
			Expect(admin.Create(ctx, service("blue", "stranger", nil, addresses...))).To(beRefused("red"), "%v", addresses)
		}
		for _, a := range []string{"10.1.0.3", "fd00:1::3", "10.96.0.20"} {
			Expect(ipAddress(ctx, a)).To(BeFalse(), "%s leaked", a)
		}
		put(ctx, service("red", "mine", nil, "10.1.0.3", "fd00:1::3"))

		By("updates that gain an address")
		single := put(ctx, service("plain", "growing", nil, "10.96.0.21"))
		single.Spec.ClusterIPs = []string{"10.96.0.21", "fd00:1::4"}
		single.Spec.IPFamilies, single.Spec.IPFamilyPolicy = nil, new(corev1.IPFamilyPolicyRequireDualStack)
		Expect(admin.Update(ctx, single)).To(beRefused("red"))
		external := put(ctx, framework.NewService("plain", "external", framework.ExternalName("example.com")))
		external.Spec.Type, external.Spec.ExternalName, external.Spec.ClusterIPs, external.Spec.ClusterIP = corev1.ServiceTypeClusterIP, "", []string{"10.1.0.5"}, "10.1.0.5"
		external.Spec.Ports = single.Spec.Ports
		Expect(admin.Update(ctx, external)).To(beRefused("red"))
		Expect(ipAddress(ctx, "fd00:1::4")).To(BeFalse())
		Expect(ipAddress(ctx, "10.1.0.5")).To(BeFalse())

		By("headless Services, ExternalNames and addresses elsewhere")
		put(ctx, framework.NewService("plain", "headless", framework.Headless()))
		put(ctx, service("plain", "elsewhere", nil, "10.96.0.22", "fd00:10:96::15"))
	})

	It("refuses a stranger for whom it drew from the range itself, and leaves no IPAddress behind", func(ctx SpecContext) {
		start(ctx)
		offer(ctx, "red", "10.1.1.0/28", "fd00:1:1::/124")
		create(ctx, exclusive("red", "red", "red"))
		enforced(ctx, "red", "10.1.1.3", "fd00:1:1::3")
		in := netip.MustParsePrefix("10.1.1.0/28")
		refused := 0
		for i := range 60 { // more than the default range has
			s := framework.NewService("plain", fmt.Sprint("drawn-", i))
			err := admin.Create(ctx, s)
			switch {
			case err != nil && strings.Contains(err.Error(), "range is full"):
			case err != nil:
				Expect(err).To(beRefused("red"))
				refused++
			default:
				DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, s)).To(Succeed()) })
				Expect(in.Contains(netip.MustParseAddr(s.Spec.ClusterIP))).To(BeFalse(), s.Spec.ClusterIP)
			}
		}
		Expect(refused).To(BeNumerically(">", 5), "the API server has hardly ever drawn from the closed range")
		list := &networkingv1.IPAddressList{}
		Expect(admin.List(ctx, list)).To(Succeed())
		for _, ip := range list.Items {
			Expect(in.Contains(netip.MustParseAddr(ip.Name))).To(BeFalse(), "%s leaked", ip.Name)
		}
		drawn := put(ctx, framework.NewService("red", "drawn"))
		Expect(in.Contains(netip.MustParseAddr(drawn.Spec.ClusterIP))).To(BeTrue(), "the only range with room is its own: %s", drawn.Spec.ClusterIP)
	})

	// In a dry run the API server takes the first address of any range, closed ones too. What GitOps
	// tools compare would be refused by chance.
	It("refuses nobody in a dry run, which gives nobody an address", func(ctx SpecContext) {
		start(ctx)
		offer(ctx, "red", "10.1.6.0/28", "fd00:1:6::/124")
		create(ctx, exclusive("red", "red", "red"))
		enforced(ctx, "red", "10.1.6.3", "fd00:1:6::3")
		drawn := map[bool]int{}
		closed := netip.MustParsePrefix("10.1.6.0/28")
		for range 40 {
			rehearsed := service("plain", "stranger", nil)
			Expect(admin.Create(ctx, rehearsed, client.DryRunAll)).To(Succeed())
			drawn[closed.Contains(netip.MustParseAddr(rehearsed.Spec.ClusterIP))]++
		}
		Expect(drawn[true]).NotTo(BeZero(), "the API server does not do any more what this is about")
	})

	It("lets a stranger that has an address already be changed", func(ctx SpecContext) {
		start(ctx)
		offer(ctx, "red", "10.1.2.0/28", "fd00:1:2::/124")
		before := put(ctx, service("plain", "before", nil, "10.1.2.3", "fd00:1:2::3"))
		create(ctx, exclusive("red", "red", "red"))
		enforced(ctx, "red", "10.1.2.4", "fd00:1:2::4")
		before.Labels = map[string]string{"changed": "yes"}
		before.Spec.Ports[0].Port++
		Expect(admin.Update(ctx, before)).To(Succeed())
		before.Spec.IPFamilyPolicy, before.Spec.IPFamilies = new(corev1.IPFamilyPolicySingleStack), before.Spec.IPFamilies[:1]
		before.Spec.ClusterIPs = before.Spec.ClusterIPs[:1]
		Expect(admin.Update(ctx, before)).To(Succeed(), "giving one address back")
	})

	It("says of every Service and address what the compiled policies say", func(ctx SpecContext) {
		stop := start(ctx)
		offer(ctx, "wide", "10.2.0.0/24", "fd00:2::/120")
		offer(ctx, "narrow", "10.2.0.64/28", "fd00:2::40/124")
		expressions := exclusive("best", "", "narrow")
		expressions.Spec.Priority = 9
		expressions.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "tenant", Operator: metav1.LabelSelectorOpIn, Values: []string{"red", "green"}}, {Key: "absent", Operator: metav1.LabelSelectorOpDoesNotExist},
			{Key: "zone", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"b", "c"}}, {Key: "zone", Operator: metav1.LabelSelectorOpExists},
		}}
		expressions.Spec.Reservations = []v1alpha1.Reservation{
			{Name: "for-one", Address: "10.2.0.70-10.2.0.73", For: "plain/one"}, {Name: "for-one-six", Address: "fd00:2::46-fd00:2::49", For: "plain/one"},
			{Name: "for-nobody", Address: "10.2.0.8/30"},
		}
		shared := exclusive("shared", "blue", "wide")
		shared.Spec.Exclusive, shared.Spec.Priority = false, 5
		worst := exclusive("worst", "red", "wide")
		worst.Spec.ServiceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"guest"}}}}
		policies := []*v1alpha1.ServiceCIDRPolicy{expressions, shared, worst}
		for _, p := range policies {
			create(ctx, p)
		}
		enforced(ctx, "best", "10.2.0.65", "fd00:2::41")
		enforced(ctx, "worst", "10.2.0.20", "fd00:2::20")
		stop()

		rules := compiled(ctx, policies...)
		var said, denied int
		for _, namespace := range []string{"red", "blue", "plain"} {
			n := &corev1.Namespace{}
			Expect(admin.Get(ctx, client.ObjectKey{Name: namespace}, n)).To(Succeed())
			for _, labels := range []map[string]string{nil, {"app": "guest"}, {"app": "web"}} {
				for _, name := range []string{"one", "two"} {
					for _, a := range []string{"10.2.0.9", "10.2.0.20", "10.2.0.65", "10.2.0.71", "fd00:2::20", "fd00:2::41", "fd00:2::47", "fd00:10:96::9"} {
						who := steering.Service{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}, NamespaceLabels: n.Labels, Labels: labels}
						err := try(ctx, namespace, name, labels, a)
						if refusal := rules.MayHold(netip.MustParseAddr(a), who); refusal != nil {
							Expect(err).To(beRefused(refusal.Policy), "%s for %v", a, who)
							denied++
						} else {
							Expect(err).NotTo(HaveOccurred(), "%s for %v", a, who)
						}
						said++
					}
				}
			}
		}
		Expect(denied).To(And(BeNumerically(">", said/4), BeNumerically("<", said*3/4)))
	})

	It("closes a range that is not ready yet, one that is being deleted, and what another ServiceCIDR has of one", func(ctx SpecContext) {
		start(ctx)
		offer(ctx, "wide", "10.3.0.0/23", "fd00:3::/119")
		unready := framework.NewServiceCIDR("unready", "10.3.0.0/28", "fd00:3::/124")
		Expect(admin.Create(ctx, unready)).To(Succeed())
		unready.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse, Reason: "Test",
			LastTransitionTime: metav1.Now()}}
		Expect(admin.Status().Update(ctx, unready)).To(Succeed())
		leaving := framework.NewServiceCIDR("leaving", "10.3.0.64/28", "fd00:3::40/124")
		leaving.Finalizers = []string{"example.com/held"}
		Expect(admin.Create(ctx, leaving)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.Delete(ctx, unready)).To(Succeed())
			Expect(admin.Patch(ctx, leaving, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		})
		Expect(admin.Delete(ctx, leaving)).To(Succeed())
		create(ctx, exclusive("red", "red", "unready", "leaving"))
		enforced(ctx, "red", "10.3.0.3", "fd00:3::3", "10.3.0.67", "fd00:3::43")
		Expect(try(ctx, "plain", "beside", nil, "10.3.0.33", "fd00:3::33")).To(Succeed(), "what only the other ServiceCIDR has stays open")
	})

	It("is given nothing any more when no policy wants it", func(ctx SpecContext) {
		start(ctx)
		offer(ctx, "red", "10.1.3.0/28", "fd00:1:3::/124")
		red := exclusive("red", "red", "red")
		create(ctx, red)
		enforced(ctx, "red", "10.1.3.3", "fd00:1:3::3")
		Expect(objects(ctx)).To(HaveLen(2))

		By("switching back to the webhook")
		Expect(admin.Patch(ctx, red, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"enforcement":"Webhook"}}`)))).To(Succeed())
		Eventually(objects).WithArguments(ctx).WithTimeout(soon).Should(BeEmpty())
		Eventually(func() error { return try(ctx, "plain", "stranger", nil, "10.1.3.3", "fd00:1:3::3") }).WithTimeout(soon).Should(Succeed())
		Eventually(func() metav1.Condition { return condition(ctx, "red", v1alpha1.PolicyEnforced) }).WithTimeout(soon).Should(BeZero())

		By("and on again")
		Expect(admin.Patch(ctx, red, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"enforcement":"APIServer"}}`)))).To(Succeed())
		enforced(ctx, "red", "10.1.3.3", "fd00:1:3::3")

		By("deleting the policy")
		Expect(admin.Delete(ctx, red)).To(Succeed())
		Eventually(objects).WithArguments(ctx).WithTimeout(soon).Should(BeEmpty())
	})
})

func named(o client.Object) client.Object {
	o.SetName(v1alpha1.ExclusiveName)
	return o
}
func dataObject() client.Object {
	return named(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: home}})
}
func bindingObject() client.Object {
	return named(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{})
}
func policyObject() client.Object { return named(&admissionregistrationv1.ValidatingAdmissionPolicy{}) }
func change(ctx context.Context, o client.Object, text string) {
	GinkgoHelper()
	Expect(admin.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
}

// The operator keeps what the API server is given, and tells what only an admin can mend.
var _ = Describe("What the API server is given", Ordered, ContinueOnFailure, func() {
	stranger := func(ctx context.Context) error { return try(ctx, "plain", "stranger", nil, "10.1.7.3", "fd00:1:7::3") }
	status := func(ctx context.Context) metav1.Condition { return condition(ctx, "red", v1alpha1.PolicyEnforced) }

	var stop func()
	var red *v1alpha1.ServiceCIDRPolicy
	BeforeEach(func(ctx SpecContext) {
		stop = start(ctx)
		offer(ctx, "red", "10.1.7.0/28", "fd00:1:7::/124")
		red = exclusive("red", "red", "red")
		create(ctx, red)
		enforced(ctx, "red", "10.1.7.3", "fd00:1:7::3")
	})

	// The generation of the policy is another one then, and the API server has nothing to be told.
	It("is told of again after an edit that changes none of it", func(ctx SpecContext) {
		for _, priority := range []int{5, 6} {
			change(ctx, red, fmt.Sprintf(`{"spec":{"priority":%d}}`, priority))
			Eventually(status).WithArguments(ctx).WithTimeout(soon).Should(And(
				HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", red.Generation)))
		}
	})

	It("is put back when it is changed or deleted", func(ctx SpecContext) {
		var before corev1.ConfigMap
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(dataObject()), &before)).To(Succeed())
		as := func() map[string]string {
			var now corev1.ConfigMap
			if admin.Get(ctx, client.ObjectKeyFromObject(dataObject()), &now) != nil {
				return nil
			}
			return now.Data
		}
		change(ctx, dataObject(), `{"data":{"ipv4-lengths":""}}`)
		Eventually(as).WithTimeout(soon).Should(Equal(before.Data))
		Expect(admin.Delete(ctx, dataObject())).To(Succeed())
		Eventually(as).WithTimeout(soon).Should(Equal(before.Data))
		change(ctx, bindingObject(), `{"spec":{"paramRef":{"name":"other"}}}`)
		Eventually(func() (string, error) {
			var b admissionregistrationv1.ValidatingAdmissionPolicyBinding
			if err := admin.Get(ctx, client.ObjectKeyFromObject(bindingObject()), &b); err != nil {
				// It is deleted and written again, as an apply would leave what a user added.
				return "", err
			}
			return b.Spec.ParamRef.Name, nil
		}).WithTimeout(soon).Should(Equal(v1alpha1.ExclusiveName))
		Expect(admin.Delete(ctx, bindingObject())).To(Succeed())
		Eventually(objects).WithArguments(ctx).WithTimeout(soon).Should(HaveLen(2))
		Eventually(stranger).WithArguments(ctx).WithTimeout(soon).Should(beRefused("red"))
	})

	// The binding is away for longer than the second in which an API server looks which bindings
	// there are.
	It("is followed by the API server also after a time in which no policy wanted it", Label("all"), func(ctx SpecContext) {
		change(ctx, red, `{"spec":{"enforcement":"Webhook"}}`)
		Eventually(objects).WithArguments(ctx).WithTimeout(soon).Should(BeEmpty())
		Eventually(stranger).WithArguments(ctx).WithTimeout(soon).Should(Succeed()) // the API server hears of it by a watch
		Consistently(stranger).WithArguments(ctx).WithTimeout(3 * time.Second).Should(Succeed())
		offer(ctx, "more", "10.1.9.0/28", "fd00:1:9::/124")
		change(ctx, red, `{"spec":{"enforcement":"APIServer","serviceCIDRs":["red","more"]}}`)
		enforced(ctx, "red", "10.1.7.3", "fd00:1:7::3", "10.1.9.3", "fd00:1:9::3")
	})

	// The operator is gone, and mends nothing. Without the policy, whose deletion has a control
	// plane of its own below, nothing is evaluated either.
	It("refuses no Service any more when the ConfigMap or the binding is deleted", func(ctx SpecContext) {
		stop()
		for _, o := range []client.Object{dataObject(), bindingObject()} {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
			Expect(admin.Delete(ctx, o)).To(Succeed())
			Eventually(stranger).WithArguments(ctx).WithTimeout(soon).Should(Succeed(), "without the %T", o)
			o.SetResourceVersion("")
			o.SetUID("")
			Expect(admin.Create(ctx, o)).To(Succeed())
			Eventually(stranger).WithArguments(ctx).WithTimeout(soon).Should(beRefused("red"))
		}
		for _, o := range []client.Object{bindingObject(), dataObject()} {
			Expect(admin.Delete(ctx, o)).To(Succeed())
		}
	})

	It("has nothing in an expression that users wrote", func(ctx SpecContext) {
		p := policyObject().(*admissionregistrationv1.ValidatingAdmissionPolicy)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		Expect(p.Spec.String()).NotTo(Or(ContainSubstring("10.1.7"), ContainSubstring("tenant"), ContainSubstring("red")))
	})
})

// On a control plane of its own: an API server that had a policy without a binding does not follow
// ConfigMaps any more.
var _ = Describe("What an admin applies or deletes", Ordered, func() {
	stranger := func(ctx context.Context) error { return try(ctx, "plain", "stranger", nil, "10.1.7.3", "fd00:1:7::3") }
	status := func(ctx context.Context) metav1.Condition { return condition(ctx, "red", v1alpha1.PolicyEnforced) }
	BeforeAll(func(ctx SpecContext) {
		before, reader := cp, admin
		DeferCleanup(func() { cp, admin = before, reader })
		prepare(ctx)
		offer(ctx, "red", "10.1.7.0/28", "fd00:1:7::/124")
		start(ctx)
		create(ctx, exclusive("red", "red", "red"))
		enforced(ctx, "red", "10.1.7.3", "fd00:1:7::3")
	})

	It("is a policy, and the condition says so where it is another one or missing", Label("long"), func(ctx SpecContext) {
		change(ctx, policyObject(), `{"spec":{"validations":[{"expression":"true"}]}}`)
		Eventually(status).WithArguments(ctx).WithTimeout(soon).Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", "PolicyDiffers")))
		Expect(cp.InstallEnforcement(ctx)).To(Succeed())
		enforced(ctx, "red", "10.1.7.3", "fd00:1:7::3")

		Expect(admin.Delete(ctx, policyObject())).To(Succeed())
		Eventually(status).WithArguments(ctx).WithTimeout(soon).Should(And(HaveField("Status", metav1.ConditionFalse),
			HaveField("Reason", "PolicyMissing"), HaveField("Message", ContainSubstring("kubectl apply --server-side -k config/default"))))
		Eventually(stranger).WithArguments(ctx).WithTimeout(soon).Should(Succeed())
		Expect(cp.InstallEnforcement(ctx)).To(Succeed())
		Eventually(status).WithArguments(ctx).WithTimeout(soon).Should(HaveField("Status", metav1.ConditionTrue))
	})
})

// The API server gives an expression 1,000,000 units, and refuses a Service for which they do not
// last.
var _ = Describe("What looking an address up costs", Ordered, func() {
	It("stays below the limit of the API server when the data are as large as they may be", func(ctx SpecContext) {
		offer(ctx, "dear", "10.1.8.0/28", "fd00:1:8::/124")
		w := steering.Inputs{ServiceCIDRs: []addressindex.ServiceCIDR{newServiceCIDR("dear", "10.1.8.0/28", "fd00:1:8::/124")}}
		for i := range 4_900 { // ranges of some lengths, to be looked up in vain
			w.ServiceCIDRs = append(w.ServiceCIDRs, newServiceCIDR(fmt.Sprint("r", i), fmt.Sprintf("10.%d.%d.0/%d", 100+i/250, i%250, 24+i%3), fmt.Sprintf("fd00:2:%x::/%d", i, 112+i%3)))
		}
		wide := exclusive("wide-"+strings.Repeat("w", 50), "nobody")
		wide.Spec.ServiceCIDRSelector, wide.Spec.Priority = &metav1.LabelSelector{}, -1
		w.Policies = append(w.Policies, wide)
		all := map[string]string{"z": "neither"}
		for c := 'a'; c < 'm'; c++ {
			all[string(c)] = "x"
		}
		const policies = 540
		// The policies share the range; of the selector of each all lines have to be read.
		for i := range policies {
			p := exclusive(fmt.Sprint("p", i), "", "dear")
			p.Spec.NamespaceSelector, p.Spec.Priority = nil, int32(policies-i)
			p.Spec.Exclusive = i == policies-1
			p.Spec.ServiceSelector = &metav1.LabelSelector{} // of the shortest lines there are
			for name := range all {
				p.Spec.ServiceSelector.MatchExpressions = append(p.Spec.ServiceSelector.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: name, Operator: metav1.LabelSelectorOpExists})
			}
			last := metav1.LabelSelectorRequirement{Key: "z", Operator: metav1.LabelSelectorOpIn, Values: []string{"no"}}
			if i == policies-1 {
				last.Values = []string{"yes"}
			}
			p.Spec.ServiceSelector.MatchExpressions = append(p.Spec.ServiceSelector.MatchExpressions, last)
			w.Policies = append(w.Policies, p)
		}
		got := steering.Compile(w).Enforce(corev1.MaxSecretSize)
		size := 0
		for _, text := range got.Data {
			size += len(text)
		}
		AddReportEntry("bytes", fmt.Sprintf("%d, of these %d of selectors", size, len(got.Data["selectors"])))
		Expect(got.LeftOut).To(BeEmpty())
		Expect(size).To(BeNumerically(">", 900<<10))
		Expect(len(got.Data["selectors"])).To(BeNumerically(">", 120<<10))
		Expect(strings.Count(got.Data["28-0.0.0.0-0"], " ")).To(BeNumerically(">", 500), "positions of selectors")

		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: v1alpha1.ExclusiveName}, Data: got.Data}
		Eventually(func() error { // the operator of the spec before may have left its own
			if err := admin.Delete(ctx, config.DeepCopy()); client.IgnoreNotFound(err) != nil {
				return err
			}
			return admin.Create(ctx, config)
		}).Should(Succeed())
		bound := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExclusiveName}}
		bound.Spec = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: v1alpha1.ExclusiveName, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			ParamRef: &admissionregistrationv1.ParamRef{Name: config.Name, Namespace: home, ParameterNotFoundAction: new(admissionregistrationv1.AllowAction)},
		}
		Eventually(func() error {
			if err := admin.Delete(ctx, bound.DeepCopy()); client.IgnoreNotFound(err) != nil {
				return err
			}
			return admin.Create(ctx, bound)
		}).Should(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.Delete(ctx, bound)).To(Succeed())
			Expect(admin.Delete(ctx, config)).To(Succeed())
		})
		Eventually(func() error { return try(ctx, "blue", "stranger", all, "10.1.8.3", "fd00:1:8::3") }).WithTimeout(soon).Should(beRefused("p539"), "%d bytes of selectors", len(got.Data["selectors"]))
		all["z"] = "yes"
		Expect(try(ctx, "red", "mine", all, "10.1.8.4", "fd00:1:8::4")).To(Succeed(), "the last selector")
		Expect(try(ctx, "blue", "elsewhere", nil, "10.96.0.17", "fd00:10:96::11")).To(Succeed())
		many := service("blue", "many", nil, "10.96.0.18", "fd00:10:96::12")
		for i := range 8 {
			many.Spec.ExternalIPs = append(many.Spec.ExternalIPs, fmt.Sprintf("192.0.2.%d", 1+i))
		}
		Expect(admin.Create(ctx, many)).To(Succeed(), "with external IPs")
		Expect(admin.Delete(ctx, many)).To(Succeed())
	})
})

func newServiceCIDR(name string, cidrs ...string) addressindex.ServiceCIDR {
	return addressindex.NewServiceCIDR(framework.NewServiceCIDR(name, cidrs...))
}

// compiled are the rules that these policies make of the ServiceCIDRs that are there.
func compiled(ctx context.Context, policies ...*v1alpha1.ServiceCIDRPolicy) *steering.Compiled {
	GinkgoHelper()
	w := steering.Inputs{Policies: policies}
	list := &networkingv1.ServiceCIDRList{}
	Expect(admin.List(ctx, list)).To(Succeed())
	for i := range list.Items {
		w.ServiceCIDRs = append(w.ServiceCIDRs, addressindex.NewServiceCIDR(&list.Items[i]))
	}
	return steering.Compile(w)
}

var _ = Describe("Services that got in all the same", Ordered, func() {
	// noted are the notes of the events on a Service.
	noted := func(ctx context.Context, s *corev1.Service) (notes []string) {
		GinkgoHelper()
		list := &eventsv1.EventList{}
		Expect(admin.List(ctx, list, client.InNamespace(s.Namespace))).To(Succeed())
		for _, e := range list.Items {
			if e.Regarding.UID == s.UID && e.Reason == "ClusterIPKeptForOthers" {
				notes = append(notes, e.Note)
			}
		}
		return notes
	}

	It("are told of in a condition of the policy and an event on the Service, until they are gone", func(ctx SpecContext) {
		offer(ctx, "red", "10.1.5.0/28", "fd00:1:5::/124")
		guest := put(ctx, service("plain", "guest", nil, "10.1.5.3", "fd00:1:5::3"))
		put(ctx, service("red", "mine", map[string]string{"app": "web"}, "10.1.5.4"))
		labelled := put(ctx, service("red", "unlabelled", nil, "10.1.5.5"))
		red := exclusive("red", "red", "red")
		red.Spec.Enforcement = v1alpha1.EnforcementWebhook
		red.Spec.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		create(ctx, red)
		start(ctx)

		violated := func() metav1.Condition { return condition(ctx, "red", v1alpha1.PolicyViolated) }
		Eventually(violated).WithTimeout(soon).Should(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", And(
			ContainSubstring("Service plain/guest has 10.1.5.3"), ContainSubstring("Service plain/guest has fd00:1:5::3"),
			ContainSubstring("Service red/unlabelled has 10.1.5.5"), Not(ContainSubstring("mine"))))))
		Eventually(func() []string { return noted(ctx, guest) }).WithTimeout(soon).Should(ConsistOf(ContainSubstring("10.1.5.3"), ContainSubstring("fd00:1:5::3")))

		By("one of them goes, and the other's namespace is selected without a label now")
		Expect(admin.Delete(ctx, guest)).To(Succeed())
		Eventually(violated).WithTimeout(soon).Should(HaveField("Message", Not(ContainSubstring("guest"))))
		Expect(admin.Delete(ctx, labelled)).To(Succeed())
		Eventually(violated).WithTimeout(soon).Should(BeZero())

		By("a namespace changes its labels")
		blue := put(ctx, service("blue", "moved", map[string]string{"app": "web"}, "10.1.5.6"))
		Eventually(violated).WithTimeout(soon).Should(HaveField("Message", ContainSubstring("blue/moved")))
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
		relabel := func(tenant string) error {
			return admin.Patch(ctx, n, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"tenant":%q}}}`, tenant)))
		}
		Expect(relabel("red")).To(Succeed())
		Eventually(violated).WithTimeout(soon).Should(BeZero())
		Expect(relabel("blue")).To(Succeed())
		Eventually(violated).WithTimeout(soon).Should(HaveField("Message", ContainSubstring("blue/moved")))
		Expect(noted(ctx, blue)).NotTo(BeEmpty())
	})
})
