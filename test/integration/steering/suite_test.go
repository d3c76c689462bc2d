// Package steering_test tests what ServiceCIDRPolicies promise on a real API server that calls two
// replicas of our manager over TLS: which Service gets which address, which addresses stay reserved
// or cool down, and what changes nothing.
//
// One cluster lives as long as the suite. Each container clears it in the end: the next finds it
// empty with a small default range. Mostly the Services have both families.
//
// Start with tenants_test.go; each file is one topic.
package steering_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

func TestSteering(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "steering")
}

// The default range can be filled: 110 dynamic addresses of IPv4, 111 of IPv6, and 16 static each.
const (
	default4 = "10.96.0.0/25"
	default6 = "fd00:10:96::/121"
)

// c is the cluster of all specs.
var c *cluster.Cluster

var _ = BeforeSuite(func(ctx SpecContext) {
	c = cluster.Start(ctx, cluster.Options{
		Options: framework.Options{ServiceClusterIPRange: default4 + "," + default6}, Installed: true, Replicas: 2,
	})
	for _, tenant := range []string{"blue", "red", "green"} {
		c.CreateNamespace(ctx, tenant, map[string]string{"tenant": tenant})
	}
	c.CreateNamespace(ctx, "plain", nil)
})

// inOrder is a container whose specs build on each other. It begins and ends with an empty cluster,
// and wants each request steered: if a webhook is late, the API server decides by itself.
func inOrder(text string, body func(), labels ...string) bool {
	return Describe(text, Label(labels...), Ordered, ContinueOnFailure, func() {
		BeforeAll(func(ctx SpecContext) {
			DeferCleanup(func(ctx SpecContext) { c.Clear(ctx) }) // whatever has failed, or the next container fails too
			before = unsteered(ctx)
		})
		body()
		AfterAll(func(ctx SpecContext) {
			c.ExpectNothingLeaked(ctx)
			Expect(unsteered(ctx)).To(Equal(before), "left to the API server")
		})
	})
}

// unsteered counts the requests that no replica answered, and those that one could not decide.
func unsteered(ctx context.Context) float64 {
	GinkgoHelper()
	return cluster.FailedOpen(ctx, c.Access) + c.Decisions(ctx, cluster.Failed)
}

// before is what was unsteered when the container began, or when the replicas were started.
var before float64

// whileDown stops all replicas, does something, and starts them again whatever comes of it.
func whileDown(ctx context.Context, do func()) {
	GinkgoHelper()
	c.StopReplicas()
	defer func() {
		c.StartReplicas(ctx)
		before = unsteered(ctx)
	}()
	do()
}

// fill creates Services from a few clients: they get what replicas choose, and not what is left.
func fill(ctx context.Context, n int, build func(i int) *corev1.Service) []*corev1.Service {
	GinkgoHelper()
	return suite.Must(framework.CreateServices(ctx, c.Client(), n, 4, build))
}

// propagation is how much later than the status a change of labels may be known to all replicas.
const propagation = 300 * time.Millisecond

// lower is a family as a part of names.
func lower(family corev1.IPFamily) string { return strings.ToLower(string(family)) }

// change updates a Service and returns what the API server made of it.
func change(ctx context.Context, service *corev1.Service, how func(*corev1.Service)) *corev1.Service {
	GinkgoHelper()
	return suite.Must(tryChange(ctx, service, how))
}

func tryChange(ctx context.Context, service *corev1.Service, how func(*corev1.Service)) (changed *corev1.Service, err error) {
	services := c.Client().CoreV1().Services(service.Namespace)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := services.Get(ctx, service.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		how(now)
		changed, err = services.Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
	return changed, err
}

// static succeeds for the static band of a range (KEP-3070): the first 16 usable addresses, none in
// ranges of 16. dynamic succeeds for the rest. Both are for ranges of up to 256 addresses.
func static(cidr string) types.GomegaMatcher {
	prefix := netip.MustParsePrefix(cidr)
	var band []string
	for next := prefix.Addr(); len(band) < staticBand(cidr); {
		next = next.Next()
		band = append(band, next.String())
	}
	return BeElementOf(append(band, ""))
}

func dynamic(cidr string) types.GomegaMatcher { return And(inRange(cidr), Not(static(cidr))) }

// each succeeds if all elements match, of which there may be none.
func each(matcher types.GomegaMatcher) types.GomegaMatcher { return Or(BeEmpty(), HaveEach(matcher)) }

// inRange succeeds for an address of a range.
func inRange(cidr string) types.GomegaMatcher {
	return Satisfy(func(address string) bool { return netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(address)) })
}

func staticBand(cidr string) int {
	if prefix := netip.MustParsePrefix(cidr); prefix.Addr().BitLen()-prefix.Bits() <= 4 {
		return 0
	}
	return 16
}

// size is how many addresses of a range can be used, dynamics how many of them are dynamic.
func size(cidr string) int {
	prefix := netip.MustParsePrefix(cidr)
	all := 1 << (prefix.Addr().BitLen() - prefix.Bits())
	if prefix.Addr().Is4() {
		return all - 2 // neither network nor broadcast
	}
	return all - 1
}

func dynamics(cidr string) int { return size(cidr) - staticBand(cidr) }

// lieIn succeeds for a Service with just one address in each of the ranges, in this order.
func lieIn(cidrs ...string) types.GomegaMatcher {
	return WithTransform(func(service *corev1.Service) (ranges []string) {
		for i, address := range inventory.ClusterIPs(service) {
			if i < len(cidrs) && netip.MustParsePrefix(cidrs[i]).Contains(netip.MustParseAddr(address)) {
				ranges = append(ranges, cidrs[i])
			} else {
				ranges = append(ranges, fmt.Sprintf("%s of %s/%s", address, service.Namespace, service.Name))
			}
		}
		return ranges
	}, Equal(cidrs))
}
