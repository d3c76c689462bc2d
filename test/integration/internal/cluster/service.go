package cluster

import (
	"context"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// Namespace is where the specs' Services live.
const Namespace = "default"

// workers is how many clients create and delete many Services at once.
const workers = 16

// TryService asks for a Service and returns the API server's answer.
func (c *Cluster) TryService(ctx context.Context, name string, options ...framework.ServiceOption) (*corev1.Service, error) {
	return c.Try(ctx, framework.NewService(Namespace, name, options...))
}

// CreateService creates a Service.
func (c *Cluster) CreateService(ctx context.Context, name string, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	return suite.Must(c.TryService(ctx, name, options...))
}

// settling is how long the API server's own repair loop may be busy with a Service that is new.
const settling = time.Second

// CreateSettledService creates a Service and waits until the API server has done with it. Its
// repair loop often sees a new Service before the IPAddress, and retries with growing pauses from 5
// ms: it, not what the spec tests, would restore an IPAddress that is deleted meanwhile.
func (c *Cluster) CreateSettledService(ctx context.Context, name string, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	return c.CreateSettledServices(ctx, 1, func(int) *corev1.Service { return framework.NewService(Namespace, name, options...) })[0]
}

// CreateServiceOnceFree creates a Service as soon as there is an address for it. For a moment the
// API server still sees the address of a deleted Service, and misses a new range. An address that
// the Service asks for may have leaked: see FreeLeaked.
func (c *Cluster) CreateServiceOnceFree(ctx context.Context, name string, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	wanted := framework.NewService(Namespace, name, options...)
	var service *corev1.Service
	Eventually(func() (err error) {
		service, err = c.Try(ctx, wanted)
		if err != nil && strings.Contains(err.Error(), "already allocated") {
			for _, address := range wanted.Spec.ClusterIPs {
				c.freeLeaked(ctx, c.IPAddress(ctx, address))
			}
		}
		return err
	}).Should(Succeed())
	return service
}

// HoldAddress creates a Service with fixed addresses, and gives the API server the moment that it
// needs to learn of a new range.
func (c *Cluster) HoldAddress(ctx context.Context, name string, addresses ...string) *corev1.Service {
	GinkgoHelper()
	options := []framework.ServiceOption{framework.WithClusterIPs(addresses...), framework.WithFamilies(framework.FamilyOf(addresses[0]))}
	if len(addresses) > 1 {
		options[1] = framework.RequireDualStack()
	}
	return c.CreateServiceOnceFree(ctx, name, options...)
}

// CreateServices creates the Services build(0) to build(n-1) from many clients at once.
func (c *Cluster) CreateServices(ctx context.Context, n int, build func(i int) *corev1.Service) []*corev1.Service {
	GinkgoHelper()
	return suite.Must(framework.CreateServices(ctx, c.Client(), n, workers, build))
}

// CreateSettledServices is CreateServices for settled Services: see CreateSettledService.
func (c *Cluster) CreateSettledServices(ctx context.Context, n int, build func(i int) *corev1.Service) []*corev1.Service {
	GinkgoHelper()
	services := c.CreateServices(ctx, n, build)
	time.Sleep(settling)
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
	list := suite.Must(c.Client().CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{}))
	return list.Items
}

// CreateNamespace creates a namespace with labels, which may be nil.
func (c *Cluster) CreateNamespace(ctx context.Context, name string, labels map[string]string) {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	suite.Must(c.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}))
}

// Dual builds a Service with addresses of both families.
func Dual(namespace, name string, options ...framework.ServiceOption) *corev1.Service {
	return framework.NewService(namespace, name, append([]framework.ServiceOption{framework.RequireDualStack()}, options...)...)
}

// Single builds a Service with an address of one family.
func Single(namespace, name string, family corev1.IPFamily, options ...framework.ServiceOption) *corev1.Service {
	return framework.NewService(namespace, name, append([]framework.ServiceOption{framework.WithFamilies(family)}, options...)...)
}

// Asking builds a Service that asks for fixed addresses, of one family or both.
func Asking(namespace, name string, addresses ...string) *corev1.Service {
	if len(addresses) > 1 {
		return Dual(namespace, name, framework.WithClusterIPs(addresses...))
	}
	return Single(namespace, name, framework.FamilyOf(addresses[0]), framework.WithClusterIPs(addresses...))
}

// Try asks for a Service and returns the API server's answer. It may be called concurrently.
func (c *Cluster) Try(ctx context.Context, service *corev1.Service) (*corev1.Service, error) {
	return unlessRefused(c.Client().CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{}))
}

// unlessRefused returns nothing but the error where there is one, as gomega wants it.
func unlessRefused(service *corev1.Service, err error) (*corev1.Service, error) {
	if err != nil {
		return nil, err
	}
	return service, nil
}

// Create creates a Service.
func (c *Cluster) Create(ctx context.Context, service *corev1.Service) *corev1.Service {
	GinkgoHelper()
	return suite.Must(c.Try(ctx, service))
}

// PatchService merges a patch into a Service of Namespace.
func (c *Cluster) PatchService(ctx context.Context, name, patch string) (*corev1.Service, error) {
	return unlessRefused(c.Client().CoreV1().Services(Namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
}

// PatchServices merges a patch into Services of any namespace.
func (c *Cluster) PatchServices(ctx context.Context, patch string, services ...*corev1.Service) {
	GinkgoHelper()
	for _, s := range services {
		Expect(c.Client().CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})).
			Error().NotTo(HaveOccurred(), s.Name)
	}
}

// ExpectRefused asks for a Service and expects our webhook to refuse it in the name of a policy. It
// returns the message, from the policy on.
func (c *Cluster) ExpectRefused(ctx context.Context, policy string, service *corev1.Service) string {
	GinkgoHelper()
	_, err := c.Try(ctx, service)
	return ExpectRefusal(err, policy)
}

// ExpectRefusal expects an error to be our webhook's refusal of a Service in the name of a policy.
// It returns the message, from the policy on.
func ExpectRefusal(err error, policy string) string {
	GinkgoHelper()
	message := refusal(err)
	Expect(message).To(HavePrefix("ServiceCIDRPolicy %q: ", policy))
	return message
}

// refusal expects an error to be a refusal of a Service by our webhook, and returns what it says.
func refusal(err error) string {
	GinkgoHelper()
	Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	by, message, _ := strings.Cut(err.Error(), ` denied the request: `)
	_, name, _ := strings.Cut(by, "admission webhook ")
	Expect(serviceWebhooks).To(ContainElement(strings.Trim(name, `"`)), err.Error())
	return message
}

// ExpectTaken expects our webhook to refuse a Service an address that is taken, in the words of the
// API server, which do not tell whether another Service has it, had it, or is to have it.
func (c *Cluster) ExpectTaken(ctx context.Context, address string, service *corev1.Service) {
	GinkgoHelper()
	_, err := c.Try(ctx, service)
	Expect(refusal(err)).To(Equal("failed to allocate IP " + address + ": provided IP is already allocated; choose another address, leave the choice to the cluster, or ask an administrator"))
}

// ExpectCools expects our webhook to refuse a Service an address that cools down after another one
// of its namespace had it, and to say so.
func (c *Cluster) ExpectCools(ctx context.Context, address, last string, service *corev1.Service) {
	GinkgoHelper()
	_, err := c.Try(ctx, service)
	Expect(refusal(err)).To(And(HavePrefix("failed to allocate IP "+address+": provided IP is already allocated: it cools down until "), ContainSubstring("after Service "+last+" had it, which alone may have it back")))
}

// ExpectNoted waits until the status of a policy has a refusal for a reason that contains all of
// the texts.
func (c *Cluster) ExpectNoted(ctx context.Context, policy string, texts ...string) {
	GinkgoHelper()
	Eventually(func() []v1alpha1.PolicyRefusal { return c.Policy(ctx, policy).Status.Refusals }).
		Should(ContainElement(HaveField("Message", ContainAll(texts...))))
}

// ExpectFull asks for one more Service, and expects the API server to have no address for it.
func (c *Cluster) ExpectFull(ctx context.Context) {
	GinkgoHelper()
	_, err := c.TryService(ctx, "one-too-many")
	Expect(err).To(MatchError(ContainSubstring("range is full")))
}

// WaitFreed waits until Services are gone and the API server has given their addresses back. What
// its repair has written again is freed: see FreeLeaked.
func (c *Cluster) WaitFreed(ctx context.Context, services ...*corev1.Service) {
	GinkgoHelper()
	for _, service := range services {
		for _, address := range inventory.ClusterIPs(service) {
			name := service.Namespace + "/" + service.Name
			Eventually(func() string {
				ip := c.IPAddress(ctx, address)
				if ownerOf(ip) == name {
					c.freeLeaked(ctx, ip)
				}
				return ownerOf(ip)
			}).ShouldNot(Equal(name), address)
		}
	}
}

// DeleteAllServices deletes all Services but the API server's, and waits until addresses are free.
func (c *Cluster) DeleteAllServices(ctx context.Context) {
	GinkgoHelper()
	var services []*corev1.Service
	for _, service := range c.Services(ctx) {
		if !ofAPIServer(&service) {
			services = append(services, service.DeepCopy())
		}
	}
	c.DeleteServices(ctx, services...)
	c.WaitFreed(ctx, services...)
}

// Clear deletes all Services but the API server's, all policies and all ServiceCIDRs but the
// default one, and waits until the operator keeps nothing.
func (c *Cluster) Clear(ctx context.Context) {
	GinkgoHelper()
	for _, policy := range c.AllPolicies(ctx) {
		c.DeletePolicies(ctx, policy.Name)
	}
	c.DeleteAllServices(ctx)
	for _, serviceCIDR := range c.ServiceCIDRs(ctx) {
		if serviceCIDR.Name != "kubernetes" {
			c.WithdrawRanges(ctx, serviceCIDR.Name)
		}
	}
	Eventually(c.Ours).WithArguments(ctx).Should(BeEmpty())
}

// ofAPIServer reports whether the API server created the Service for itself.
func ofAPIServer(service *corev1.Service) bool {
	return service.Namespace == metav1.NamespaceDefault && service.Name == "kubernetes"
}

// In returns those addresses of Services that lie in a range.
func In(cidr string, services ...*corev1.Service) (addresses []string) {
	prefix := netip.MustParsePrefix(cidr)
	for _, service := range services {
		for _, address := range inventory.ClusterIPs(service) {
			if prefix.Contains(netip.MustParseAddr(address)) {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}
