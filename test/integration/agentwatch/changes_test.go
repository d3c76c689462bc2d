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

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/watch"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

var _ = Describe("An agent and Kubernetes 1.36", Ordered, func() {
	var (
		cp *framework.ControlPlane
		// standard follows what no other proxy wants, own what is labelled for it, and limited may not read IPAddresses.
		standard, own, limited *agent
		began                  time.Time
	)

	BeforeAll(func(ctx SpecContext) {
		cp = suite.ControlPlane(ctx, framework.Options{})
		createService(ctx, cp.Access, "early")
		createSlice(ctx, cp.Access, "early-1", "early", "10.0.0.1")
		restricted := forbidden(ctx, cp)
		began = time.Now()
		limited = startAgent(restricted, watch.Options{})
		own = startAgent(cp.AdminConfig(), watch.Options{ProxyName: "ours", Allocations: model.Ignore})
		standard = startAgent(cp.AdminConfig(), watch.Options{Allocations: model.Enforce})
		Eventually(standard.Ready()).WithTimeout(soon).Should(BeClosed())
		Eventually(own.Ready()).WithTimeout(soon).Should(BeClosed())
	})

	It("knows everything at once", func() {
		// All of it comes with the first Take.
		Eventually(standard.endpoints("early")).Should(ConsistOf("10.0.0.1:8080"))
		Expect(standard.wakes()).To(Equal(1))
		Expect(standard.ranges()).To(ConsistOf("10.96.0.0/16", "fd00:10:96::/112"))
		early := standard.service("early")()
		Expect(early.ClusterIPs).To(HaveLen(1))
		Expect(standard.allocation(early.ClusterIPs[0].String())()).To(HaveField("Service", early.Name))
		Expect(own.service("early")()).To(BeNil())
	})

	It("follows a Service, its slices and its addresses", func(ctx SpecContext) {
		web := createService(ctx, cp.Access, "web", framework.RequireDualStack())
		Eventually(standard.service("web")).WithTimeout(soon).Should(HaveField("Ports", ConsistOf(model.Port{Protocol: model.TCP, Port: 80})))
		Expect(standard.service("web")().ClusterIPs).To(HaveLen(2))
		for _, ip := range web.Spec.ClusterIPs {
			Eventually(standard.allocation(ip)).WithTimeout(soon).Should(HaveField("Service.Name", "web"))
		}
		createSlice(ctx, cp.Access, "web-1", "web", "10.0.0.1", "10.0.0.2")
		createSlice(ctx, cp.Access, "web-2", "web", "10.0.0.3")
		Eventually(standard.endpoints("web")).WithTimeout(soon).Should(ConsistOf("10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"))
		patchSlice(ctx, cp.Access, "web-1", `{"endpoints":[{"addresses":["10.0.0.9"]}]}`)
		deleteSlice(ctx, cp.Access, "web-2")
		Eventually(standard.endpoints("web")).WithTimeout(soon).Should(ConsistOf("10.0.0.9:8080"))

		By("changing the status alone")
		patchService(ctx, cp.Access, "web", `{"spec":{"type":"LoadBalancer"}}`)
		patchService(ctx, cp.Access, "web", `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`, "status")
		Eventually(standard.service("web")).WithTimeout(soon).Should(HaveField("LoadBalancerIPs", ConsistOf(netip.MustParseAddr("192.0.2.7"))))

		By("deleting it")
		standard.told()
		deleteService(ctx, cp.Access, "web")
		Eventually(standard.service("web")).WithTimeout(soon).Should(BeNil())
		Eventually(standard.allocation(web.Spec.ClusterIP)).WithTimeout(soon).Should(BeZero())
		Eventually(standard.told).Should(ContainElements("web"))
	})

	It("knows additional addresses", func(ctx SpecContext) {
		createIPAddress(ctx, cp.Access, framework.NewIPAddress("10.96.200.1", namespace, "early", framework.ManagedBy(v1alpha1.ManagedByOperator)))
		want := model.Allocation{
			Addr: netip.MustParseAddr("10.96.200.1"), Service: model.ServiceName{Namespace: namespace, Name: "early"}, Additional: true,
		}
		Eventually(standard.allocation("10.96.200.1")).WithTimeout(soon).Should(Equal(want))
		Eventually(own.allocation("10.96.200.1")).WithTimeout(soon).Should(Equal(want))
		Expect(cp.Networking().IPAddresses().Delete(ctx, "10.96.200.1", metav1.DeleteOptions{})).To(Succeed())
		Eventually(standard.allocation("10.96.200.1")).WithTimeout(soon).Should(BeZero())
	})

	It("follows ServiceCIDRs until they are deleted", func(ctx SpecContext) {
		createCIDR(ctx, cp.Access, "more", "10.97.0.0/24")
		Eventually(standard.ranges).WithTimeout(soon).Should(ContainElement("10.97.0.0/24"))
		patchCIDR(ctx, cp.Access, "more", `{"metadata":{"finalizers":["example.com/held"]}}`)
		Expect(cp.Networking().ServiceCIDRs().Delete(ctx, "more", metav1.DeleteOptions{})).To(Succeed())
		Eventually(standard.ranges).WithTimeout(soon).ShouldNot(ContainElement("10.97.0.0/24"))
		patchCIDR(ctx, cp.Access, "more", `{"metadata":{"finalizers":null}}`)
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

	It("hands a Service over to another proxy and takes it back", func(ctx SpecContext) {
		createService(ctx, cp.Access, "handed")
		createSlice(ctx, cp.Access, "handed-1", "handed", "10.0.0.1")
		Eventually(standard.endpoints("handed")).WithTimeout(soon).Should(ConsistOf("10.0.0.1:8080"))

		patchService(ctx, cp.Access, "handed", `{"metadata":{"labels":{"service.kubernetes.io/service-proxy-name":"ours"}}}`)
		Eventually(standard.service("handed")).WithTimeout(soon).Should(BeNil())
		Eventually(own.endpoints("handed")).WithTimeout(soon).Should(ConsistOf("10.0.0.1:8080"))

		patchService(ctx, cp.Access, "handed", `{"metadata":{"labels":{"service.kubernetes.io/service-proxy-name":"theirs"}}}`)
		Eventually(own.service("handed")).WithTimeout(soon).Should(BeNil())
		Consistently(standard.service("handed")).WithTimeout(300 * time.Millisecond).Should(BeNil())

		patchService(ctx, cp.Access, "handed", `{"metadata":{"labels":null}}`)
		Eventually(standard.endpoints("handed")).WithTimeout(soon).Should(ConsistOf("10.0.0.1:8080"))
	})

	It("leaves out slices that are labelled headless, as long as they are", func(ctx SpecContext) {
		createService(ctx, cp.Access, "toggled")
		createSlice(ctx, cp.Access, "toggled-1", "toggled", "10.0.0.1")
		Eventually(standard.endpoints("toggled")).WithTimeout(soon).Should(HaveLen(1))
		patchSlice(ctx, cp.Access, "toggled-1", `{"metadata":{"labels":{"service.kubernetes.io/headless":""}}}`)
		Eventually(standard.endpoints("toggled")).WithTimeout(soon).Should(BeEmpty())
		patchSlice(ctx, cp.Access, "toggled-1", `{"metadata":{"labels":{"service.kubernetes.io/headless":null}}}`)
		Eventually(standard.endpoints("toggled")).WithTimeout(soon).Should(ConsistOf("10.0.0.1:8080"))
	})

	It("follows changes of type", func(ctx SpecContext) {
		createService(ctx, cp.Access, "headless", framework.Headless())
		createService(ctx, cp.Access, "typed", framework.WithType(corev1.ServiceTypeNodePort))
		createSlice(ctx, cp.Access, "typed-1", "typed", "10.0.0.1")
		createSlice(ctx, cp.Access, "headless-1", "headless", "10.0.0.1")
		Eventually(standard.service("typed")).WithTimeout(soon).Should(HaveField("Ports", ConsistOf(HaveField("NodePort", Not(BeZero())))))
		patchService(ctx, cp.Access, "typed", `{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":"","clusterIPs":null,"ports":null}}`)
		Eventually(standard.service("typed")).WithTimeout(soon).Should(BeNil())
		patchService(ctx, cp.Access, "typed", `{"spec":{"type":"ClusterIP","externalName":null,"ports":[{"port":81}]}}`)
		Eventually(standard.service("typed")).WithTimeout(soon).Should(HaveField("Ports", ConsistOf(model.Port{Protocol: model.TCP, Port: 81})))
		Eventually(standard.endpoints("typed")).Should(ConsistOf("10.0.0.1:8080"))
		patchService(ctx, cp.Access, "typed", `{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":"","clusterIPs":null}}`)
		Eventually(standard.service("typed")).WithTimeout(soon).Should(BeNil())
		patchService(ctx, cp.Access, "typed", `{"spec":{"type":"ClusterIP","clusterIP":"None","externalName":null}}`)
		Consistently(standard.service("typed")).WithTimeout(300 * time.Millisecond).Should(BeNil())
		Expect(standard.service("headless")()).To(BeNil())
	})

	It("does without IPAddresses that it may not read, until it may", Label("all"), func(ctx SpecContext) {
		Eventually(limited.Ready()).WithTimeout(patience).Should(BeClosed())
		Expect(time.Since(began)).To(BeNumerically(">", 10*time.Second))
		Eventually(limited.service("early")).Should(Not(BeNil()))
		Expect(limited.ranges()).To(ContainElement("10.96.0.0/16"))
		early := limited.service("early")().ClusterIPs[0].String()
		Expect(limited.allocation(early)()).To(BeZero())
		Expect(limited.lines("IPAddress", "forbidden")).To(HaveLen(1))
		Expect(limited.lines("waited for long enough")).To(HaveLen(1))

		allow(ctx, cp, "ipaddresses")
		Eventually(limited.allocation(early)).WithTimeout(patience).Should(HaveField("Service.Name", "early"))
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

		Eventually(standard.service("comes")).WithTimeout(patience).ShouldNot(BeNil())
		Eventually(standard.service("leaves")).WithTimeout(patience).Should(BeNil())
		Eventually(standard.endpoints("stays")).WithTimeout(patience).Should(ConsistOf("10.0.0.2:8080"))
		Eventually(standard.allocation(leaves)).WithTimeout(patience).Should(BeZero())
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
