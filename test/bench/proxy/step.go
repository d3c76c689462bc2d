package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Steps are changes that connections do not tell at once: after one more endpoint, most still come
// to another one. So it is the proxy that says when the kernel had them.
type Steps struct {
	// Took are ms from the API server's answer until the kernel had it, Syncs those of the sync alone.
	Took, Syncs stats.Sample
	// Written are rules and elements; empty for a proxy that does not count them.
	Written stats.Sample
}

// word is what a proxy has said until now.
type word struct{ programming, programmed, syncing, synced, mapping, written float64 }

func (b *bench) word(ctx context.Context, s *testNode) (w word, err error) {
	metrics, err := s.proxy.Metrics(ctx)
	if err != nil {
		return w, err
	}
	for name, into := range map[string]*float64{
		"network_programming_duration_seconds_sum": &w.programming, "network_programming_duration_seconds_count": &w.programmed,
		"sync_proxy_rules_duration_seconds_sum": &w.syncing, "sync_proxy_rules_duration_seconds_count": &w.synced,
		"socketlb_sync_seconds_total":    &w.mapping,
		"sync_proxy_rules_iptables_last": &w.written,
	} {
		*into, _ = metrics.Value(s.who.metric(name), "ip_family", b.family.String())
	}
	return w, nil
}

// step makes a change that tells the proxies its time, and returns when the kernel had it.
func (b *bench) step(ctx context.Context, s *testNode, into *Steps, change func(at time.Time) error) (end time.Time, err error) {
	before, err := b.word(ctx, s)
	if err != nil {
		return end, err
	}
	at := time.Now()
	if err := change(at); err != nil {
		return end, err
	}
	answered, after := time.Now(), before
	err = wait.PollUntilContextTimeout(ctx, stepPoll, b.Timeout, true, func(context.Context) (bool, error) {
		now, err := b.word(ctx, s)
		after = now
		return now.programmed > before.programmed && now.synced > before.synced, ignoreTimeout(err)
	})
	if err != nil {
		return end, fmt.Errorf("waiting until %s has a change: %w; the end of its log:\n%s", s.who.Name, err, s.proxy.LogTail(20))
	}
	end = at.Add(time.Duration((after.programming - before.programming) * float64(time.Second)))
	into.Took = append(into.Took, max(0, end.Sub(answered).Seconds()*1e3))
	into.Syncs = append(into.Syncs, 1e3*(after.syncing-before.syncing)/(after.synced-before.synced))
	if after.written > 0 {
		into.Written = append(into.Written, after.written)
	}
	return end, nil
}

// stepPoll is so long that asking takes little of the time of a slow proxy.
const stepPoll = 20 * time.Millisecond

// scale times changes of how many endpoints a Service has, one more or one less and back.
func (b *bench) scale(ctx context.Context, s *testNode) error {
	there, back := &s.More, &s.Less
	if b.Scale == population.Fewer {
		there, back = back, there
	}
	begin := time.Now()
	for i := 0; i < b.Changes && (i == 0 || time.Since(begin) < b.ChangesLimit); i++ {
		for _, to := range []struct {
			into  *Steps
			state population.State
		}{{there, b.Scale}, {back, population.Open}} {
			err := b.setTo(ctx, s, to.into, i, to.state)
			if !s.who.Ours && wait.Interrupted(err) && ctx.Err() == nil {
				b.log.Step("%s: a change is not in the kernel within %s", s.who.Name, b.Timeout)
				return b.people.Set(ctx, b.scattered(i), population.Open, time.Now())
			}
			if err := errors.Join(err, progress.Pause(ctx, rest)); err != nil {
				return err
			}
		}
	}
	return nil
}

// setTo gives the i-th of scattered Services another State.
func (b *bench) setTo(ctx context.Context, s *testNode, into *Steps, i int, to population.State) error {
	_, err := b.step(ctx, s, into, func(at time.Time) error { return b.people.Set(ctx, b.scattered(i), to, at) })
	return err
}

// Left is what happened as an endpoint went, and after the kernel had it.
type Left struct {
	Steps
	// Clients had come to the endpoint, by session affinity. One of them went on, and came to it
	// After so many times, the last time so long after.
	Clients, After int
	Last           time.Duration
}

// leave has an endpoint go to which all clients have come, while one of them connects all the time.
func (b *bench) leave(ctx context.Context, s *testNode) error {
	if !b.Leave {
		return nil
	}
	set := func(into *Steps, endpoints ...netip.AddrPort) (time.Time, error) {
		return b.step(ctx, s, into, func(at time.Time) error { return b.people.SetSticky(ctx, at, endpoints...) })
	}
	all := stickyEndpoints()
	if _, err := set(&Steps{}, all[0]); err != nil {
		return err
	}
	if _, err := b.visit(s); err != nil {
		return err
	}
	if _, err := set(&Steps{}, all...); err != nil {
		return err
	}
	stop, calls := make(chan struct{}), make(chan []call)
	go func() { calls <- b.callOn(s, stop) }()
	if err := progress.Pause(ctx, rest); err != nil {
		return err
	}
	end, err := set(&s.Left.Steps, all[1])
	if err == nil {
		err = progress.Pause(ctx, afterwards)
	}
	close(stop)
	s.Left.Clients = b.Clients
	s.Left.count(<-calls, end, all[0])
	return err
}

// afterwards is longer than any proxy sends clients to an endpoint that has gone.
const afterwards = 3 * time.Second

// call is when a connection began, and the endpoint that it came to.
type call struct {
	at time.Time
	to netip.AddrPort
}

// callOn connects one client to the Service with affinity until stop.
func (b *bench) callOn(s *testNode, stop <-chan struct{}) (calls []call) {
	from := netip.AddrPortFrom(s.net.Client.Extra(b.family, 1), 0)
	for {
		select {
		case <-stop:
			return calls
		default:
		}
		at := time.Now()
		if result := s.net.Client.Dial(network.Probe{To: b.sticky, Source: from, Timeout: network.RetryTimeout}); result.Err == nil {
			calls = append(calls, call{at, result.Endpoint})
		}
	}
}

// count looks at the calls that began after an endpoint had gone.
func (l *Left) count(calls []call, end time.Time, gone netip.AddrPort) {
	for _, c := range calls {
		if c.to == gone && c.at.After(end) {
			l.After++
			l.Last = c.at.Sub(end)
		}
	}
}

// memory looks at how much a proxy has and had that is not watched doing nothing later, and what of
// it is in use: the rest is garbage, and room for it.
func (b *bench) memory(ctx context.Context, s *testNode) (err error) {
	if b.Quiet > 0 {
		return nil
	}
	if s.RSS, err = s.proxy.RSS(); err != nil {
		return err
	}
	if s.Peak, err = s.proxy.PeakRSS(); err != nil {
		return err
	}
	if _, err := s.proxy.Get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return fmt.Errorf("having %s collect its garbage: %w", s.who.Name, err)
	}
	metrics, err := s.proxy.Metrics(ctx)
	live, _ := metrics.Value("go_memstats_heap_alloc_bytes")
	s.Live = int64(live)
	return err
}
