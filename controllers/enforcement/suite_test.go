package enforcement_test

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/enforcement"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

func TestEnforcement(t *testing.T) {
	RegisterFailHandler(Fail)
	log.SetLogger(zap.New(zap.WriteTo(GinkgoWriter)))
	RunSpecs(t, "enforcement")
}

// The default range is small enough to be filled.
const (
	default4 = "10.96.0.0/27"
	default6 = "fd00:10:96::/123"
	// soon is how long what happens at once may take on a busy machine.
	soon = 30 * time.Second
)

var (
	cp *framework.ControlPlane
	// admin reads and writes as an administrator, past every cache.
	admin client.Client
)

var _ = BeforeSuite(func(ctx SpecContext) { prepare(ctx) }, NodeTimeout(2*time.Minute))

// prepare starts a control plane for the calling node, with namespaces and the operator's user.
func prepare(ctx context.Context) {
	GinkgoHelper()
	// The gate lets addresses with leading zeros pass, as every API server did before it.
	cp = suite.ControlPlane(ctx, framework.Options{
		ServiceClusterIPRange: default4 + "," + default6, FeatureGates: map[string]bool{"StrictIPCIDRValidation": false},
	})
	Expect(cp.InstallCRDs(ctx)).To(Succeed())
	Expect(cp.InstallEnforcement(ctx)).To(Succeed())
	admin = suite.Must(client.New(cp.AdminConfig(), client.Options{Scheme: scheme()}))
	grant(ctx)
	for name, labels := range map[string]map[string]string{
		"red": {"tenant": "red", "zone": "a"}, "blue": {"tenant": "blue", "zone": "b"}, "plain": {},
	} {
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})).To(Succeed())
	}
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(s)).To(Succeed())
	Expect(v1alpha1.AddToScheme(s)).To(Succeed())
	return s
}

// operatorScheme has the operator's kinds, and only those that the controller adds.
func operatorScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme, v1alpha1.AddToScheme} {
		Expect(add(s)).To(Succeed())
	}
	return s
}

const (
	home     = "clusterip-operator-system"
	operator = "system:serviceaccount:" + home + ":clusterip-operator-manager"
)

// grant gives the operator the rules of config/rbac for its loops, and no more.
func grant(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}})).To(Succeed())
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: operator}}
	everywhere, here := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	read("../../config/rbac/role.yaml", everywhere)
	read("../../config/rbac/enforcement_role.yaml", here)
	here.Namespace = home
	Expect(admin.Create(ctx, everywhere)).To(Succeed())
	Expect(admin.Create(ctx, here)).To(Succeed())
	Expect(admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: everywhere.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: everywhere.Name}, Subjects: subjects,
	})).To(Succeed())
	Expect(admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: here.Name, Namespace: home},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: here.Name}, Subjects: subjects,
	})).To(Succeed())
}

// read reads the first document of a manifest.
func read(file string, into any) {
	GinkgoHelper()
	content := suite.Must(os.ReadFile(file))
	first, _, _ := strings.Cut(string(content), "\n---\n")
	Expect(yaml.UnmarshalStrict([]byte(first), into)).To(Succeed())
}

// start runs the controller alone, as the operator's user. Both stop and the node's end stop it.
func start(ctx context.Context) (stop func()) {
	GinkgoHelper()
	as := suite.Must(cp.ConfigForUser(operator, "system:serviceaccounts"))
	mgr := suite.Must(manager.New(as, manager.Options{
		Scheme: operatorScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	}))
	index, policies := addressindex.New(), steering.NewCache()
	Expect(index.Watch(ctx, mgr.GetCache())).To(Succeed())
	Expect(policies.Watch(ctx, mgr.GetCache())).To(Succeed())
	Expect(mgr.Add(policies)).To(Succeed())
	Expect((&enforcement.Reconciler{
		Cluster: loop.Cluster{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Index: index, Events: mgr.GetEventRecorder("clusterip-operator-enforcement"), Clock: clock.RealClock{},
		}, Policies: policies, Namespace: home,
	}).SetupWithManager(mgr)).To(Succeed())
	running, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	stop = func() {
		cancel()
		if ended != nil {
			Expect(<-ended).To(Succeed())
			ended = nil
		}
	}
	DeferCleanup(func() { stop() })
	return stop
}

// offer creates a ServiceCIDR until the spec ends, and waits until API servers allocate from it.
func offer(ctx context.Context, name string, cidrs ...string) {
	GinkgoHelper()
	c := framework.NewServiceCIDR(name, cidrs...)
	Expect(admin.Create(ctx, c)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, c))).To(Succeed())
		Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(c), c) }).WithTimeout(soon).Should(MatchError(apierrors.IsNotFound, "gone"))
	})
	for _, cidr := range cidrs {
		p := netip.MustParsePrefix(cidr)
		Eventually(func() error { return try(ctx, "red", "probe", nil, last(p).String()) }).WithTimeout(soon).Should(Succeed())
	}
}

// last is the last address of a range that a Service can have in both families.
func last(p netip.Prefix) netip.Addr {
	a := steering.SpanOf(p).Last
	if a.Is4() {
		a = a.Prev()
	}
	return a
}

// create creates a policy that goes when the spec ends.
func create(ctx context.Context, p *v1alpha1.ServiceCIDRPolicy) {
	GinkgoHelper()
	Expect(admin.Create(ctx, p)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, p))).To(Succeed()) })
}

// exclusive is an exclusive policy for a tenant's namespaces, enforced by the API server.
func exclusive(name, tenant string, serviceCIDRs ...string) *v1alpha1.ServiceCIDRPolicy {
	return &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ServiceCIDRPolicySpec{
		ServiceCIDRs: serviceCIDRs, Exclusive: true,
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": tenant}},
	}}
}

// condition reads a policy's condition, zero if there is none, Unknown if of another generation.
func condition(ctx context.Context, policy, kind string) metav1.Condition {
	GinkgoHelper()
	p := &v1alpha1.ServiceCIDRPolicy{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: policy}, p)).To(Succeed())
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	if c == nil {
		return metav1.Condition{}
	}
	if c.ObservedGeneration != p.Generation {
		c.Status = metav1.ConditionUnknown
	}
	return *c
}

// enforced waits until a policy says it is enforced, and a stranger is refused its addresses.
func enforced(ctx context.Context, policy string, addresses ...string) {
	GinkgoHelper()
	Eventually(func() metav1.Condition { return condition(ctx, policy, v1alpha1.PolicyEnforced) }).WithTimeout(soon).
		Should(HaveField("Status", metav1.ConditionTrue))
	for _, a := range addresses {
		Eventually(func() error { return try(ctx, "plain", "probe", nil, a) }).WithTimeout(soon).Should(beRefused(policy))
	}
}

// try creates and deletes a Service. A dry run would not do: it looks into any one of the ranges.
//
// The API server's repair (repairip.go) looks into caches: one that still has the Service, and its
// IPAddress no more, has it write the IPAddress again. Nothing else would delete that for a minute.
func try(ctx context.Context, namespace, name string, labels map[string]string, addresses ...string) error {
	s := service(namespace, name, labels, addresses...)
	for {
		err := admin.Create(ctx, s)
		if err == nil {
			return admin.Delete(ctx, s)
		}
		if !strings.Contains(err.Error(), "already allocated") || !freed(ctx, addresses) {
			return err
		}
	}
}

// freed deletes IPAddresses whose Service is gone, and reports whether there were any.
func freed(ctx context.Context, addresses []string) (any bool) {
	GinkgoHelper()
	for _, a := range addresses {
		ip := &networkingv1.IPAddress{}
		err := admin.Get(ctx, client.ObjectKey{Name: a}, ip)
		if err == nil {
			parent := client.ObjectKey{Namespace: ip.Spec.ParentRef.Namespace, Name: ip.Spec.ParentRef.Name}
			err = admin.Get(ctx, parent, &corev1.Service{})
			if apierrors.IsNotFound(err) {
				any, err = true, admin.Delete(ctx, ip)
			}
		}
		Expect(client.IgnoreNotFound(err)).To(Succeed())
	}
	return any
}

func service(namespace, name string, labels map[string]string, addresses ...string) *corev1.Service {
	var options []framework.ServiceOption
	switch len(addresses) {
	case 0:
	case 1:
		options = append(options, framework.WithClusterIPs(addresses...), framework.WithFamilies(familyOf(addresses[0])))
	default:
		options = append(options, framework.WithClusterIPs(addresses...), framework.RequireDualStack())
	}
	s := framework.NewService(namespace, name, options...)
	s.Labels = labels
	return s
}

func familyOf(address string) corev1.IPFamily {
	if strings.Contains(address, ":") {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// beRefused matches the refusal of a Service by the API server in the name of a policy.
func beRefused(policy string) OmegaMatcher {
	return MatchError(And(
		ContainSubstring("ValidatingAdmissionPolicy '"+v1alpha1.ExclusiveName+"'"), ContainSubstring("ServiceCIDRPolicy %q", policy)))
}

// put creates a Service that goes when the spec ends, and returns it as it is.
func put(ctx context.Context, s *corev1.Service) *corev1.Service {
	GinkgoHelper()
	Expect(admin.Create(ctx, s)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, s))).To(Succeed()) })
	return s
}

// ipAddress reports whether there is an IPAddress.
func ipAddress(ctx context.Context, address string) bool {
	GinkgoHelper()
	err := admin.Get(ctx, client.ObjectKey{Name: address}, &networkingv1.IPAddress{})
	Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
	return err == nil
}
