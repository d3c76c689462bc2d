// Package tenants_test holds what the operator promises about tenants: users who may create,
// update, patch and delete Services in one namespace, and nothing else, who send any bytes that the
// API server takes, and who know the operator's code. docs/guides/security.md names these specs.
//
//  1. Exclusive: no tenant gets an address of a range that is closed to it (exclusive_test.go).
//  2. Fair: no other user is refused, slowed or billed for what a tenant sends (fair_test.go).
//  3. Bounded: heap, writes, events and object sizes that a tenant causes are (bounded_test.go).
//  4. No authority lent: no tenant's text is what an admin's command writes (authority_test.go).
//  5. Discreet: of other namespaces a tenant knows what the API server tells (discreet_test.go).
//
// One cluster with two replicas lives as long as the suite. Each spec has namespaces and ranges of
// its own there. The soak of all of it together is in test/integration/soak.
package tenants_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/hostile"
)

func TestTenants(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "tenants")
}

// The default ranges, as large as many clusters have them.
const default4, default6 = "10.96.0.0/16", "fd00:10:96::/112"

// c is the cluster of all specs.
var c *cluster.Cluster

// Replicas are plain: their memory is measured, and much is asked of them at once.
var _ = BeforeSuite(func(ctx SpecContext) {
	GinkgoT().Setenv("GOGC", "100") // as in a pod, whatever hack/test.sh says for the sake of speed
	c = cluster.Start(ctx, cluster.Options{
		Options: framework.Options{ServiceClusterIPRange: default4 + "," + default6}, Installed: true, Replicas: 2, Plain: true,
	})
})

// numbers make names and ranges of specs unique.
var numbers int

// place is a pair of ranges of a spec's own, and its name.
type place struct {
	name      string
	four, six netip.Prefix
}

// newPlace offers ranges with so many bits for hosts, which end with the spec.
func newPlace(ctx context.Context, name string, hostBits int) place {
	GinkgoHelper()
	numbers++
	p := place{
		name: name, four: netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/%d", 130+numbers, 32-hostBits)),
		six: netip.MustParsePrefix(fmt.Sprintf("fd00:10:%d::/%d", 130+numbers, 128-hostBits)),
	}
	c.OfferRange(ctx, name, map[string]string{"place": name}, p.four.String(), p.six.String())
	DeferCleanup(func(ctx SpecContext) {
		c.DeleteAllServices(ctx)
		c.WithdrawRanges(ctx, name)
	})
	return p
}

// at returns the n-th address of each range.
func (p place) at(n int) (four, six string) {
	a, b := p.four.Addr(), p.six.Addr()
	for range n {
		a, b = a.Next(), b.Next()
	}
	return a.String(), b.String()
}

// program makes a policy that ends with the spec.
func program(ctx context.Context, name, spec string) {
	GinkgoHelper()
	c.Program(ctx, name, spec)
	DeferCleanup(func(ctx SpecContext) { c.DeletePolicies(ctx, name) })
}

// while repeats do from so many goroutines until the function that it returns is called.
func while(ctx context.Context, workers int, do func(ctx context.Context, i int)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := worker; ctx.Err() == nil; i += workers {
				do(ctx, i)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// every begins something at a pace, whether what was begun before has ended or not, until the
// function that it returns is called.
func every(ctx context.Context, pace time.Duration, do func(ctx context.Context, i int)) (stop func()) {
	var all sync.WaitGroup
	end := while(ctx, 1, func(ctx context.Context, i int) {
		all.Go(func() { do(ctx, i) })
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	})
	return func() {
		end()
		all.Wait()
	}
}

// inFlight is the most that a replica has handed out and not seen.
func inFlight(ctx context.Context) (most float64) {
	GinkgoHelper()
	for _, n := range c.EachMetric(ctx, "admission_in_flight_addresses") {
		most = max(most, n)
	}
	return most
}

// neighbour creates Services of both families one by one, deletes each at once, and returns the
// refusals and the longest time that one took. All get addresses of the place, if one is named.
func neighbour(ctx context.Context, namespace string, n int, in ...place) (refusals []string, longest time.Duration) {
	GinkgoHelper()
	for i := range n {
		start := time.Now()
		s, err := c.Try(ctx, cluster.Dual(namespace, fmt.Sprintf("neighbour-%d", i)))
		longest = max(longest, time.Since(start))
		if err != nil {
			refusals = append(refusals, err.Error())
			continue
		}
		for _, p := range in {
			Expect(p.four.Contains(netip.MustParseAddr(s.Spec.ClusterIPs[0])) && p.six.Contains(netip.MustParseAddr(s.Spec.ClusterIPs[1]))).To(BeTrue(), "%q", s.Spec.ClusterIPs)
		}
		c.DeleteServices(ctx, s)
		c.WaitFreed(ctx, s)
	}
	return refusals, longest
}

// codes counts answers.
func codes(answers []hostile.Answer) map[int]int {
	out := map[int]int{}
	for _, a := range answers {
		out[a.Code]++
	}
	return out
}
