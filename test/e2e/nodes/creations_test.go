package nodes_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// tenantNamespace, tenantRange4, tenantRange6: see config/samples/servicecidrpolicy_tenant.yaml.
const tenantNamespace = "sample-tenant"

var tenantRange4, tenantRange6 = netip.MustParsePrefix("10.114.0.0/24"), netip.MustParsePrefix("fd00:10:114::/112")

// creations create the tenant's Services in turn, with both families' addresses, and delete them.
type creations struct {
	stop      context.CancelFunc
	group     sync.WaitGroup
	made      atomic.Int32
	unsteered []string // with the addresses that they got
	late      int      // those that were not steered because the machine stalled
	refused   []error
}

// startCreations begins. They end with end, at the latest with the node of Ginkgo.
func startCreations(c testCluster) *creations {
	GinkgoHelper()
	r := &creations{}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	DeferCleanup(func() { r.stop(); r.group.Wait() })
	r.group.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			r.create(c)
		}
	})
	return r
}

// create finishes what it has begun: what was interrupted would tell nothing.
func (r *creations) create(c testCluster) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	services := c.Client().CoreV1().Services(tenantNamespace)
	stall := framework.WatchStalls()
	s, err := services.Create(ctx, framework.NewService(tenantNamespace, fmt.Sprintf("created-%d", int(r.made.Load())+len(r.refused)), framework.RequireDualStack()), metav1.CreateOptions{})
	stalled := stall() > 0 // the webhook gives up after 1.7 s
	if err != nil {
		r.refused = append(r.refused, err)
		return
	}
	r.made.Add(1)
	for _, text := range s.Spec.ClusterIPs {
		if a := netip.MustParseAddr(text); !tenantRange4.Contains(a) && !tenantRange6.Contains(a) {
			if stalled {
				r.late++
				continue
			}
			r.unsteered = append(r.unsteered, s.Name+" "+text)
		}
	}
	if err := services.Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil {
		r.refused = append(r.refused, err)
	}
}

// steeredForAWhile creates some Services, and returns those that were not steered.
func steeredForAWhile(c testCluster) []string {
	GinkgoHelper()
	r := startCreations(c)
	Eventually(r.made.Load).WithTimeout(time.Minute).Should(BeNumerically(">", 40))
	return r.end()
}

// end stops them and wants none to have been refused. It returns those that were not steered.
func (r *creations) end() []string {
	GinkgoHelper()
	r.stop()
	r.group.Wait()
	Expect(r.refused).To(BeEmpty())
	Expect(r.made.Load()).To(BeNumerically(">", 20))
	AddReportEntry(fmt.Sprintf("%d Services created, %d addresses not steered, and %d as the machine stalled", r.made.Load(), len(r.unsteered), r.late))
	return r.unsteered
}
