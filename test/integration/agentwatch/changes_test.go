package agentwatch_test

import (
	"context"
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/watch"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// What selectors select is in the behaviours 126 to 128 and 140 of test/e2e/flows, additional addresses in test/e2e/allocations.
var _ = Describe("An agent and Kubernetes 1.36", Ordered, func() {
	var (
		cp *framework.ControlPlane
		// limited may not read IPAddresses.
		standard, limited *agent
		began             time.Time
	)

	BeforeAll(func(ctx SpecContext) {
		cp = suite.ControlPlane(ctx, framework.Options{})
		createService(ctx, cp.Access, "early")
		createSlice(ctx, cp.Access, "early-1", "early", "10.0.0.1")
		restricted := forbidden(ctx, cp)
		began = time.Now()
		limited = startAgent(restricted, watch.Options{})
		standard = startAgent(cp.AdminConfig(), watch.Options{Allocations: model.Enforce})
		Eventually(standard.Ready()).WithTimeout(soon).Should(BeClosed())
	})

	It("knows everything at once", func() {
		// All of it comes with the first Take.
		Eventually(standard.endpoints("early")).Should(ConsistOf("10.0.0.1:8080"))
		Expect(standard.wakes()).To(Equal(1))
		Expect(standard.ranges()).To(ConsistOf("10.96.0.0/16", "fd00:10:96::/112"))
		early := standard.service("early")()
		Expect(early.ClusterIPs).To(HaveLen(1))
		Expect(standard.allocation(early.ClusterIPs[0].String())()).To(HaveField("Service", early.Name))
	})

	It("follows its own Node and no other", func(ctx SpecContext) {
		Expect(standard.node()).To(BeZero())
		nodes := cp.Client().CoreV1().Nodes()
		create := func(name string) {
			_, err := nodes.Create(ctx, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "zone-of-" + name}},
				Spec:       corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24"}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		asleep := standard.wakes()
		create("elsewhere")
		Consistently(standard.wakes).WithTimeout(300 * time.Millisecond).Should(Equal(asleep))
		create(nodeName)
		Eventually(standard.node).WithTimeout(soon).Should(HaveField("Zone", "zone-of-here"))
		patchNode(ctx, cp.Access, `{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`, "status")
		Eventually(standard.node).WithTimeout(soon).Should(HaveField("IPs", ConsistOf(netip.MustParseAddr("192.0.2.1"))))

		before := standard.wakes()
		patchNode(ctx, cp.Access, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2026-01-01T00:00:00Z"}]}}`, "status")
		Consistently(standard.wakes).WithTimeout(500 * time.Millisecond).Should(Equal(before))

		patchNode(ctx, cp.Access, `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
		Eventually(standard.node).WithTimeout(soon).Should(HaveField("Leaving", true))
		patchNode(ctx, cp.Access, `{"spec":{"taints":null}}`)
		Eventually(standard.node).WithTimeout(soon).Should(HaveField("Leaving", false))
		Expect(nodes.Delete(ctx, nodeName, metav1.DeleteOptions{})).To(Succeed())
		Eventually(standard.node).WithTimeout(soon).Should(And(HaveField("Leaving", true), HaveField("PodCIDRs", HaveLen(1))))
	})

	It("does without IPAddresses that it may not read, until it may", Label("all"), func(ctx SpecContext) {
		Eventually(limited.Ready()).WithTimeout(recovery).Should(BeClosed())
		Expect(time.Since(began)).To(BeNumerically(">", 10*time.Second))
		Eventually(limited.service("early")).Should(Not(BeNil()))
		Expect(limited.ranges()).To(ContainElement("10.96.0.0/16"))
		early := limited.service("early")().ClusterIPs[0].String()
		Expect(limited.allocation(early)()).To(BeZero())
		Expect(limited.lines("IPAddress", "forbidden")).To(HaveLen(1))
		Expect(limited.lines("waited for long enough")).To(HaveLen(1))

		allow(ctx, cp, "ipaddresses")
		Eventually(limited.allocation(early)).WithTimeout(recovery).Should(HaveField("Service.Name", "early"))
	})

	// While the API server is away, another one on the same etcd changes things. The agent must find them, and nothing else.
	It("outlives its API server and finds what changed meanwhile", func(ctx SpecContext) {
		other := suite.APIServer(ctx, cp, framework.Options{})
		createService(ctx, cp.Access, "leaves")
		createService(ctx, cp.Access, "stays")
		createSlice(ctx, cp.Access, "stays-1", "stays", "10.0.0.1")
		Eventually(standard.service("leaves")).WithTimeout(soon).ShouldNot(BeNil())
		Eventually(standard.endpoints("stays")).WithTimeout(soon).Should(HaveLen(1))
		leaves := standard.service("leaves")().ClusterIPs[0].String()
		Eventually(standard.allocation(leaves)).WithTimeout(soon).ShouldNot(BeZero())
		standard.told()

		Expect(cp.API.Kill()).To(Succeed())
		deleteService(ctx, other.Access, "leaves")
		createService(ctx, other.Access, "comes")
		patchSlice(ctx, other.Access, "stays-1", `{"endpoints":[{"addresses":["10.0.0.2"]}]}`)
		compact(ctx, cp)
		Expect(cp.API.Start(ctx)).To(Succeed())

		Eventually(standard.service("comes")).WithTimeout(recovery).ShouldNot(BeNil())
		Eventually(standard.service("leaves")).WithTimeout(recovery).Should(BeNil())
		Eventually(standard.endpoints("stays")).WithTimeout(recovery).Should(ConsistOf("10.0.0.2:8080"))
		Eventually(standard.allocation(leaves)).WithTimeout(recovery).Should(BeZero())
		Expect(standard.told()).To(ConsistOf("leaves", leaves))
	})
})

// forbidden connects as a user who may read all that agents read, but no IPAddresses.
func forbidden(ctx context.Context, cp *framework.ControlPlane) *rest.Config {
	GinkgoHelper()
	allow(ctx, cp, "services")
	allow(ctx, cp, "endpointslices")
	allow(ctx, cp, "nodes")
	allow(ctx, cp, "servicecidrs")
	config, err := cp.ConfigForUser("limited")
	Expect(err).NotTo(HaveOccurred())
	// As long as the API server knows a binding and not yet its role, its refusals speak of that as well.
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error { // the last one
		_, err := client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
		return err
	}).WithTimeout(soon).Should(Succeed())
	return config
}

// allow lets the user list and watch a resource.
func allow(ctx context.Context, cp *framework.ControlPlane, resource string) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Name: "limited-" + resource}
	rbac := cp.Client().RbacV1()
	_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{resource}, Verbs: []string{"list", "watch"}},
	}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "limited"}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
