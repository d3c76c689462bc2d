package behaviour_test

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// The counterexamples that test/handover finds without a guard, against a real API server: between
// what a leader reads and what it writes a proxy puts all that the next leader and users do.
var _ = Describe("A write of a leader that arrives when another one leads", Label("all"), Ordered, func() {
	const four, six = "10.96.0.9", "fd00:10:96::9"
	var (
		c         *cluster.Cluster
		collector kubernetes.Interface // the guard of IPAddresses lets it pass
	)

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{Installed: true})
		collector = cluster.ClientAs(c.Access, "system:serviceaccount:kube-system:generic-garbage-collector")
		c.Kubectl(ctx, "apply", "--server-side", "-f", cluster.Repository+"/config/components/history/role.yaml")
	})

	// lead starts a leader behind a proxy. It leads at once: the Lease of a dead one has to run out.
	lead := func(ctx context.Context, args ...string) (*framework.Manager, *late) {
		GinkgoHelper()
		l := newLate(c)
		leader := c.LaunchReplica(ctx, "", l.kubeconfig, append(args, "--leader-elect=false")...)
		DeferCleanup(func() { _ = leader.Kill() })
		Expect(leader.WaitReady(ctx)).To(Succeed())
		Eventually(c.Balancer.Ready).Should(ContainElement(leader.WebhookAddress()))
		return leader, l
	}
	// takeOver has the leader die, and a Service get the address as under the next one.
	takeOver := func(ctx context.Context, leader *framework.Manager, address string) {
		GinkgoHelper()
		Expect(leader.Kill()).To(Succeed())
		if c.IPAddress(ctx, address) != nil {
			c.DeleteIPAddress(ctx, address)
		}
		second := c.HoldAddress(ctx, "second", address)
		DeferCleanup(func(ctx SpecContext) { c.DeleteServices(ctx, second) })
	}

	for _, address := range []string{four, six} {
		It("deletes no other IPAddress than the leader has read, "+address, func(ctx SpecContext) {
			leader, proxy := lead(ctx)
			c.Program(ctx, "kept", fmt.Sprintf(`{serviceCIDRs: [kubernetes], reservations: [{name: a, address: "%s", for: default/first}]}`, address))
			Eventually(c.Purpose).WithArguments(ctx, address).Should(Equal(cluster.Reservation))
			arrives, finish := proxy.hold(http.MethodDelete, "/ipaddresses/"+address)
			c.DropPolicy(ctx, "kept")
			arrives()
			takeOver(ctx, leader, address)
			Expect(finish()).To(Equal(http.StatusConflict), "the UID is sent")
			Expect(c.Owner(ctx, address)).To(Equal("default/second"))
		})

		It("writes no IPAddress over another one, "+address, func(ctx SpecContext) {
			leader, proxy := lead(ctx)
			first := c.HoldAddress(ctx, "first", address)
			c.ExpectConsistent(ctx)
			arrives, finish := proxy.hold(http.MethodPost, "/ipaddresses")
			Expect(collector.NetworkingV1().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})).To(Succeed())
			arrives()
			Expect(leader.Kill()).To(Succeed())
			c.DeleteServices(ctx, first)
			takeOver(ctx, leader, address)
			Expect(finish()).To(Equal(http.StatusConflict), "a name that exists is refused")
			Expect(c.Owner(ctx, address)).To(Equal("default/second"))
		})
	}

	It("takes no owner out of the history", func(ctx SpecContext) {
		_, proxy := lead(ctx, "--history")
		first := c.HoldAddress(ctx, "first", four)
		name := "clusterip-operator-history-09"
		Eventually(func() string { return historyOf(ctx, c, name) }).Should(ContainSubstring("default/first"))
		arrives, finish := proxy.hold(http.MethodPatch, "/configmaps/"+name)
		c.DeleteServices(ctx, first)
		arrives()
		c.Kubectl(ctx, "annotate", "configmap", name, "-n", cluster.OperatorNamespace, "written-by=the-next-leader")
		Expect(finish()).To(Equal(http.StatusConflict), "the version is sent")
		Eventually(func() string { return historyOf(ctx, c, name) }).Should(ContainSubstring("deleted"), "and it is tried anew on what is there")
	})

	// The operator believes an IPAddress without a Service for a minute, and confirms that it may go.
	// The API server's repair would be faster by that.
	It("deletes no IPAddress that was given to another program since it was read", Label("long"), func(ctx SpecContext) {
		_, proxy := lead(ctx)
		c.Forbid(ctx, "repair", fmt.Sprintf(`
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [networking.k8s.io], apiVersions: ["*"], operations: [DELETE], resources: [ipaddresses]}]}
  matchConditions: [{name: repair, expression: 'request.userInfo.username == "system:apiserver" && request.name == %q'}]
  validations: [{expression: "false"}]`, six))
		arrives, finish := proxy.hold(http.MethodDelete, "/ipaddresses/"+six)
		c.CreateIPAddress(ctx, framework.NewIPAddress(six, cluster.Namespace, "never"))
		arrives()
		c.PatchIPAddress(ctx, six, `{"metadata":{"labels":{"ipaddress.kubernetes.io/managed-by":"another.example.com"}}}`)
		Expect(finish()).To(Equal(http.StatusConflict), "the version is sent, for the UID is the same")
		Expect(c.IPAddress(ctx, six)).NotTo(BeNil())
	})
})

// historyOf is a page of the history of addresses, empty if there is none.
func historyOf(ctx context.Context, c *cluster.Cluster, name string) string {
	o, err := c.Client().CoreV1().ConfigMaps(cluster.OperatorNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return o.Data["owners"]
}
