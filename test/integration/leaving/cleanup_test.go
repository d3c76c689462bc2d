package leaving_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// An admin deletes the Deployment, or the manager dies with its node, and the clean-up is missed:
//
//  1. The manager is killed while it leads, so that its Lease stays behind.
//  2. Services get addresses and lost IPAddresses come back: that was never ours alone.
//  3. An unneeded range is deleted. kube-controller-manager releases it, our finalizer holds it.
//  4. `manager cleanup` lets go. Until the Lease has run out, it believes that the manager runs.
//  5. The operator is installed anew: nothing of the clean-up stands in its way.
var _ = It("A manager that is simply gone is not missed, can be cleaned up after, and may come back", Label("long"), func(ctx SpecContext) {
	c := cluster.Start(ctx, cluster.Options{BesideUpstream: true, OperatorArgs: []string{"--leader-elect=true", leaseNamespace}})
	c.CreateServiceCIDR(ctx, "stuck", "10.104.0.0/24")
	c.WaitLookedAfter(ctx, "stuck")
	Expect(c.Operator.Kill()).To(Succeed())
	output, status := cleanUp(ctx, c, leaseNamespace)
	Expect(status).To(Equal(couldNot), strings.Join(output, "\n"))
	worksByItself(ctx, c)

	c.DeleteServiceCIDRs(ctx, "stuck")
	Eventually(c.ServiceCIDR).WithArguments(ctx, "stuck").Should(HaveField("Finalizers", ConsistOf(cluster.OurFinalizer)), "kube-controller-manager lets go")

	Eventually(func() int {
		output, status = cleanUp(ctx, c, leaseNamespace)
		return status
	}).WithPolling(time.Second).Should(Equal(done), "the Lease runs out")
	Expect(output).To(ContainElement(HavePrefix("removed the finalizer of ServiceCIDR stuck")), "until then, nothing else has done so")
	Eventually(c.Remaining).WithArguments(ctx, "stuck").Should(BeEmpty())
	after := everything(ctx, c)
	Expect(bare(after).Changes(after.Content())).To(BeEmpty())

	c.StartOperator(ctx, "--leader-elect=true", leaseNamespace)
	c.WaitLookedAfter(ctx, "kubernetes")
	service := c.CreateService(ctx, "returned", framework.RequireDualStack())
	Eventually(c.Labels).WithArguments(ctx, service.Spec.ClusterIP).Should(HaveKey(cluster.BandLabel))
})

// What the clean-up meets is laid out by hand here; no manager runs.
var _ = Describe("The clean-up", Ordered, ContinueOnFailure, func() {
	var c *cluster.Cluster

	BeforeAll(func(ctx SpecContext) { c = cluster.Start(ctx, cluster.Options{WithoutOperator: true}) })

	// The Lease tells whether a manager works. One that is expired or was given back has no holder.
	DescribeTable("looks at the Lease", func(ctx SpecContext, holder string, renewed time.Duration, args []string, want int) {
		lease(ctx, c, holder, time.Now().Add(-renewed))
		layOut(ctx, c, "leased")
		output, status := cleanUp(ctx, c, append(args, leaseNamespace)...)
		Expect(status).To(Equal(want), strings.Join(output, "\n"))
		if want == done {
			Expect(c.ServiceCIDR(ctx, "leased").Finalizers).To(BeEmpty())
		} else {
			Expect(strings.Join(output, "\n")).To(ContainSubstring(holder), "who runs")
			Expect(c.ServiceCIDR(ctx, "leased").Finalizers).To(ConsistOf(cluster.OurFinalizer))
		}
	},
		Entry("and refuses while somebody renews it", "manager-7c9f_1", time.Second, nil, couldNot),
		Entry("and goes on if it is forced", "manager-7c9f_1", time.Second, []string{"--force"}, done),
		Entry("and goes on when it has run out", "manager-7c9f_1", time.Minute, nil, done),
		Entry("and goes on when it was given back", "", time.Second, nil, done),
	)

	// Objects restored from a backup have the restoring program as their writer: only the name of a
	// condition still says that the operator wrote it.
	It("knows conditions by their names, whoever wrote them", func(ctx SpecContext) {
		layOut(ctx, c, "restored")
		suite.Must(c.Networking().ServiceCIDRs().Patch(ctx, "restored", types.StrategicMergePatchType, fmt.Appendf(nil, `{"status":{"conditions":[
			{"type":"%s","status":"False","reason":"EnoughFree","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},
			{"type":"example.com/Announced","status":"True","reason":"Bgp","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			cluster.NearlyFull), metav1.PatchOptions{FieldManager: "backup"}, "status"))
		for _, want := range []OmegaMatcher{ContainElement(ContainSubstring(cluster.NearlyFull)), BeEmpty()} {
			said, status := cleanUp(ctx, c)
			Expect(status).To(Equal(done))
			Expect(said).To(want)
			Expect(c.ServiceCIDR(ctx, "restored").Status.Conditions).To(ConsistOf(HaveField("Type", "example.com/Announced")))
		}
	})

	It("leaves kube-controller-manager's finalizer where it is", func(ctx SpecContext) {
		layOut(ctx, c, "upstreams")
		suite.Must(c.Networking().ServiceCIDRs().Patch(ctx, "upstreams", types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"metadata":{"finalizers":[%q]}}`, cluster.UpstreamFinalizer), metav1.PatchOptions{FieldManager: "kube-controller-manager"}))
		_, status := cleanUp(ctx, c)
		Expect(status).To(Equal(done))
		Expect(c.ServiceCIDR(ctx, "upstreams").Finalizers).To(ConsistOf(cluster.UpstreamFinalizer))
	})

	// Whatever renumbering has done: without the operator, no controller releases what it holds.
	It("lets go of former addresses, and says whose they are", func(ctx SpecContext) {
		held, former := c.CreateService(ctx, "held", framework.RequireDualStack()), c.CreateService(ctx, "former", framework.RequireDualStack())
		for _, address := range append(held.Spec.ClusterIPs, former.Spec.ClusterIPs...) {
			c.PatchIPAddress(ctx, address, `{"metadata":{"finalizers":["clusterip-operator.io/former-address"]}}`)
		}
		Expect(c.PatchService(ctx, "former", `{"spec":{"type":"ExternalName","externalName":"renumbering.invalid","clusterIP":null,"clusterIPs":null}}`)).Error().NotTo(HaveOccurred())
		relabelled := former.Spec.ClusterIPs[0]
		c.PatchIPAddress(ctx, relabelled, `{"metadata":{"labels":{"ipaddress.kubernetes.io/managed-by":"clusterip-operator.io","clusterip-operator.io/purpose":"additional"}}}`)
		told, status := cleanUp(ctx, c, "--dry-run")
		Expect(status).To(Equal(done))
		said, status := cleanUp(ctx, c)
		Expect(status).To(Equal(done))
		for i := range told {
			told[i] = strings.TrimPrefix(told[i], "would have ")
		}
		Expect(said).To(ConsistOf(told))
		for _, address := range held.Spec.ClusterIPs {
			Expect(said).To(ContainElement("removed the finalizer of IPAddress " + address + " of Service default/held"))
			Expect(c.IPAddress(ctx, address)).To(And(HaveField("Finalizers", BeEmpty()), HaveField("DeletionTimestamp", BeNil())))
		}
		for _, address := range former.Spec.ClusterIPs {
			Expect(said).To(ContainElement("removed the finalizer of IPAddress " + address + " of Service default/former: the address is free, also if renumbering was under way"))
			Expect(c.IPAddress(ctx, address)).To(BeNil())
		}
	})

	// Lists come in pages of 500, and what is selected by its label leaves the selection as the label
	// is removed. Pages counted from the front would skip as many as were done.
	It("reaches each of thousands of IPAddresses", Label("long"), func(ctx SpecContext) {
		const many, kept = 1200, 600
		crowd(ctx, c, many, func(i int) *networkingv1.IPAddress {
			return reserved(fmt.Sprintf("10.140.%d.%d", i/200, i%200), widgets, framework.WithIPLabel(cluster.BandLabel, "dynamic"))
		})
		crowd(ctx, c, kept, func(i int) *networkingv1.IPAddress {
			return reserved(fmt.Sprintf("fd00:140::%x:%x", i/200+1, i%200+1), cluster.ManagedByUs, framework.WithIPLabel(cluster.BandLabel, "static"))
		})
		crowd(ctx, c, 100, func(i int) *networkingv1.IPAddress { // in between, and nothing of ours
			return reserved(fmt.Sprintf("10.140.%d.%d", i/50, 200+i%50), widgets)
		})
		before := everything(ctx, c)

		said, status := cleanUp(ctx, c)
		Expect(status).To(Equal(done))
		after := everything(ctx, c)
		Expect(bare(before).Changes(after.Content())).To(BeEmpty())
		Expect(before.Count(inventory.IPAddresses) - after.Count(inventory.IPAddresses)).To(Equal(kept))
		Expect(strings.Count(strings.Join(said, "\n"), "removed the label")).To(Equal(many + kept))
		Expect(strings.Count(strings.Join(said, "\n"), "deleted IPAddress")).To(Equal(kept))
	})
})

// layOut makes a ServiceCIDR with our finalizer, if it is not there.
func layOut(ctx context.Context, c *cluster.Cluster, name string) {
	GinkgoHelper()
	if c.ServiceCIDR(ctx, name) == nil {
		c.CreateServiceCIDR(ctx, name, "10.150.0.0/24")
	}
	suite.Must(c.Networking().ServiceCIDRs().Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"finalizers":["%s"]}}`, cluster.OurFinalizer), metav1.PatchOptions{}))
}

// lease writes the Lease of a manager.
func lease(ctx context.Context, c *cluster.Cluster, holder string, renewed time.Time) {
	GinkgoHelper()
	leases := c.Client().CoordinationV1().Leases(cluster.Namespace)
	Expect(leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	suite.Must(leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "clusterip-operator"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: renewed},
		},
	}, metav1.CreateOptions{}))
}

// crowd creates n IPAddresses from many clients at once.
func crowd(ctx context.Context, c *cluster.Cluster, n int, build func(i int) *networkingv1.IPAddress) {
	GinkgoHelper()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			_, err := c.Networking().IPAddresses().Create(ctx, build(i), metav1.CreateOptions{})
			return err
		})
	}
	Expect(group.Wait()).To(Succeed())
}
