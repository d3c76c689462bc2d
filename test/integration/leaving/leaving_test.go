package leaving_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// The last days of the operator in a cluster, beside kube-controller-manager:
//
//  1. It has written all that it ever writes: finalizers, all conditions, labels, own IPAddresses.
//     Other writers have added their labels, annotations, finalizers and conditions.
//  2. The admin asks what would be done, and tries to do it too early.
//  3. The manager is stopped, and the clean-up runs, twice.
//  4. The cluster goes on with the API server and kube-controller-manager alone.
var _ = Describe("An operator that leaves", Ordered, func() {
	var (
		c      *cluster.Cluster
		before inventory.Objects // just before the clean-up
		told   []string          // what the dry run said
		said   []string          // what the clean-up said
	)

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{BesideUpstream: true, WithoutOperator: true})
		live(ctx, c)
	})

	// No admin removes finalizers unseen. The manager still runs, as asking needs no downtime.
	It("tells beforehand what would be done, and does nothing", func(ctx SpecContext) {
		calm := settled(ctx, c)
		var status int
		told, status = cleanUp(ctx, c, leaseNamespace, "--dry-run")
		Expect(status).To(Equal(done), strings.Join(told, "\n"))
		Expect(calm.Changes(everything(ctx, c))).To(BeEmpty())
		Expect(told).To(HaveEach(HavePrefix("would have ")))
		Expect(told).To(ContainElements("would have removed the finalizer of ServiceCIDR ours", HavePrefix("would have deleted IPAddress "+own),
			"would have deleted Secret default/"+cluster.CertificateSecret, "would have removed the label "+cluster.BandLabel+" of IPAddress 10.102.0.30"))
	})

	// A manager that runs would write everything anew, and the admin would believe that it is gone.
	It("refuses while the manager runs, and says what to do", func(ctx SpecContext) {
		calm := settled(ctx, c)
		output, status := cleanUp(ctx, c, leaseNamespace)
		Expect(status).To(Equal(couldNot))
		Expect(strings.Join(output, "\n")).To(cluster.ContainAll("is running", "scale its Deployment to 0", "--force"))
		Expect(calm.Changes(everything(ctx, c))).To(BeEmpty())
	})

	// The manager has ended as when its Deployment is scaled to 0: it has given its Lease back.
	It("goes without being forced when the manager has ended", func(ctx SpecContext) {
		Expect(c.Operator.Stop()).To(Succeed())
		before = settled(ctx, c)
		var status int
		said, status = cleanUp(ctx, c, leaseNamespace)
		Expect(status).To(Equal(done), strings.Join(said, "\n"))
		for i := range told {
			told[i] = strings.TrimPrefix(told[i], "would have ")
		}
		Expect(said).To(ConsistOf(told), "it does what it had told")
	})

	// Once we let go, the range may go by upstream's rules, which know less: the admin must know.
	It("says who decides from now on about a range that is being deleted", func() {
		Expect(said).To(ContainElement(And(
			ContainSubstring("finalizer of ServiceCIDR closing"), ContainSubstring("from now on upstream's finalizer alone decides"))))
		Expect(said).NotTo(ContainElement(And(ContainSubstring("ServiceCIDR theirs"), ContainSubstring("upstream's finalizer"))))
	})

	// What other writers wrote in the same objects is the same, to the letter. Ready is left out where
	// only the operator had written it; kube-controller-manager writes it anew there.
	It("takes away what is ours, and nothing else", func(ctx SpecContext) {
		after := everything(ctx, c)
		ownReady := []string{"ours", "closing"}
		Expect(withoutReady(bare(before), ownReady...).Changes(withoutReady(after.Content(), ownReady...))).To(BeEmpty())
		Expect(bare(after).Changes(after.Content())).To(BeEmpty())
	})

	It("does not even touch the objects in which nothing is ours", func(ctx SpecContext) {
		strangers, after := before.Without(inventory.ServiceCIDRs), everything(ctx, c)
		content, without := before.Content(), bare(before)
		maps.DeleteFunc(strangers, func(name string, _ *unstructured.Unstructured) bool {
			return without[name] == nil || !equality.Semantic.DeepEqual(content[name], without[name])
		})
		maps.DeleteFunc(after, func(name string, _ *unstructured.Unstructured) bool { return strangers[name] == nil })
		Expect(strangers.Get(inventory.IPAddresses, "", foreign)).NotTo(BeNil())
		Expect(strangers.Count(inventory.Services)).To(BeNumerically(">", 3))
		Expect(strangers.Changes(after)).To(BeEmpty())
	})

	// kube-controller-manager wrote Ready before the operator came; the API server its own range's.
	It("leaves Ready where others have written it too", func(ctx SpecContext) {
		after := everything(ctx, c)
		for _, name := range []string{"theirs", "kubernetes"} {
			was, is := ready(before, name), ready(after, name)
			Expect(was).NotTo(BeNil(), name)
			Expect(is).To(Equal(was), name)
		}
		By("waiting until kube-controller-manager has written the others")
		Eventually(c.Condition).WithArguments(ctx, "ours", cluster.Ready).Should(HaveField("Status", metav1.ConditionTrue))
	})

	It("can be asked a second time, and finds nothing", func(ctx SpecContext) {
		calm := settled(ctx, c)
		again, status := cleanUp(ctx, c, leaseNamespace)
		Expect(status).To(Equal(done))
		Expect(again).To(BeEmpty())
		Expect(calm.Changes(everything(ctx, c))).To(BeEmpty())
	})

	Context("leaves a cluster that", func() {
		It("allocates and repairs", func(ctx SpecContext) { worksByItself(ctx, c) })

		// One range was being deleted when we left, one is deleted now. Both contain a Service. Upstream
		// gives a range that nothing holds ten seconds: when one goes that was deleted after these two,
		// theirs are over.
		It("keeps a range until its Service goes", func(ctx SpecContext) {
			c.CreateServiceCIDR(ctx, "later", "10.105.0.0/24")
			Eventually(c.Condition).WithArguments(ctx, "later", cluster.Ready).Should(HaveField("Status", metav1.ConditionTrue))
			c.DeleteServiceCIDRs(ctx, "ours")
			terminating := HaveField("Reason", networkingv1.ServiceCIDRReasonTerminating)
			for _, name := range []string{"ours", "closing"} {
				Eventually(c.Condition).WithArguments(ctx, name, cluster.Ready).Should(terminating, name)
			}
			c.DeleteIPAddress(ctx, foreign) // upstream does not look at it
			c.DeleteServiceCIDRs(ctx, "later")
			Eventually(c.Remaining).WithArguments(ctx, "later").Should(BeEmpty())
			Expect(c.Remaining(ctx, "ours", "closing")).To(HaveLen(2))
			c.DeleteServices(ctx, framework.NewService(cluster.Namespace, "in-ours"), framework.NewService(cluster.Namespace, "in-closing"))
			Eventually(c.Remaining).WithArguments(ctx, "ours", "closing").Should(BeEmpty())
		})

		It("has nothing of ours in it after all that", func(ctx SpecContext) {
			after := everything(ctx, c)
			Expect(bare(after).Changes(after.Content())).To(BeEmpty())
		})
	})
})

const (
	foreign = "10.102.0.40" // managed by widgets
	own     = "10.102.0.50" // kept by the operator for itself
	ownSix  = "fd00:102::50"
)

// live lets the operator and the other writers write all that they write.
func live(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	By("kube-controller-manager alone")
	c.CreateServiceCIDR(ctx, "theirs", "10.101.0.0/24")
	c.WaitLookedAfter(ctx, "theirs", "kubernetes")

	By("the operator beside it, with a range that the API server does not have")
	c.StartOperator(ctx, "--leader-elect=true", leaseNamespace, "--service-cluster-ip-range=10.90.0.0/16", "--reserved-networks=office=10.102.0.0/25")
	Expect(c.Upstream.Pause()).To(Succeed())
	c.CreateServiceCIDR(ctx, "ours", "10.102.0.0/24", "fd00:102::/120")
	c.CreateServiceCIDR(ctx, "closing", "10.103.0.0/24")
	for _, name := range []string{"ours", "closing"} {
		Eventually(c.Condition).WithArguments(ctx, name, cluster.Ready).Should(HaveField("Status", metav1.ConditionTrue))
		Expect(c.ServiceCIDR(ctx, name).Finalizers).To(ConsistOf(cluster.OurFinalizer))
	}
	Expect(c.Upstream.Resume()).To(Succeed())
	c.WaitLookedAfter(ctx, "theirs", "kubernetes", "ours", "closing")

	By("Services, and other people's marks")
	c.HoldAddress(ctx, "in-theirs", "10.101.0.30")
	c.HoldAddress(ctx, "in-ours", "10.102.0.30", "fd00:102::30")
	c.HoldAddress(ctx, "in-closing", "10.103.0.30")
	c.HoldAddress(ctx, "web", "10.96.7.7", "fd00:10:96::7007")
	marks := fmt.Sprintf(`{"metadata":{"labels":{"team":"shop"},"annotations":{"example.com/note":"keep me"},"finalizers":["%s"]}}`, theirHold)
	c.CreateIPAddress(ctx, reserved(foreign, widgets))
	c.PatchIPAddress(ctx, foreign, marks)
	c.PatchIPAddress(ctx, "10.102.0.30", `{"metadata":{"labels":{"team":"shop"},"annotations":{"example.com/note":"keep me"}}}`)
	suite.Must(c.Networking().ServiceCIDRs().Patch(ctx, "theirs", types.StrategicMergePatchType, []byte(marks), metav1.PatchOptions{}))
	suite.Must(c.PatchService(ctx, "in-theirs", fmt.Sprintf(`{"metadata":{"annotations":{"%s":"ours","example.com/note":"keep me"}}}`, cluster.AdditionalFrom)))
	c.Kubectl(ctx, "create", "secret", "generic", cluster.CertificateSecret)
	c.CreateIPAddress(ctx, reserved(own, cluster.ManagedByUs))
	c.CreateIPAddress(ctx, reserved(ownSix, cluster.ManagedByUs, framework.WithIPLabel(cluster.BandLabel, "dynamic")))
	c.DeleteServiceCIDRs(ctx, "closing")

	By("waiting for the operator's own")
	Eventually(c.Warning(ctx, "closing", cluster.DeletionBlocked)).ShouldNot(BeEmpty())
	Eventually(c.Warning(ctx, "ours", cluster.NetworkOverlap)).ShouldNot(BeEmpty())
	Eventually(c.Warning(ctx, "kubernetes", cluster.DefaultRangeMismatch)).ShouldNot(BeEmpty())
	const unlabelled = networkingv1.LabelManagedBy + "=" + framework.ManagedByUpstream + ",!" + cluster.BandLabel
	Eventually(c.Kubectl).WithArguments(ctx, "get", "ipaddresses", "-l", unlabelled, "-o", "name").Should(BeEmpty())
}

func conditions(object *unstructured.Unstructured) []any {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return all
}

func conditionType(condition any) string {
	kind, _ := condition.(map[string]any)["type"].(string)
	return kind
}

// dropConditions leaves an empty status where the last one goes.
func dropConditions(object *unstructured.Unstructured, drop func(kind string) bool) {
	status, _ := object.Object["status"].(map[string]any)
	if left := slices.DeleteFunc(conditions(object), func(c any) bool { return drop(conditionType(c)) }); len(left) > 0 {
		status["conditions"] = left
	} else {
		delete(status, "conditions")
	}
}

// bare is the content of objects without everything that is ours.
func bare(objects inventory.Objects) inventory.Objects {
	left := objects.Content()
	for name, object := range left {
		labels := object.GetLabels()
		if labels[networkingv1.LabelManagedBy] == cluster.ManagedByUs || object.GetKind() == "Secret" && object.GetName() == cluster.CertificateSecret {
			delete(left, name)
			continue
		}
		if labels[cluster.BandLabel] != "" {
			delete(labels, cluster.BandLabel)
			object.SetLabels(labels)
		}
		if annotations := object.GetAnnotations(); annotations[cluster.UsageAnnotation] != "" {
			delete(annotations, cluster.UsageAnnotation)
			if len(annotations) == 0 {
				annotations = nil
			}
			object.SetAnnotations(annotations)
		}
		if finalizers := object.GetFinalizers(); slices.Contains(finalizers, cluster.OurFinalizer) {
			left := slices.DeleteFunc(finalizers, func(f string) bool { return f == cluster.OurFinalizer })
			object.SetFinalizers(append([]string(nil), left...)) // nil for none
		}
		dropConditions(object, func(kind string) bool { return strings.HasPrefix(kind, ourPrefix) })
	}
	return left
}

// withoutReady takes Ready away from the named ServiceCIDRs.
func withoutReady(objects inventory.Objects, names ...string) inventory.Objects {
	for _, name := range names {
		if object := objects.Get(inventory.ServiceCIDRs, "", name); object != nil {
			dropConditions(object, func(kind string) bool { return kind == cluster.Ready })
		}
	}
	return objects
}

// ready returns Ready of a ServiceCIDR, nil if it has none.
func ready(objects inventory.Objects, name string) any {
	for _, condition := range conditions(objects.Get(inventory.ServiceCIDRs, "", name)) {
		if conditionType(condition) == cluster.Ready {
			return condition
		}
	}
	return nil
}
