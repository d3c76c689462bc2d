package migration_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

const (
	slicesKey    = registry + "endpointslices/default/"
	endpointsKey = registry + "services/endpoints/default/kubernetes"
)

// publish tells the cluster where its API servers are, itself and further ones, as API servers do that do not listen on a
// loopback address. Such a one would be refused, so it is slipped into the storage. Ports differ, so each gets its slice.
func (w *world) publish(ctx context.Context, further ...string) {
	GinkgoHelper()
	w.unpublish(ctx)
	endpoints := &corev1.Endpoints{ //nolint:staticcheck // API servers still write it
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", UID: "e"},
	}
	urls := append([]string{w.URL()}, further...)
	for i, url := range urls {
		host, port := addressOf(url)
		name, tcp, ready := "https", corev1.ProtocolTCP, true
		slice := &discoveryv1.EndpointSlice{
			TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprintf("kubernetes-%d", i), UID: "s",
				Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
			Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}},
		}
		endpoints.Subsets = append(endpoints.Subsets, corev1.EndpointSubset{ //nolint:staticcheck // the same
			Addresses: []corev1.EndpointAddress{{IP: host}},
			Ports:     []corev1.EndpointPort{{Name: name, Port: port, Protocol: tcp}},
		})
		w.etcd.put(ctx, slicesKey+slice.Name, encode(slice))
	}
	w.etcd.put(ctx, endpointsKey, encode(endpoints))
	w.published(ctx, len(urls))
}

func (w *world) unpublish(ctx context.Context) {
	GinkgoHelper()
	w.etcd.removeBelow(ctx, slicesKey)
	w.etcd.remove(ctx, endpointsKey)
	w.published(ctx, 0)
}

// published waits until the API server tells of as many as there are.
func (w *world) published(ctx context.Context, n int) {
	GinkgoHelper()
	Eventually(func() (int, error) {
		list, err := w.Client().DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=kubernetes", ResourceVersion: "0",
		})
		return len(list.Items), err
	}).WithTimeout(cluster.Patience).Should(Equal(n))
}

func addressOf(url string) (host string, port int32) {
	GinkgoHelper()
	host, text, err := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
	Expect(err).NotTo(HaveOccurred())
	number, err := strconv.ParseInt(text, 10, 32)
	Expect(err).NotTo(HaveOccurred())
	return host, int32(number)
}
