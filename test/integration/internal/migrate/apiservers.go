package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

const (
	slicesKey    = "/registry/endpointslices/default/"
	endpointsKey = "/registry/services/endpoints/default/kubernetes"
)

// Publish tells a cluster that its API servers are at these URLs, as they do themselves unless they
// listen on loopback. As such addresses would be refused, it writes to the storage, one slice for
// each port. It waits until the API server reports them.
func Publish(ctx context.Context, c *cluster.Cluster, etcd storage.Storage, urls ...string) {
	GinkgoHelper()
	etcd.Remove(ctx, slicesKey, clientv3.WithPrefix())
	etcd.Remove(ctx, endpointsKey)
	published(ctx, c, 0)
	endpoints := corev1.Endpoints{ //nolint:staticcheck // API servers still write it
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", UID: "e"},
	}
	for i, url := range urls {
		host, port := addressOf(url)
		name, tcp, ready := "https", corev1.ProtocolTCP, true
		slice := discoveryv1.EndpointSlice{
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
		put(ctx, etcd, slicesKey+slice.Name, slice)
	}
	if len(urls) > 0 {
		put(ctx, etcd, endpointsKey, endpoints)
	}
	published(ctx, c, len(urls))
}

func put(ctx context.Context, etcd storage.Storage, key string, object any) {
	GinkgoHelper()
	text := suite.Must(json.Marshal(object))
	etcd.Put(ctx, key, text)
}

// published waits until the API server tells of as many as there are.
func published(ctx context.Context, c *cluster.Cluster, n int) {
	GinkgoHelper()
	Eventually(func() (int, error) {
		list, err := c.Client().DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=kubernetes", ResourceVersion: "0",
		})
		return len(list.Items), err
	}).WithTimeout(cluster.Timeout).Should(Equal(n))
}

func addressOf(url string) (host string, port int32) {
	GinkgoHelper()
	host, text, err := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
	Expect(err).NotTo(HaveOccurred())
	number := suite.Must(strconv.ParseInt(text, 10, 32))
	return host, int32(number)
}
