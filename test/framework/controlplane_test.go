package framework_test

import (
	"context"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

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

func listServices(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	return err
}

var _ = Describe("Kubernetes 1.36", Ordered, func() {
	var cp *framework.ControlPlane

	BeforeAll(func(ctx SpecContext) { cp = suite.ControlPlane(ctx, framework.Options{}) })

	It("writes IPAddresses as the builder makes them", func(ctx SpecContext) {
		service := create(ctx, cp.Access, framework.NewService("default", "dual", framework.RequireDualStack()))
		Expect(service.Spec.ClusterIPs).To(HaveLen(2))
		for _, address := range service.Spec.ClusterIPs {
			wantAsUpstream(ctx, cp.Access, address, "dual")
		}
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
