package allocations_test

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// witness is the history of who answers at the ClusterIPs of a Service. A look at the end does not
// show an answer of the wrong server in between, nor a moment without any.
type witness struct {
	mu   sync.Mutex
	seen map[string][]string // the servers in turn, by client and family, and how else a connection ended
}

// witness asks again and again, from everywhere, until the calling node ends.
func (env *fixture) witness(s *corev1.Service) *witness {
	GinkgoHelper()
	w, end := &witness{seen: map[string][]string{}}, make(chan struct{})
	var asking sync.WaitGroup
	for _, f := range network.Families {
		for _, from := range []*network.Namespace{env.Pod1, env.Node, env.Client} {
			// A machine that stalls for seconds is no gap. A reset, a refusal, a wrong server or
			// packets that are lost for good still show.
			asking.Go(func() { w.ask(from, network.Probe{To: environment.VIP(s, f), Timeout: 10 * time.Second}, end) })
		}
	}
	DeferCleanup(func() {
		close(end)
		asking.Wait()
	})
	return w
}

func (w *witness) ask(from *network.Namespace, probe network.Probe, end <-chan struct{}) {
	name := fmt.Sprintf("from %s to %s", from.Host(), probe.To)
	for {
		select {
		case <-end:
			return
		case <-time.After(5 * time.Millisecond): // other suites run beside this one
		}
		result := from.Dial(probe)
		who := cmp.Or(result.Server, result.String())
		w.mu.Lock()
		if all := w.seen[name]; len(all) == 0 || all[len(all)-1] != who {
			w.seen[name] = append(all, who)
		}
		w.mu.Unlock()
	}
}

// saw waits until each client has been answered by these endpoints in turn, and by no others.
func (w *witness) saw(turns ...environment.Endpoint) {
	GinkgoHelper()
	var want []string
	for _, e := range turns {
		want = append(want, e.Of.Host())
	}
	Eventually(func() map[string][]string {
		w.mu.Lock()
		defer w.mu.Unlock()
		now := map[string][]string{}
		for name, servers := range w.seen {
			now[name] = slices.Clone(servers)
		}
		return now
	}).WithTimeout(environment.Soon).Should(And(HaveLen(3*len(network.Families)), HaveEach(Equal(want))))
}
