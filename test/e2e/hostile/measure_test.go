package hostile_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// firstPort is the first number of the second port of the Service moving, which is over UDP:
// a refusal is heard at once there, over TCP and IPv6 only after a second.
const firstPort = 1000

// delays are how long changes took, from the moment in which another client of the API server saw
// them until packets went as they say: how busy the API server is, is no merit of the agent.
type delays []time.Duration

func (d delays) median() time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

func (d delays) worst() time.Duration { return slices.Max(append(delays{0}, d...)) }

func (d delays) String() string {
	return fmt.Sprintf("median %s, worst %s of %d", round(d.median()), round(d.worst()), len(d))
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// The goal is that a change is in the kernel within 100 ms. That is what a change may take beyond a
// multiple of what it takes in the same run without the party, on a machine that has nothing else
// to do; on one that is busy with the tests of other packages it may take longer by as much as the
// agent had to wait for a processor. One change may fall together with the one in which the agent
// programs the whole of a large Service: hence what a single one may take.
const (
	ratio = 3
	goal  = 100 * time.Millisecond
	spike = 500 * time.Millisecond
)

// perLegacyRule is what a change takes for each rule that there is: iptables-legacy
// reads and writes the whole table, of all programs.
const perLegacyRule = 10 * time.Microsecond

// prompt expects that changes beside a party and as many rules took no longer than calm ones, as
// the limits above have it. Those while the party entered count for the slowest only.
func (env *fixture) prompt(entering, beside, calm delays, rules int64, during turns) {
	GinkgoHelper()
	allowance := goal
	if env.Mode == legacy {
		allowance += time.Duration(rules) * perLegacyRule
	}
	slow := func(d time.Duration) time.Duration { return time.Duration(float64(d) * during.slowness()) }
	Expect(beside.median()).To(BeNumerically("<=", ratio*calm.median()+slow(allowance)),
		"changes beside the party: %s; without: %s; the agent: %s", beside, calm, during)
	worst := max(entering.worst(), beside.worst())
	Expect(worst).To(BeNumerically("<=", ratio*calm.worst()+slow(allowance+spike)),
		"the slowest change beside the party: %s; while it entered: %s; without: %s; the agent: %s", beside, entering, calm, during)
}

// change makes one change of the Service moving and returns how long it took to be in the kernel,
// in the slower one of the families, without the time for which the whole machine stood still.
func (env *fixture) change(ctx context.Context) time.Duration {
	GinkgoHelper()
	stall := framework.WatchStalls()
	took := env.changed(ctx)
	return max(0, took-stall())
}

// changed makes the change: every other time of the endpoints, or of the number of the second port.
func (env *fixture) changed(ctx context.Context) time.Duration {
	GinkgoHelper()
	env.moves++
	if env.moves%2 == 0 {
		env.moving = env.Update(ctx, env.moving.Name, func(s *corev1.Service) { s.Spec.Ports[1].Port = firstPort + int32(env.moves%1000) })
		served := until(func(f model.Family) bool {
			return env.Pod1.Dial(network.Probe{To: env.second(f), Protocol: model.UDP, Timeout: network.RetryTimeout}).Outcome == network.Connected
		})
		seen := env.seen.at(env.moving)
		return max(served[0].Sub(seen), served[1].Sub(seen))
	}
	e := environment.Endpoint{Of: []*network.Namespace{env.Pod2, env.RemotePod}[env.moves/2%2], Extra: 1 + env.moves/2%30}
	var written [2]*discoveryv1.EndpointSlice
	for i, f := range network.Families {
		slice, err := env.Slices().Update(ctx, env.NewSlice(env.moving, f, e), metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		written[i] = slice
	}
	served := until(func(f model.Family) bool {
		return env.Pod1.Dial(network.Probe{To: environment.VIP(env.moving, f), Timeout: network.RetryTimeout}).Endpoint.Addr() == e.Addr(f)
	})
	return max(served[0].Sub(env.seen.at(written[0])), served[1].Sub(env.seen.at(written[1])))
}

// until asks for both families side by side, and returns when the answers were yes, in the order of
// network.Families. A pause keeps the questions from taking the processor from what they wait for.
func until(answer func(model.Family) bool) (when [2]time.Time) {
	start := time.Now()
	var asking sync.WaitGroup
	for i, f := range network.Families {
		asking.Go(func() {
			for !answer(f) && time.Since(start) < environment.Soon {
				time.Sleep(2 * time.Millisecond)
			}
			when[i] = time.Now()
		})
	}
	asking.Wait()
	return when
}

// changes are n of them, one after the other.
func (env *fixture) changes(ctx context.Context, n int) (d delays) {
	GinkgoHelper()
	for range n {
		d = append(d, env.change(ctx))
	}
	return d
}

// second is where the second port of the Service moving is.
func (env *fixture) second(f model.Family) netip.AddrPort {
	return netip.AddrPortFrom(environment.VIP(env.moving, f).Addr(), uint16(env.moving.Spec.Ports[1].Port))
}
