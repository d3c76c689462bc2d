package soak_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/history"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/traffic"
)

// A /20 has 4,094 usable addresses, a /116 4,095, each with one for the API server's Service. At 99
// % some forty are free for thirty-two clients: here replicas that draw side by side collide most.
var _ = Describe("Thirty-two clients in ranges that are almost full", Label("soak"), func() {
	const (
		creations = 3000
		level     = 4053 // 99 %
		learning  = time.Second
		limit     = 300 * time.Millisecond // of an answer
	)

	It("are served by the replica that is left when the leader is killed", func(ctx SpecContext) {
		log, flags := history.NewLog()
		c := cluster.Start(ctx, cluster.Options{
			Options:   framework.Options{ServiceClusterIPRange: "10.96.0.0/20,fd00:10:96::/116", Args: flags},
			Installed: true, Replicas: 2, Plain: true,
		})
		crowd := traffic.NewCrowd(c, "crowd", 32, level)
		crowd.Create(ctx, level)
		filling := crowd.Tally.String()
		crowd.Tally.Drop(traffic.Collided)
		filled := crowd.Tally.Count(traffic.Created)

		var clients sync.WaitGroup
		clients.Go(func() {
			defer GinkgoRecover()
			crowd.Create(ctx, creations)
		})
		Eventually(crowd.Done).WithTimeout(5 * time.Minute).WithPolling(10 * time.Millisecond).Should(BeNumerically(">", level+creations/3))
		leader, survivor := c.Leader(ctx)
		before := answers(ctx, survivor)
		Expect(leader.Kill()).To(Succeed())
		time.Sleep(learning)
		learned := answers(ctx, survivor)
		clients.Wait()
		after := answers(ctx, survivor)

		collided := crowd.Tally.Count(traffic.Collided)
		ours, others := crowd.Collisions(history.Requests(log))
		AddReportEntry("the crowd", ReportEntryVisibilityAlways, fmt.Sprintf("filling: %s\nsince then: %s\nours %q\nwith the API server's own choice %q\n"+
			"the survivor's p99: %s in the first second, %s later",
			filling, crowd.Tally.String(), ours, others, learned.since(before).quantile(0.99), after.since(learned).quantile(0.99)))
		Expect(float64(collided) / creations).To(BeNumerically("<", 0.01))
		Expect(crowd.Tally.Count(traffic.Created)-filled+collided).To(Equal(creations), "%s", &crowd.Tally)
		Expect(after.since(learned).total()).To(BeNumerically(">", creations/10), "nearly nobody was asked after the kill")
		Expect(after.since(learned).quantile(0.99)).To(BeNumerically("<", limit))
		c.ExpectNothingLeaked(ctx)
		// The operator gives an IPAddress whose Service it does not see a minute.
		c.ExpectConsistentWithin(ctx, settling)
	})
})

// histogram is how many answers took at most so many seconds.
type histogram map[float64]float64

// answers is how long a replica's answers to Services have taken.
func answers(ctx context.Context, replica *framework.Manager) histogram {
	GinkgoHelper()
	metrics, err := replica.Metrics(ctx)
	Expect(err).NotTo(HaveOccurred())
	return metrics.Buckets("clusterip_operator_admission_duration_seconds")
}

// since returns what was added to an earlier histogram.
func (h histogram) since(earlier histogram) histogram {
	added := maps.Clone(h)
	for bound := range added {
		added[bound] -= earlier[bound]
	}
	return added
}

// total is how many answers there are.
func (h histogram) total() (n float64) {
	for _, at := range h {
		n = max(n, at)
	}
	return n
}

// quantile estimates what a share q of the answers does not exceed: it spreads a bucket's answers
// evenly, and takes those above the last bound to be as long as it. Without answers it is 0.
func (h histogram) quantile(q float64) time.Duration {
	rank, lower, below := q*h.total(), 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(h)) {
		if n := h[bound]; n >= rank && n > below {
			if bound > 1e9 {
				bound = lower
			}
			return time.Duration((lower + (bound-lower)*(rank-below)/(n-below)) * float64(time.Second))
		}
		lower, below = bound, h[bound]
	}
	return 0
}

func TestQuantile(t *testing.T) {
	metrics, err := framework.ParseMetrics(`took_bucket{le="0.1"} 10
took_bucket{le="0.2"} 20
took_bucket{le="+Inf"} 21
`)
	if err != nil {
		t.Fatal(err)
	}
	h := histogram(metrics.Buckets("took"))
	for q, want := range map[float64]time.Duration{0.5: 105 * time.Millisecond, 0.25: 52500 * time.Microsecond, 0.99: 200 * time.Millisecond} {
		if got := h.quantile(q).Round(time.Microsecond); got != want {
			t.Errorf("%v: got %s, want %s", q, got, want)
		}
	}
	later := histogram{0.1: 10, 0.2: 40, 100: 41}
	if got := later.since(histogram{0.1: 10, 0.2: 20, 100: 21}); got.total() != 20 || got.quantile(0.5) != 150*time.Millisecond {
		t.Errorf("of those in between: %v, %s", got.total(), got.quantile(0.5))
	}
	if got := (histogram{}).quantile(0.99); got != 0 {
		t.Errorf("of none: %s", got)
	}
}
