package steering

import (
	"context"
	"net/netip"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// CreateNamespace creates a namespace with labels, which may be nil.
func (b *Bed) CreateNamespace(ctx context.Context, name string, labels map[string]string) {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := b.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// Try asks for a Service and returns the API server's answer. It may be called concurrently.
func (b *Bed) Try(ctx context.Context, service *corev1.Service) (*corev1.Service, error) {
	return b.Client().CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
}

// Create creates a Service.
func (b *Bed) Create(ctx context.Context, service *corev1.Service) *corev1.Service {
	GinkgoHelper()
	created, err := b.Try(ctx, service)
	Expect(err).NotTo(HaveOccurred())
	return created
}

// ExpectRefused asks for a Service and expects our webhook to refuse it in the name of a policy. It returns the message, from the policy on.
func (b *Bed) ExpectRefused(ctx context.Context, policy string, service *corev1.Service) string {
	GinkgoHelper()
	_, err := b.Try(ctx, service)
	return ExpectRefusal(err, policy)
}

// ExpectRefusal expects an error to be a refusal of a Service by our webhook, in the name of a policy. It returns the message, from the policy on.
func ExpectRefusal(err error, policy string) string {
	GinkgoHelper()
	Expect(err).To(HaveOccurred())
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	_, message, found := strings.Cut(err.Error(), `admission webhook "service.clusterip-operator.io" denied the request: `)
	Expect(found).To(BeTrue(), err.Error())
	Expect(message).To(HavePrefix("ServiceCIDRPolicy %q: ", policy))
	return message
}

// WaitFreed waits until Services are gone and the API server has given their addresses back.
func (b *Bed) WaitFreed(ctx context.Context, services ...*corev1.Service) {
	GinkgoHelper()
	gone := map[string]string{}
	for _, service := range services {
		for _, address := range inventory.ClusterIPs(service) {
			gone[address] = service.Namespace + "/" + service.Name
		}
	}
	Eventually(func() (held []string) {
		for _, ip := range b.IPAddresses(ctx) {
			parent := ip.Spec.ParentRef
			if owner, asked := gone[ip.Name]; asked && parent != nil && parent.Resource == "services" && parent.Namespace+"/"+parent.Name == owner {
				held = append(held, ip.Name)
			}
		}
		return held
	}).WithTimeout(cluster.Patience).Should(BeEmpty())
}

// DeleteAllServices deletes all Services but that of the API server, and waits until their addresses are free.
func (b *Bed) DeleteAllServices(ctx context.Context) {
	GinkgoHelper()
	var services []*corev1.Service
	for _, service := range b.Services(ctx) {
		if !ofAPIServer(&service) {
			services = append(services, service.DeepCopy())
		}
	}
	b.DeleteServices(ctx, services...)
	b.WaitFreed(ctx, services...)
}

// Clear deletes all Services but that of the API server, all policies and all ServiceCIDRs but the default one, and waits until
// the operator keeps nothing any more.
func (b *Bed) Clear(ctx context.Context) {
	GinkgoHelper()
	var policies, ranges []string
	for _, policy := range b.AllPolicies(ctx) {
		policies = append(policies, policy.Name)
	}
	b.DeletePolicies(ctx, policies...)
	b.DeleteAllServices(ctx)
	for _, serviceCIDR := range b.ServiceCIDRs(ctx) {
		if serviceCIDR.Name != "kubernetes" {
			ranges = append(ranges, serviceCIDR.Name)
		}
	}
	b.WithdrawRanges(ctx, ranges...)
	Eventually(func() any { return b.Ours(ctx) }).WithTimeout(cluster.Patience).Should(BeEmpty())
}

// ofAPIServer reports whether the API server created the Service for itself.
func ofAPIServer(service *corev1.Service) bool {
	return service.Namespace == metav1.NamespaceDefault && service.Name == "kubernetes"
}

// In returns those addresses of a Service that lie in a range.
func In(cidr string, service *corev1.Service) (addresses []string) {
	prefix := netip.MustParsePrefix(cidr)
	for _, address := range inventory.ClusterIPs(service) {
		if prefix.Contains(netip.MustParseAddr(address)) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
