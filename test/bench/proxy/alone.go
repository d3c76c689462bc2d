package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// cold starts the proxy where no other was before.
func (b *bench) cold(ctx context.Context, s *testNode) (err error) {
	s.Cold, err = b.ready(ctx, s)
	return err
}

// restart does it once more, with the rules in place.
func (b *bench) restart(ctx context.Context, s *testNode) (err error) {
	if !b.Restart {
		return nil
	}
	if err := s.proxy.Kill(); err != nil {
		return err
	}
	s.Restart, err = b.ready(ctx, s)
	return err
}

// ready starts the proxy and waits until the last Service is served and the proxy reports a sync.
func (b *bench) ready(ctx context.Context, s *testNode) (time.Duration, error) {
	b.log.Step("starting %s", s.who.Name)
	if err := b.startProxy(ctx, s); err != nil {
		return 0, err
	}
	services := b.people.Services()
	connected, reached, err := s.client.Until(services[len(services)-1], probe.Connected, 1, b.Timeout)
	if err != nil {
		return 0, err
	}
	var synced time.Time
	if reached {
		synced, err = b.firstSync(ctx, s)
		reached = !wait.Interrupted(err)
	}
	if !reached && ctx.Err() == nil {
		b.log.Step("%s: not within %s", s.who.Name, b.Timeout)
		s.Late = b.Timeout
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return sinceStart(s.proxy.Pid(), connected, synced)
}

// sinceStart is the time from a process's start to the later of two moments, in steps of 10 ms.
func sinceStart(pid int, connected probe.Moment, synced time.Time) (time.Duration, error) {
	old, err := age(pid)
	if err != nil {
		return 0, err
	}
	now, err := probe.Now()
	if err != nil {
		return 0, err
	}
	return old - min(now.Since(connected), time.Since(synced)), nil
}

// firstSync returns when the proxy says it first synced; kube-proxy in mode ipvs serves earlier.
func (b *bench) firstSync(ctx context.Context, s *testNode) (time.Time, error) {
	var at float64
	var unheard error // after a restart the rules of the one before serve before this one listens
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond*network.Slowness, b.Timeout, true, func(context.Context) (bool, error) {
		at, unheard = b.value(ctx, s, "sync_proxy_rules_last_timestamp_seconds")
		return at > 0, nil
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("%s serves but speaks of no sync: %w; the end of its log:\n%s", s.who.Name, errors.Join(err, unheard), s.proxy.LogTail(20))
	}
	return time.UnixMicro(int64(at * 1e6)), nil
}

// ignoreTimeout is for a proxy that is too busy to answer.
func ignoreTimeout(err error) error {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return nil
	}
	return err
}

// changeTimeout is how long a change may take.
var changeTimeout = time.Minute * network.Slowness

var errNotArrived = errors.New("a change did not arrive within")

const (
	// fewChanges are enough of those that take long.
	fewChanges = 3
	// rest is the least pause after a change.
	rest = 500 * time.Millisecond
)

// changes times single changes of an EndpointSlice: to a port without a listener and back.
func (b *bench) changes(ctx context.Context, s *testNode) error {
	if b.Changes == 0 || b.Scale != population.Open {
		return b.scale(ctx, s)
	}
	begin := time.Now()
	for i := 0; i < b.Changes && (i < fewChanges || time.Since(begin) < b.ChangesLimit); i++ {
		took, err := b.counted(ctx, s, i/2, population.State(1-i%2))
		if errors.Is(err, errNotArrived) && !s.who.Ours {
			b.log.Step("%s: a change did not arrive within %s", s.who.Name, changeTimeout)
			s.Stuck = changeTimeout
			return b.people.Set(ctx, b.scattered(i/2), population.Open, time.Now())
		}
		if err != nil {
			return err
		}
		s.Changes = append(s.Changes, took.Seconds()*1e3)
	}
	if last := len(s.Changes) - 1; last%2 == 0 {
		if _, err := b.counted(ctx, s, last/2, population.Open); err != nil {
			return err
		}
	}
	if s.who.Key != oursIPVS {
		return nil
	}
	var err error
	s.Messages, err = b.messages(ctx, s)
	return err
}

// counted is a change with a pause, after which it takes down what the proxy says of its syncs.
func (b *bench) counted(ctx context.Context, s *testNode, i int, to population.State) (took time.Duration, err error) {
	before, err := b.word(ctx, s)
	if err != nil {
		return 0, err
	}
	if took, err = b.change(ctx, s, i, to); err != nil {
		return 0, err
	}
	if err := progress.Pause(ctx, max(rest, took)); err != nil {
		return 0, err
	}
	after, err := b.word(ctx, s)
	if n := after.synced - before.synced; n > 0 {
		s.Syncs = append(s.Syncs, 1e3*(after.syncing-before.syncing)/n)
		s.InMaps = append(s.InMaps, 1e3*(after.mapping-before.mapping)/n)
	}
	return took, err
}

// messages is how many ours sent to IPVS for the last change.
func (b *bench) messages(ctx context.Context, s *testNode) (int, error) {
	metrics, err := s.proxy.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	n, _ := metrics.Value(s.who.metric("sync_proxy_rules_iptables_last"), "ip_family", b.family.String(), "table", "ipvs")
	return int(n), nil
}

// change gives the i-th of Services scattered over all a state, and returns the time from the API
// server's answer until connections show it.
func (b *bench) change(ctx context.Context, s *testNode, i int, to population.State) (time.Duration, error) {
	services := b.people.Services()
	i = b.scattered(i)
	if err := b.people.Set(ctx, i, to, time.Now()); err != nil {
		return 0, err
	}
	start, err := probe.Now()
	if err != nil {
		return 0, err
	}
	outcome, streak := probe.Refused, 1
	if to == population.Open {
		outcome, streak = probe.Connected, b.streak()
	}
	end, reached, err := s.client.Until(services[i], outcome, streak, changeTimeout)
	if err == nil && !reached {
		err = fmt.Errorf("%s: %w %s; the end of its log:\n%s", s.who.Name, errNotArrived, changeTimeout, s.proxy.LogTail(20))
	}
	return max(0, end.Since(start)), err
}

func (b *bench) scattered(i int) int { return (i*1117 + 500) % len(b.people.Services()) }

// streak is how many connections in a row prove that no endpoint is shut, if only a part may be.
func (b *bench) streak() int {
	if b.people.Share() == 1 {
		return 1
	}
	return int(10 / b.people.Share()) // all of them succeed by chance once in 20,000 times
}

// syncs is how many syncs a proxy says that it has made so far.
func (b *bench) syncs(ctx context.Context, s *testNode) (float64, error) {
	return b.value(ctx, s, "sync_proxy_rules_duration_seconds_count")
}

// stickyEndpoints are those of the Service with affinity, one in each pod of every testNode: the
// servers of package network, which say who they are.
func stickyEndpoints() (all []netip.AddrPort) {
	for _, pod := range []string{"10.180.1.11", "10.180.1.12"} {
		all = append(all, netip.AddrPortFrom(netip.MustParseAddr(pod), network.Ports[0]))
	}
	return all
}

// affinity has many clients connect twice, and counts those that come to the same endpoint again.
func (b *bench) affinity(_ context.Context, s *testNode) error {
	if !b.sticky.IsValid() || b.Leave {
		return nil
	}
	first, err := b.visit(s)
	if err != nil {
		return err
	}
	second, err := b.visit(s)
	if err != nil {
		return err
	}
	s.Clients = b.Clients
	for i := range first {
		if first[i] == second[i] {
			s.Kept++
		}
	}
	return nil
}

// visit returns where each client came to.
func (b *bench) visit(s *testNode) (endpoints []netip.AddrPort, err error) {
	for i := range b.Clients {
		from := netip.AddrPortFrom(s.net.Client.Extra(b.family, i+1), 0)
		result := s.net.Client.Dial(network.Probe{To: b.sticky, Source: from})
		if result.Err != nil {
			return nil, fmt.Errorf("%s: connecting to the Service with affinity: %w", s.who.Name, result.Err)
		}
		endpoints = append(endpoints, result.Endpoint)
	}
	return endpoints, nil
}

// footprint looks at what the proxy has in the kernel.
func (b *bench) footprint(ctx context.Context, s *testNode) error {
	if !b.Footprint || s.who.Mode == "ipvs" { // what is in IPVS itself has no text to weigh
		return nil
	}
	if s.who.Variant == "" {
		list, err := s.net.Node.Run(ctx, "nft", "list", "ruleset")
		s.Footprint = weighTables(list)
		return err
	}
	save, err := s.net.Node.Run(ctx, b.tool(s.who.Variant)+"-save")
	if err != nil {
		return err
	}
	s.Footprint = weigh(save)
	sets, err := s.net.Node.Run(ctx, "ipset", "save")
	s.Footprint.weighSets(sets)
	return err
}

func readStat(pid int) (fields, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, fmt.Errorf("looking at a process: %w", err)
	}
	return statFields(stat)
}

// age is the time since a process was started, to a hundredth of a second.
func age(pid int) (time.Duration, error) {
	fields, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("reading the clock: %w", err)
	}
	return time.Duration(now.Nano()) - fields[fieldStart], nil
}
