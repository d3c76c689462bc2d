// Package agentwatch_test follows real API servers with proxyagent/watch. Only they show what
// selectors select, how lists and watches outlive an API server, and what Kubernetes 1.32 answers.
//
// Start with changes_test.go.
package agentwatch_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestAgentWatch(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "agentwatch")
}

// recovery includes the half minute for which a watch may pause after failures.
const recovery = time.Minute

// namespace is where the specs' Services live.
const namespace = "default"

// compact lets etcd forget all but the present, so that no watch can go on from where it was.
func compact(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	etcd := storage.Open(c.Etcd)
	Expect(etcd.Client.Compact(ctx, etcd.Revision(ctx))).Error().NotTo(HaveOccurred())
}

// createSlice creates an EndpointSlice of a Service, with port 8080 and IPv4 addresses.
func createSlice(ctx context.Context, a *framework.Access, name, service string, addresses ...string) {
	GinkgoHelper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: new(int32(8080))}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	suite.Must(a.Client().DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice, metav1.CreateOptions{}))
}

func patchSlice(ctx context.Context, a *framework.Access, name, patch string) {
	GinkgoHelper()
	suite.Must(a.Client().DiscoveryV1().EndpointSlices(namespace).
		Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
}
