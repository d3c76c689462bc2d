package enforcement_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// A tenant may create, update, patch and delete Services in one namespace, and nothing else. No
// webhook runs here.
var _ = Describe("A tenant", Ordered, ContinueOnFailure, func() {
	const four, six = "10.4.0.0/28", "fd00:4::/124"
	closed := []netip.Prefix{netip.MustParsePrefix(four), netip.MustParsePrefix(six)}
	var tenant client.Client

	// taken are the IPAddresses in the closed range.
	taken := func(ctx context.Context) (names []string) {
		GinkgoHelper()
		list := &networkingv1.IPAddressList{}
		Expect(admin.List(ctx, list)).To(Succeed())
		for _, ip := range list.Items {
			a := netip.MustParseAddr(ip.Name)
			if closed[0].Contains(a) || closed[1].Contains(a) {
				names = append(names, ip.Name)
			}
		}
		return names
	}
	// clear deletes the Services of a namespace.
	clear := func(ctx context.Context, namespace string) {
		GinkgoHelper()
		list := &corev1.ServiceList{}
		Expect(admin.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		for i := range list.Items {
			if list.Items[i].Name != "kubernetes" {
				Expect(client.IgnoreNotFound(admin.Delete(ctx, &list.Items[i]))).To(Succeed())
			}
		}
	}
	// begin creates what the tenant may have. A Service of the spec before may have had the address,
	// and the API server's repair have written its IPAddress again: see try.
	begin := func(ctx context.Context, s *corev1.Service) {
		GinkgoHelper()
		Eventually(func() error {
			freed(ctx, s.Spec.ClusterIPs)
			return tenant.Create(ctx, s)
		}).WithTimeout(soon).Should(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		start(ctx)
		offer(ctx, "closed", four, six)
		create(ctx, exclusive("owner", "red", "closed"))
		enforced(ctx, "owner", "10.4.0.3", "fd00:4::3")
		as := suite.Must(cp.ConfigForUser("tenant", "tenants"))
		tenant = suite.Must(client.New(as, client.Options{Scheme: scheme()}))
		for _, namespace := range []string{"plain", metav1.NamespaceDefault} {
			Expect(admin.Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"}, Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"create", "update", "patch", "delete", "get"}}}})).To(Succeed())
			Expect(admin.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}}})).To(Succeed())
		}
	})
	AfterEach(func(ctx SpecContext) { clear(ctx, "plain") })

	It("cannot write an address in a form that the API server reads and the look-up does not", func(ctx SpecContext) {
		for _, odd := range []string{
			"010.4.0.5", "10.004.0.5", "10.4.0.005", "::ffff:10.4.0.5", "::ffff:a04:5", "fd00:4::0005", "fd00:4:0::5", "FD00:4::5", "fd00:4:0:0:0:0:0:5", "fd00:4::5%lo",
		} {
			err := tenant.Create(ctx, service("plain", "odd", nil, odd))
			Expect(err).To(HaveOccurred(), odd)
			Expect(taken(ctx)).To(BeEmpty(), odd)
		}
		Expect(tenant.Create(ctx, service("plain", "odd", nil, "010.4.0.5"))).To(MatchError(ContainSubstring("shortest form")), "who refuses it is not the API server")
		Expect(tenant.Create(ctx, service("plain", "odd", nil, "fd00:4::0005"))).To(MatchError(ContainSubstring("shortest form")))
	})

	// A webhook may not get to see its AdmissionReview in time.
	It("cannot hide an address behind 44,000 ports", Label("long"), func(ctx SpecContext) {
		large := service("plain", "large", nil, "10.4.0.5", "fd00:4::5")
		large.Spec.Ports = nil
		for i := range 44_000 {
			large.Spec.Ports = append(large.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
		}
		Expect(tenant.Create(ctx, large)).To(beRefused("owner"))
		Expect(taken(ctx)).To(BeEmpty())

		By("nor bring it in when it is cut")
		large.Spec.ClusterIP, large.Spec.ClusterIPs, large.Spec.IPFamilies, large.Spec.IPFamilyPolicy = "10.96.0.25", []string{"10.96.0.25"}, nil, nil
		Expect(tenant.Create(ctx, large)).To(Succeed())
		large.Spec.Ports = large.Spec.Ports[:1]
		large.Spec.ClusterIPs = []string{"10.96.0.25", "fd00:4::5"}
		large.Spec.IPFamilies, large.Spec.IPFamilyPolicy = nil, new(corev1.IPFamilyPolicyRequireDualStack)
		Expect(tenant.Update(ctx, large)).To(beRefused("owner"))
		Expect(taken(ctx)).To(BeEmpty())
	})

	// Each begins with what the tenant may have.
	DescribeTable("cannot gain a closed address",
		func(ctx SpecContext, before *corev1.Service, gain func(context.Context, *corev1.Service) error) {
			if before != nil {
				begin(ctx, before)
			}
			Expect(gain(ctx, before)).To(beRefused("owner"))
			Expect(taken(ctx)).To(BeEmpty())
		},
		Entry("with a generated name", nil, func(ctx context.Context, _ *corev1.Service) error {
			s := service("plain", "", nil, "10.4.0.6")
			s.GenerateName = "one-"
			return tenant.Create(ctx, s)
		}),
		Entry("by an update that creates", nil, func(ctx context.Context, _ *corev1.Service) error {
			s := service("plain", "put", nil, "10.4.0.6", "fd00:4::6")
			s.UID = ""
			return tenant.Update(ctx, s)
		}),
		Entry("by an apply", nil, func(ctx context.Context, _ *corev1.Service) error {
			return tenant.Apply(ctx, corev1ac.Service("applied", "plain").WithSpec(corev1ac.ServiceSpec().WithClusterIP("10.4.0.6").WithClusterIPs("10.4.0.6").
				WithPorts(corev1ac.ServicePort().WithPort(80))), client.FieldOwner("tenant"))
		}),
		Entry("as the second", service("plain", "second", nil, "10.96.0.23"), func(ctx context.Context, s *corev1.Service) error {
			return patch(ctx, tenant, s, types.MergePatchType, map[string]any{"spec": map[string]any{
				"clusterIPs": []string{"10.96.0.23", "fd00:4::6"}, "ipFamilies": []string{"IPv4", "IPv6"}, "ipFamilyPolicy": "RequireDualStack"}})
		}),
		Entry("as the second, by a strategic patch of the policy alone", service("plain", "preferring", nil, "fd00:10:96::9"), func(ctx context.Context, s *corev1.Service) error {
			return patch(ctx, tenant, s, types.StrategicMergePatchType, map[string]any{"spec": map[string]any{
				"clusterIPs": []string{"fd00:10:96::9", "10.4.0.6"}, "ipFamilies": []string{"IPv6", "IPv4"}, "ipFamilyPolicy": "PreferDualStack"}})
		}),
		Entry("by coming back from ExternalName", framework.NewService("plain", "external", framework.ExternalName("example.com")), func(ctx context.Context, s *corev1.Service) error {
			return patch(ctx, tenant, s, types.MergePatchType, map[string]any{"spec": map[string]any{
				"type": "ClusterIP", "externalName": nil, "clusterIP": "10.4.0.6", "clusterIPs": []string{"10.4.0.6"}, "ports": []any{map[string]any{"port": 80}}}})
		}),
		Entry("by becoming a load balancer on the way", framework.NewService("plain", "external", framework.ExternalName("example.com")), func(ctx context.Context, s *corev1.Service) error {
			return patch(ctx, tenant, s, types.MergePatchType, map[string]any{"spec": map[string]any{
				"type": "LoadBalancer", "externalName": nil, "clusterIP": "10.4.0.6", "ports": []any{map[string]any{"port": 80}}}})
		}),
		Entry("as an external IP", nil, func(ctx context.Context, _ *corev1.Service) error {
			s := service("plain", "outside", nil, "10.96.0.23")
			s.Spec.ExternalIPs = []string{"192.0.2.7", "FD00:4:0::6"}
			return tenant.Create(ctx, s)
		}),
		Entry("as an external IP of one that has none", service("plain", "outside", nil, "10.96.0.23"), func(ctx context.Context, s *corev1.Service) error {
			return patch(ctx, tenant, s, types.MergePatchType, map[string]any{"spec": map[string]any{"externalIPs": []string{"10.4.0.6"}}})
		}),
		Entry("as an external IP of an ExternalName, which becomes a Service with endpoints later", nil, func(ctx context.Context, _ *corev1.Service) error {
			s := framework.NewService("plain", "external", framework.ExternalName("example.com"))
			s.Spec.ExternalIPs = []string{"10.4.0.6"}
			return tenant.Create(ctx, s)
		}),
		Entry("as an external IP in a dry run, by which renumber asks", service("plain", "outside", nil, "10.96.0.23"), func(ctx context.Context, s *corev1.Service) error {
			s.Spec.ExternalIPs = []string{"10.4.0.6"}
			return tenant.Update(ctx, s, client.DryRunAll)
		}),
	)

	It("cannot give an ExternalName an address beforehand", func(ctx SpecContext) {
		s := framework.NewService("plain", "external", framework.ExternalName("example.com"))
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.4.0.6", []string{"10.4.0.6"}
		Expect(tenant.Create(ctx, s)).NotTo(Succeed())
		Expect(taken(ctx)).To(BeEmpty())
	})

	It("may have external IPs elsewhere", func(ctx SpecContext) {
		s := service("plain", "outside", nil, "10.96.0.23")
		s.Spec.ExternalIPs = []string{"192.0.2.7", "2001:DB8::7"}
		begin(ctx, s)
		s.Labels = map[string]string{"changed": "yes"}
		Expect(tenant.Update(ctx, s)).To(Succeed())
	})

	// What is exempt is what the API server writes, and not what has its name.
	It("of the namespace default cannot take the place of the Service of the API server", func(ctx SpecContext) {
		Expect(tenant.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}})).To(Succeed())
		Eventually(func() error {
			err := tenant.Create(ctx, service(metav1.NamespaceDefault, "kubernetes", nil, "10.4.0.7"))
			if apierrors.IsAlreadyExists(err) { // the API server was faster
				_ = tenant.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}})
			}
			return err
		}).WithTimeout(soon).Should(beRefused("owner"))
		Expect(taken(ctx)).To(BeEmpty())
	})
})

func patch(ctx context.Context, c client.Client, s *corev1.Service, kind types.PatchType, change map[string]any) error {
	GinkgoHelper()
	body := suite.Must(json.Marshal(change))
	return c.Patch(ctx, s.DeepCopy(), client.RawPatch(kind, body))
}
