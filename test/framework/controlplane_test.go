package framework_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

const upstreamFinalizer = "networking.k8s.io/service-cidr-finalizer"

// release returns the Kubernetes version that an API server says it is.
func release(access *framework.Access) string {
	GinkgoHelper()
	version, err := access.Client().Discovery().ServerVersion()
	Expect(err).NotTo(HaveOccurred())
	return version.GitVersion
}

// serves returns the versions of networking.k8s.io that know IPAddresses.
func serves(access *framework.Access) []string {
	GinkgoHelper()
	_, lists, err := access.Client().Discovery().ServerGroupsAndResources()
	Expect(err).NotTo(HaveOccurred())
	var versions []string
	for _, list := range lists {
		for _, resource := range list.APIResources {
			if version, is := strings.CutPrefix(list.GroupVersion, networkingv1.GroupName+"/"); is && resource.Name == "ipaddresses" {
				versions = append(versions, version)
			}
		}
	}
	return versions
}

func create(ctx context.Context, access *framework.Access, service *corev1.Service) *corev1.Service {
	GinkgoHelper()
	service, err := access.Client().CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return service
}

func ipAddress(ctx context.Context, access *framework.Access, name string) (*networkingv1.IPAddress, error) {
	return access.Networking().IPAddresses().Get(ctx, name, metav1.GetOptions{})
}

// wantAsUpstream compares an IPAddress of the API server with the one that NewIPAddress builds.
func wantAsUpstream(ctx context.Context, access *framework.Access, address, service string) {
	GinkgoHelper()
	got, err := ipAddress(ctx, access, address)
	Expect(err).NotTo(HaveOccurred())
	want := framework.NewIPAddress(address, "default", service)
	Expect(cmp.Diff(want, got, cmpopts.IgnoreFields(metav1.ObjectMeta{},
		"UID", "ResourceVersion", "Generation", "CreationTimestamp", "ManagedFields"))).To(BeEmpty())
}

func clientFor(config *rest.Config) kubernetes.Interface {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

func listServices(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	return err
}

var _ = Describe("Kubernetes 1.36", Ordered, func() {
	var cp *framework.ControlPlane

	BeforeAll(func(ctx SpecContext) { cp = suite.ControlPlane(ctx, framework.Options{}) })

	It("serves IPAddresses as v1", func() {
		Expect(release(cp.Access)).To(HavePrefix("v1.36.")) // KUBEBUILDER_ASSETS may hold another patch release
		Expect(serves(cp.Access)).To(ConsistOf(framework.V136.NetworkingVersion))
	})

	It("allocates an IPAddress in each family of a Service", func(ctx SpecContext) {
		service := create(ctx, cp.Access, framework.NewService("default", "dual", framework.RequireDualStack()))
		Expect(service.Spec.ClusterIPs).To(HaveLen(2))
		for _, address := range service.Spec.ClusterIPs {
			wantAsUpstream(ctx, cp.Access, address, "dual")
		}
	})

	It("takes every shape of Service", func(ctx SpecContext) {
		for name, tc := range map[string]struct {
			options []framework.ServiceOption
			want    []string // prefixes of the addresses
		}{
			"plain":     {nil, []string{"10.96."}},
			"fixed":     {[]framework.ServiceOption{framework.WithClusterIPs("10.96.0.9")}, []string{"10.96.0.9"}},
			"six":       {[]framework.ServiceOption{framework.WithFamilies(corev1.IPv6Protocol)}, []string{"fd00:10:96::"}},
			"six-first": {[]framework.ServiceOption{framework.WithFamilies(corev1.IPv6Protocol, corev1.IPv4Protocol), framework.RequireDualStack()}, []string{"fd00:10:96::", "10.96."}},
			"preferred": {[]framework.ServiceOption{framework.PreferDualStack()}, []string{"10.96.", "fd00:10:96::"}},
			"headless":  {[]framework.ServiceOption{framework.Headless()}, []string{"None"}},
			"alias":     {[]framework.ServiceOption{framework.ExternalName("example.com")}, nil},
			"node-port": {[]framework.ServiceOption{framework.WithType(corev1.ServiceTypeNodePort)}, []string{"10.96."}},
		} {
			By(name)
			service := create(ctx, cp.Access, framework.NewService("default", name, append(tc.options, framework.WithLabel("app", name))...))
			Expect(service.Labels).To(HaveKeyWithValue("app", name))
			Expect(service.Spec.ClusterIPs).To(HaveLen(len(tc.want)))
			for i, prefix := range tc.want {
				Expect(service.Spec.ClusterIPs[i]).To(HavePrefix(prefix))
			}
		}
	})

	It("takes IPAddresses of all kinds", func(ctx SpecContext) {
		gateway := networkingv1.ParentReference{Group: "example.com", Resource: "gateways", Name: "front"}
		for _, ip := range []*networkingv1.IPAddress{
			framework.NewIPAddress("10.96.200.1", "default", "nobody"),
			framework.NewIPAddress("10.96.200.2", "default", "nobody", framework.ManagedBy("somebody.else")),
			framework.NewIPAddress("10.96.200.3", "default", "nobody", framework.WithoutLabels()),
			framework.NewIPAddress("fd00:10:96::beef", "", "", framework.WithParent(gateway), framework.WithIPLabel("example.com/kind", "odd")),
		} {
			created, err := cp.Networking().IPAddresses().Create(ctx, ip, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(created.Labels).To(Equal(ip.Labels))
			Expect(created.Spec).To(Equal(ip.Spec))
		}
	})

	It("takes many Services at once, in order, and stops at a refusal", func(ctx SpecContext) {
		services, err := framework.CreateServices(ctx, cp.Client(), 40, 8, func(i int) *corev1.Service {
			return framework.NewService("default", fmt.Sprintf("many-%d", i))
		})
		Expect(err).NotTo(HaveOccurred())
		for i, service := range services {
			Expect(service.Name).To(Equal(fmt.Sprintf("many-%d", i)))
			Expect(service.Spec.ClusterIP).To(HavePrefix("10.96."))
		}
		_, err = framework.CreateServices(ctx, cp.Client(), 3, 2, func(i int) *corev1.Service {
			return framework.NewService("default", "many-1")
		})
		Expect(err).To(MatchError(ContainSubstring("creating Service default/many-1")))
		Expect(apierrors.IsAlreadyExists(err)).To(BeTrue())
	})

	It("gives a ServiceAccount and a user what RBAC gives them and nothing else", func(ctx SpecContext) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "reader"}}
		_, err := cp.Client().CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		accountConfig, err := cp.ConfigForServiceAccount(ctx, "default", "reader")
		Expect(err).NotTo(HaveOccurred())
		userConfig, err := cp.ConfigForUser("jane", "developers")
		Expect(err).NotTo(HaveOccurred())

		for _, config := range []*rest.Config{accountConfig, userConfig} {
			Expect(apierrors.IsForbidden(listServices(ctx, clientFor(config)))).To(BeTrue())
		}
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "service-reader"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list"}}},
		}
		_, err = cp.Client().RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{
				{Kind: "ServiceAccount", Namespace: "default", Name: "reader"},
				{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "developers"},
			},
		}
		_, err = cp.Client().RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, config := range []*rest.Config{accountConfig, userConfig} {
			client := clientFor(config)
			Eventually(func() error { return listServices(ctx, client) }).WithTimeout(10 * time.Second).Should(Succeed())
		}
		_, err = cp.TokenFor(ctx, "default", "nobody")
		Expect(err).To(MatchError(ContainSubstring("ServiceAccount default/nobody")))
	})

	It("serves from two API servers on one etcd", func(ctx SpecContext) {
		second := suite.APIServer(ctx, cp, framework.Options{})
		Expect(second.URL()).NotTo(Equal(cp.URL()))
		service := create(ctx, second.Access, framework.NewService("default", "from-the-second"))
		wantAsUpstream(ctx, cp.Access, service.Spec.ClusterIP, "from-the-second")
		service = create(ctx, cp.Access, framework.NewService("default", "from-the-first"))
		wantAsUpstream(ctx, second.Access, service.Spec.ClusterIP, "from-the-first")

		By("accepting on one what the other has issued")
		config, err := cp.ConfigForServiceAccount(ctx, "default", "reader")
		Expect(err).NotTo(HaveOccurred())
		config.Host = second.URL()
		Expect(listServices(ctx, clientFor(config))).To(Succeed())
	})

	It("protects a ServiceCIDR once kube-controller-manager runs", func(ctx SpecContext) {
		_, err := cp.Networking().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("more", "10.97.0.0/24"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		finalizers := func() []string {
			cidr, err := cp.Networking().ServiceCIDRs().Get(ctx, "more", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			return cidr.Finalizers
		}
		Consistently(finalizers).WithTimeout(300 * time.Millisecond).Should(BeEmpty())
		suite.ControllerManager(ctx, cp, framework.ServiceCIDRController)
		Eventually(finalizers).WithTimeout(10 * time.Second).Should(ConsistOf(upstreamFinalizer))
	})

	It("obeys kubectl, which is told of refusals", func(ctx SpecContext) {
		manifest := `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "from-kubectl"}}`
		Expect(framework.KubectlWithInput(ctx, cp.Kubeconfig(), manifest, "apply", "-f", "-")).To(ContainSubstring("from-kubectl created"))
		Expect(framework.Kubectl(ctx, cp.Kubeconfig(), "get", "namespace", "from-kubectl", "-o", "name")).To(Equal("namespace/from-kubectl\n"))
		_, err := framework.Kubectl(ctx, cp.Kubeconfig(), "get", "namespace", "nowhere")
		Expect(err).To(MatchError(ContainSubstring(`namespaces "nowhere" not found`)))
	})

	It("comes back at the same place after the death of API server and etcd", func(ctx SpecContext) {
		before := cp.URL()
		Expect(cp.API.Kill()).To(Succeed())
		Expect(cp.Etcd.Kill()).To(Succeed())
		Expect(listServices(ctx, cp.Client())).NotTo(Succeed())
		Expect(cp.Etcd.Start(ctx)).To(Succeed())
		Expect(cp.API.Start(ctx)).To(Succeed())
		Expect(cp.URL()).To(Equal(before))
		_, err := cp.Client().CoreV1().Services("default").Get(ctx, "dual", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	})
})

// The way of a cluster from the bitmap to IPAddress objects:
//
//  1. 1.32 allocates from the bitmap and writes no IPAddress
//  2. it stores ServiceCIDRs and IPAddresses that others write, and acts on none
//  3. 1.36 starts on the same data and repairs: every ClusterIP gets its IPAddress
var _ = Describe("Kubernetes 1.32 and its upgrade", Ordered, func() {
	var (
		cp      *framework.ControlPlane
		service *corev1.Service
	)

	BeforeAll(func(ctx SpecContext) {
		cp = suite.ControlPlane(ctx, framework.Options{Version: framework.V132})
	})

	It("allocates from the bitmap", func(ctx SpecContext) {
		Expect(release(cp.Access)).To(Equal("v" + framework.V132.Name))
		Expect(serves(cp.Access)).To(ConsistOf(framework.V132.NetworkingVersion))
		service = create(ctx, cp.Access, framework.NewService("default", "old", framework.RequireDualStack()))
		Expect(service.Spec.ClusterIPs).To(HaveLen(2))

		addresses, err := cp.Networking().IPAddresses().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(addresses.Items).To(BeEmpty())
		bitmap, err := cp.Networking().ServiceCIDRs().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(bitmap.Items).To(BeEmpty())
	})

	It("stores what others write, as v1beta1", func(ctx SpecContext) {
		cidr, err := cp.Networking().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("stored", "10.97.0.0/24"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cidr.Spec.CIDRs).To(Equal([]string{"10.97.0.0/24"}))
		_, err = cp.Networking().IPAddresses().Create(ctx, framework.NewIPAddress("10.97.0.7", "default", "nobody"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())

		By("asking the API server itself for v1beta1")
		Expect(framework.Kubectl(ctx, cp.Kubeconfig(), "get", "servicecidrs.v1beta1.networking.k8s.io", "-o", "name")).
			To(Equal("servicecidr.networking.k8s.io/stored\n"))

		By("watching through the v1 client")
		watch, err := cp.Networking().ServiceCIDRs().Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
		Expect(err).NotTo(HaveOccurred())
		defer watch.Stop()
		var event any
		Eventually(watch.ResultChan()).WithTimeout(10 * time.Second).Should(Receive(&event))

		By("refusing to allocate from it")
		_, err = cp.Client().CoreV1().Services("default").Create(ctx,
			framework.NewService("default", "outside", framework.WithClusterIPs("10.97.0.8")), metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("not in the valid range")))

		for _, err := range []error{
			cp.Networking().ServiceCIDRs().Delete(ctx, "stored", metav1.DeleteOptions{}),
			cp.Networking().IPAddresses().Delete(ctx, "10.97.0.7", metav1.DeleteOptions{}),
		} {
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("is upgraded in place, and 1.36 repairs what is missing", func(ctx SpecContext) {
		url, client := cp.URL(), cp.Client()
		Expect(cp.Restart(ctx, framework.Options{})).To(Succeed())
		Expect(cp.URL()).To(Equal(url))
		Expect(release(cp.Access)).To(HavePrefix("v1.36.")) // KUBEBUILDER_ASSETS may hold another patch release
		Expect(serves(cp.Access)).To(ConsistOf(framework.V136.NetworkingVersion))

		kept, err := client.CoreV1().Services("default").Get(ctx, "old", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(kept.UID).To(Equal(service.UID))
		Expect(kept.Spec.ClusterIPs).To(Equal(service.Spec.ClusterIPs))
		for _, address := range service.Spec.ClusterIPs {
			Eventually(func() error {
				_, err := ipAddress(ctx, cp.Access, address)
				return err
			}).WithTimeout(20 * time.Second).Should(Succeed())
			wantAsUpstream(ctx, cp.Access, address, "old")
		}
	})
})

var _ = Describe("A control plane", func() {
	It("that gets a bad flag says so", func(ctx SpecContext) {
		_, err := framework.Start(ctx, framework.Options{Args: []string{"--no-such-flag"}})
		Expect(err).To(MatchError(And(ContainSubstring("starting kube-apiserver"), ContainSubstring("unknown flag: --no-such-flag"))))
		_, err = framework.Start(ctx, framework.Options{ServiceClusterIPRange: "10.96.0.0/99"})
		Expect(err).To(MatchError(ContainSubstring("service-cluster-ip-range[0] is not a valid cidr")))
		Expect(children()).To(BeEmpty())
	})

	It("that is stopped leaves no process, no goroutine and no file", func(ctx SpecContext) {
		goroutines := runtime.NumGoroutine()
		cp, err := framework.Start(ctx, framework.Options{FeatureGates: map[string]bool{"APIServerTracing": true, "OpenAPIEnums": false}})
		Expect(err).NotTo(HaveOccurred())
		_, err = cp.StartControllerManager(ctx, framework.ServiceCIDRController)
		Expect(err).NotTo(HaveOccurred())
		Expect(children()).To(ConsistOf("etcd", "kube-apiserver", "kube-controller"))

		Expect(cp.Stop()).To(Succeed())
		Expect(children()).To(BeEmpty())
		Expect(cp.Dir()).NotTo(BeADirectory())
		Eventually(runtime.NumGoroutine).WithTimeout(5 * time.Second).Should(BeNumerically("<=", goroutines))
		Expect(cp.Stop()).To(Succeed(), "a second time")
	})

	It("that has a folder finds its data again", func(ctx SpecContext) {
		options := framework.Options{Dir: GinkgoT().TempDir()}
		var addresses []string
		for range 2 {
			cp, err := framework.Start(ctx, options)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(cp.Stop)
			service, err := cp.Client().CoreV1().Services("default").Get(ctx, "kept", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				service = create(ctx, cp.Access, framework.NewService("default", "kept"))
			}
			addresses = append(addresses, service.Spec.ClusterIP)
			Expect(cp.Stop()).To(Succeed())
		}
		Expect(addresses[1]).To(Equal(addresses[0]))
	})
})

// children returns the names of the child processes of this one, in the length that the kernel keeps.
func children() []string {
	GinkgoHelper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, list := range lists {
		ids, err := os.ReadFile(list)
		if os.IsNotExist(err) {
			continue // a thread has ended meanwhile
		}
		Expect(err).NotTo(HaveOccurred())
		for id := range strings.FieldsSeq(string(ids)) {
			name, err := os.ReadFile("/proc/" + id + "/comm")
			Expect(err).NotTo(HaveOccurred())
			names = append(names, strings.TrimSpace(string(name)))
		}
	}
	return names
}
