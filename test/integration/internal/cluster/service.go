package cluster

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Namespace is where the specs' Services live.
const Namespace = "default"

// workers is how many clients create and delete many Services at once.
const workers = 16

// TryService asks for a Service and returns the API server's answer.
func (c *Cluster) TryService(ctx context.Context, name string, options ...framework.ServiceOption) (*corev1.Service, error) {
	return c.Client().CoreV1().Services(Namespace).Create(ctx, framework.NewService(Namespace, name, options...), metav1.CreateOptions{})
}

// CreateService creates a Service.
func (c *Cluster) CreateService(ctx context.Context, name string, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	service, err := c.TryService(ctx, name, options...)
	Expect(err).NotTo(HaveOccurred())
	return service
}

// unhurried is how long the API server's own repair loop may be busy with a Service that is new.
const unhurried = time.Second

// CreateSettledService creates a Service and waits until the API server has done with it. Its repair loop looks at every new Service,
// often before it has seen the IPAddress, and then tries again with growing pauses, the first of 5 ms: an IPAddress that is taken
// away meanwhile is restored by this loop, and not by whoever the spec is about.
func (c *Cluster) CreateSettledService(ctx context.Context, name string, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	service := c.CreateService(ctx, name, options...)
	time.Sleep(unhurried)
	return service
}

// CreateServiceOnceFree creates a Service as soon as there is an address for it. The API server allocates from what it has
// seen so far, which for a moment still has the address of a Service that is gone, and lacks a range that is new.
func (c *Cluster) CreateServiceOnceFree(ctx context.Context, name string, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	var service *corev1.Service
	Eventually(func() (err error) {
		service, err = c.TryService(ctx, name, options...)
		return err
	}).WithTimeout(Patience).Should(Succeed())
	return service
}

// HoldAddress creates a Service with fixed addresses. It gives the API server the moment that it needs to learn of a new
// range.
func (c *Cluster) HoldAddress(ctx context.Context, name string, addresses ...string) *corev1.Service {
	GinkgoHelper()
	options := []framework.ServiceOption{framework.WithClusterIPs(addresses...)}
	if len(addresses) > 1 {
		options = append(options, framework.RequireDualStack())
	} else {
		options = append(options, framework.WithFamilies(familyOf(addresses[0])))
	}
	return c.CreateServiceOnceFree(ctx, name, options...)
}

// CreateServices creates the Services build(0) to build(n-1) from many clients at once.
func (c *Cluster) CreateServices(ctx context.Context, n int, build func(i int) *corev1.Service) []*corev1.Service {
	GinkgoHelper()
	services, err := framework.CreateServices(ctx, c.Client(), n, workers, build)
	Expect(err).NotTo(HaveOccurred())
	return services
}

// CreateSettledServices is CreateServices for Services that are settled, as CreateSettledService explains.
func (c *Cluster) CreateSettledServices(ctx context.Context, n int, build func(i int) *corev1.Service) []*corev1.Service {
	GinkgoHelper()
	services := c.CreateServices(ctx, n, build)
	time.Sleep(unhurried)
	return services
}

// DeleteServices deletes Services from many clients at once.
func (c *Cluster) DeleteServices(ctx context.Context, services ...*corev1.Service) {
	GinkgoHelper()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, s := range services {
		group.Go(func() error {
			return c.Client().CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
		})
	}
	Expect(group.Wait()).To(Succeed())
}

// Services returns all Services of the cluster.
func (c *Cluster) Services(ctx context.Context) []corev1.Service {
	GinkgoHelper()
	list, err := c.Client().CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	return list.Items
}
