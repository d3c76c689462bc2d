package proxyagent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// fixture is an agent with fakes in synctest. What the fakes are called with goes into the journal.
type fixture struct {
	*journal
	t        *testing.T
	source   *fakeSource
	backends map[model.Family]*fakeBackend
	flows    map[model.Family]*fakeFlows
	// connections are to former addresses.
	connections map[model.Family]*fakeConnections
	agent       *Agent
	end         context.CancelFunc
	ended       chan error
}

// runAgent runs a test of an agent of the options' families, or IPv4, which starts with run.
func runAgent(t *testing.T, o Options, test func(s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, o)
		test(s)
		s.stop()
	})
}

func newFixture(t *testing.T, o Options) *fixture {
	s := &fixture{
		journal: &journal{start: time.Now()}, t: t, backends: map[model.Family]*fakeBackend{}, flows: map[model.Family]*fakeFlows{},
		connections: map[model.Family]*fakeConnections{},
	}
	s.source = &fakeSource{ready: make(chan struct{}), wake: make(chan struct{}, 1)}
	o.MinSyncPeriod, o.ProbePeriod = cmp.Or(o.MinSyncPeriod, time.Second), cmp.Or(o.ProbePeriod, time.Second)
	if o.Families == nil {
		o.Families = []Family{{Settings: settings(model.IPv4)}}
	}
	for i := range o.Families {
		f := o.Families[i].Settings.Family
		s.backends[f], s.flows[f] = &fakeBackend{journal: s.journal, family: f}, &fakeFlows{journal: s.journal, family: f}
		s.connections[f] = &fakeConnections{journal: s.journal, family: f}
		o.Families[i].Backend, o.Families[i].Flows, o.Families[i].Connections = s.backends[f], s.flows[f], s.connections[f]
	}
	o.NodeName, o.Source, o.Health, o.HealthChecks = "here", s.source, fakeHealth{s.journal}, fakeHealthChecks{s.journal}
	o.Events, o.Metrics = fakeEvents{s.journal}, fakeMetrics{s.journal}
	s.agent = New(o)
	return s
}

// run starts the agent; with ready the source has listed everything.
func (s *fixture) run(ready bool) {
	ctx, cancel := context.WithCancel(context.Background())
	s.end, s.ended = cancel, make(chan error, 1)
	if ready {
		close(s.source.ready)
	}
	go func() { s.ended <- s.agent.Run(ctx) }()
	synctest.Wait()
}

// stop ends the agent, which has to happen without any time passing.
func (s *fixture) stop() {
	s.t.Helper()
	if s.end == nil {
		return
	}
	s.end()
	asked := time.Now()
	if err := <-s.ended; err != nil {
		s.t.Errorf("the agent ended with %v", err)
	}
	if took := time.Since(asked); took > 0 {
		s.t.Errorf("the agent took %s to end", took)
	}
	s.end = nil
}

// wait lets time pass until so long after the start.
func (s *fixture) until(at time.Duration) {
	time.Sleep(at - time.Since(s.start))
	synctest.Wait()
}

// expect compares what was noted since the last time, of the kinds named in front, or all.
func (s *fixture) expect(kinds string, want ...string) {
	s.t.Helper()
	synctest.Wait()
	got := s.take(strings.Fields(kinds)...)
	if !slices.Equal(got, want) {
		s.t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// settings are those of an agent that cares for Services alone.
func settings(f model.Family) model.Settings {
	return model.Settings{Family: f, Allocations: model.Ignore, MasqueradeBit: 14, KeepUnallocated: true}
}

func both() []Family {
	return []Family{{Settings: settings(model.IPv4)}, {Settings: settings(model.IPv6)}}
}

// journal holds lines "1.5s IPv4 sync ..." in the order of events.
type journal struct {
	start   time.Time
	mu      sync.Mutex
	entries []entry
}

// entry is a line and what orders it among those of its moment, see take.
type entry struct {
	at     time.Duration
	family string
	beside bool
	line   string
}

// compare has entries of a moment that one goroutine wrote be equal.
func (e entry) compare(other entry) int {
	order := func(beside bool) int {
		if beside {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(e.at, other.at), cmp.Compare(e.family, other.family), cmp.Compare(order(e.beside), order(other.beside)))
}

func (j *journal) note(format string, args ...any) { j.add(false, format, args...) }

// noteBeside is for what runs beside the loop of a family, which does not wait for it.
func (j *journal) noteBeside(format string, args ...any) { j.add(true, format, args...) }

func (j *journal) add(beside bool, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := entry{at: time.Since(j.start), beside: beside}
	text := fmt.Sprintf(format, args...)
	if first, _, _ := strings.Cut(text, " "); first == model.IPv4.String() || first == model.IPv6.String() {
		e.family = first
	}
	e.line = fmt.Sprintf("%s %s", e.at, text)
	j.entries = append(j.entries, e)
}

// take returns the lines with one of the words, and forgets all. What goroutines do at one moment
// of synctest's clock comes in any order: take returns a moment's lines without a family first,
// then those of each family, and of these last what ran beside its loop.
func (j *journal) take(kinds ...string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.SortStableFunc(j.entries, entry.compare)
	var found []string
	for _, e := range j.entries {
		words := strings.Fields(e.line)
		if len(kinds) == 0 || slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(words, k) }) {
			found = append(found, e.line)
		}
	}
	j.entries = nil
	return found
}

type fakeSource struct {
	ready chan struct{}
	wake  chan struct{}
	slow  time.Duration // how long the first Take lasts

	mu      sync.Mutex
	pending model.Changes
}

func (s *fakeSource) Ready() <-chan struct{} { return s.ready }
func (s *fakeSource) Wake() <-chan struct{}  { return s.wake }

func (s *fakeSource) Take() model.Changes {
	time.Sleep(s.slow)
	s.slow = 0 // the agent does not take twice at a time
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := s.pending
	s.pending = model.Changes{}
	return changes
}

// change adds to what is to be taken, and wakes.
func (s *fakeSource) change(edit func(c *model.Changes)) {
	s.mu.Lock()
	edit(&s.pending)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// put changes Services.
func (s *fakeSource) put(services ...*model.Service) {
	s.change(func(c *model.Changes) {
		for _, service := range services {
			changesOf(c)[service.Name] = service
		}
	})
}

func (s *fakeSource) remove(n model.ServiceName) {
	s.change(func(c *model.Changes) { changesOf(c)[n] = nil })
}

func changesOf(c *model.Changes) map[model.ServiceName]*model.Service {
	if c.Services == nil {
		c.Services = map[model.ServiceName]*model.Service{}
	}
	return c.Services
}

// fakeBackend fails, takes its time, and finds drift as told.
type fakeBackend struct {
	*journal
	family model.Family

	mu      sync.Mutex
	fail    []error       // of the next syncs; nil succeeds
	broken  error         // of all syncs beyond those
	took    time.Duration // of each sync
	drift   [][]string    // what the next looks find
	blind   []error       // of the next looks
	pending time.Duration // how long a look takes
	without []model.Degradation
}

func (b *fakeBackend) tell(edit func(b *fakeBackend)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	edit(b)
}

func (b *fakeBackend) Sync(ctx context.Context, deltas ...model.Delta) (bool, error) {
	b.note("%s sync %s", b.family, inWords(deltas...))
	b.mu.Lock()
	err, took := next(&b.fail, b.broken), b.took
	b.mu.Unlock()
	return true, pass(ctx, took, err)
}

func (b *fakeBackend) Check(ctx context.Context, _ time.Time) ([]string, error) {
	b.note("%s check", b.family)
	b.mu.Lock()
	found, err, took := next(&b.drift, nil), next(&b.blind, nil), b.pending
	b.mu.Unlock()
	return found, pass(ctx, took, err)
}

func (b *fakeBackend) Served() []model.ServicePort { return make([]model.ServicePort, 2) }

func (b *fakeBackend) Counts() (total, written map[string]int) {
	return map[string]int{"nat": 7, "filter": 5}, map[string]int{"nat": 3}
}

func (b *fakeBackend) Degraded() []model.Degradation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.without)
}

func (b *fakeBackend) Describe(n model.PortName) []string { return []string{"rules of " + n.String()} }

// next takes the first of a queue, or the other value when it is empty.
func next[T any](queue *[]T, or T) T {
	if len(*queue) == 0 {
		return or
	}
	first := (*queue)[0]
	*queue = (*queue)[1:]
	return first
}

// pass takes time as a program that is run with ctx does.
func pass(ctx context.Context, took time.Duration, err error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(took):
		return err
	}
}

// inWords writes the ports of Deltas: "globals +web -old; +new".
func inWords(deltas ...model.Delta) string {
	var all []string
	for _, d := range deltas {
		var words []string
		if d.Globals != nil {
			words = append(words, "globals")
		}
		for _, name := range slices.SortedFunc(maps.Keys(d.Ports), model.PortName.Compare) {
			sign := "+"
			if d.Ports[name] == nil {
				sign = "-"
			}
			words = append(words, sign+name.Service.Name)
		}
		all = append(all, strings.Join(words, " "))
	}
	return strings.Join(all, "; ")
}

// fakeFlows searches once for each Start and Reconcile, and again later, in which it fails as told.
type fakeFlows struct {
	*journal
	family model.Family
	mu     sync.Mutex
	fail   []error
	took   time.Duration
	next   time.Time
}

func (f *fakeFlows) Start(p model.Plan, before []model.ServicePort, now time.Time) {
	f.note("%s flows start with %d ports, before %d", f.family, len(p.Ports), len(before))
	f.next = now
}

func (f *fakeFlows) Reconcile(g model.Globals, d model.Delta, now time.Time) {
	f.note("%s flows reconcile bit %d %s", f.family, g.MasqueradeBit, inWords(d))
	f.next = now
}

func (f *fakeFlows) Next() time.Time { return f.next }

func (f *fakeFlows) Search(now time.Time) func(context.Context) func(context.Context) (int, bool, error) {
	if f.next.IsZero() || now.Before(f.next) {
		return nil
	}
	f.next = time.Time{}
	return func(ctx context.Context) func(context.Context) (int, bool, error) {
		f.noteBeside("%s flows searched", f.family)
		f.mu.Lock()
		err, took := next(&f.fail, nil), f.took
		f.mu.Unlock()
		err = pass(ctx, took, err)
		turns := 0
		return func(context.Context) (int, bool, error) {
			if turns++; turns < 3 {
				return 1, true, nil
			}
			if err != nil {
				f.next = time.Now().Add(10 * time.Second)
			}
			return 1, false, err
		}
	}
}

// fakeConnections has as many connections to each address as its last number says.
type fakeConnections struct {
	*journal
	family model.Family
	mu     sync.Mutex
	fail   []error
	took   time.Duration
}

func (c *fakeConnections) Count(ctx context.Context, of map[netip.Addr]int) error {
	c.note("%s count %d", c.family, len(of))
	for addr := range of {
		bytes := addr.As16()
		of[addr] = int(bytes[15])
	}
	c.mu.Lock()
	err, took := next(&c.fail, nil), c.took
	c.mu.Unlock()
	return pass(ctx, took, err)
}

type fakeHealth struct{ *journal }

func (h fakeHealth) Queued(f model.Family)       { h.note("%s queued", f) }
func (h fakeHealth) Updated(f model.Family)      { h.note("%s updated", f) }
func (h fakeHealth) SetNodeLeaving(leaving bool) { h.note("leaving %t", leaving) }
func (h fakeHealth) Counted(at time.Time, connections map[netip.Addr]int, err error) {
	h.note("counted at %s %v %v", at.Sub(h.start), connections, err)
}

type fakeHealthChecks struct{ *journal }

func (h fakeHealthChecks) Set(n model.ServiceName, port uint16, local int) {
	h.note("healthcheck %s port %d local %d", n.Name, port, local)
}

type fakeEvents struct{ *journal }

func (e fakeEvents) Disputed(d model.Dispute) {
	e.note("event %s %s %s", d.Addr, d.Loser.Name, d.Reason)
}

func (e fakeEvents) Degraded(f model.Family, d model.Degradation) {
	e.note("event %s %s %s", f, d.Port, string(d.Reason))
}

type fakeMetrics struct{ *journal }

func (m fakeMetrics) Changed(services, endpoints int) { m.note("changed %d %d", services, endpoints) }
func (m fakeMetrics) ChangesDone(services, endpoints int) {
	m.note("changesdone %d %d", services, endpoints)
}

func (m fakeMetrics) Queued(f model.Family, at time.Time) {
	m.note("%s metricqueued %s", f, at.Sub(m.start))
}

func (m fakeMetrics) SyncDone(f model.Family, full bool, took time.Duration, end time.Time, err error) {
	m.note("%s syncdone full %t took %s end %s err %v", f, full, took, end.Sub(m.start), err)
}

func (m fakeMetrics) RestoreFailed(f model.Family) { m.note("%s restorefailed", f) }

func (m fakeMetrics) Programmed(f model.Family, triggers []time.Time, now time.Time) {
	var at []string
	for _, t := range triggers {
		at = append(at, t.Sub(m.start).String())
	}
	m.note("%s programmed [%s] at %s", f, strings.Join(at, " "), now.Sub(m.start))
}

func (m fakeMetrics) Rules(f model.Family, total, written map[string]int) {
	m.note("%s rules %v %v", f, total, written)
}

func (m fakeMetrics) NoLocalEndpoints(f model.Family, internal, external int) {
	m.note("%s nolocal %d %d", f, internal, external)
}

func (m fakeMetrics) ConntrackDone(f model.Family, took time.Duration, deleted int) {
	m.note("%s conntrackdone %s %d", f, took, deleted)
}

func (m fakeMetrics) Disputed(f model.Family, disputes []model.Dispute) {
	if len(disputes) > 0 {
		m.note("%s disputed %d", f, len(disputes))
	}
}

func (m fakeMetrics) Degraded(f model.Family, degradations []model.Degradation) {
	if len(degradations) > 0 {
		m.note("%s degraded %d", f, len(degradations))
	}
}

func (m fakeMetrics) Former(f model.Family, addresses, connections int) {
	m.note("%s former %d with %d", f, addresses, connections)
}

func (m fakeMetrics) Repaired(f model.Family, what string) { m.note("%s repaired %s", f, what) }

// web is a Service with one endpoint elsewhere.
func web(name, ip, endpoint string) *model.Service {
	return &model.Service{
		Name: named(name), ClusterIPs: []netip.Addr{netip.MustParseAddr(ip)},
		Ports:     []model.Port{{Name: "http", Protocol: model.TCP, Port: 80}},
		Endpoints: []model.Endpoint{at("there", endpoint)},
	}
}

// at is a ready endpoint on a node.
func at(node, addr string) model.Endpoint {
	return model.Endpoint{
		Port: "http", Protocol: model.TCP, Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 8080), Node: node, Ready: true, Serving: true,
	}
}

func named(name string) model.ServiceName { return model.ServiceName{Namespace: "default", Name: name} }
