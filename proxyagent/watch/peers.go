package watch

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// peersFor is how long Nodes are followed after the last Service that asks for them. Otherwise a
// tenant who may write a Service could have every node list all Nodes every second.
const peersFor = 5 * time.Minute

// peer is what is kept of any Node, for the weights of endpoints. All its labels are kept, not only
// those that Services ask for now: for another label all Nodes would have to be listed again.
type peer struct {
	head
	labels map[word]word
	cores  uint8
}

// label returns the value of a label; false if there is no such label, or no Node.
func (p *peer) label(name word) (value word, ok bool) {
	if p != nil {
		value, ok = p.labels[name]
	}
	return value, ok
}

// same reports whether two Nodes are the same to weights; nil is one that does not exist.
func (p *peer) same(o *peer) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.cores == o.cores && maps.Equal(p.labels, o.labels)
}

func convertPeer(in *corev1.Node) (*peer, malformed) {
	out := &peer{head: headOf(in), labels: make(map[word]word, len(in.Labels)), cores: 1}
	for name, value := range in.Labels {
		out.labels[wordOf(name)] = wordOf(value)
	}
	if cpu, says := in.Status.Capacity[corev1.ResourceCPU]; says {
		out.cores = uint8(min(max(math.Round(cpu.AsApproximateFloat64()), 1), model.MaxWeight))
	}
	return out, malformed{}
}

// peers follows all Nodes, but only while a Service asks for weights that depend on them: otherwise
// every heartbeat of every kubelet would reach every node. Its methods may be called concurrently.
type peers struct {
	informer func() cache.SharedIndexInformer
	// changed is called with the names of Nodes that weigh something else, none for all of them.
	changed func(node ...string)
	reports *reports

	mu     sync.Mutex
	asking map[model.ServiceName]struct{}
	// turned holds one when the first Service asks, or the last one does not ask any more.
	turned chan struct{}
	// known is closed once all Nodes have been listed the first time.
	known     chan struct{}
	markKnown func()
	// nodes is nil while Nodes are not followed.
	nodes *informer[*peer]
}

func newPeers(informer func() cache.SharedIndexInformer, changed func(node ...string), r *reports) *peers {
	known := make(chan struct{})
	return &peers{
		informer: informer, changed: changed, reports: r, asking: map[model.ServiceName]struct{}{}, turned: make(chan struct{}, 1),
		known: known, markKnown: sync.OnceFunc(func() { close(known) }),
	}
}

// see takes in whether a Service asks.
func (p *peers) see(name model.ServiceName, asks bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.asking)
	model.Put(p.asking, name, struct{}{}, asks)
	if (before > 0) != (len(p.asking) > 0) {
		select {
		case p.turned <- struct{}{}:
		default:
		}
	}
}

// names are the Services that ask.
func (p *peers) names() []model.ServiceName {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.asking))
}

// get returns a Node; nil when it is not known.
func (p *peers) get(node word) (found *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nodes != nil {
		found, _ = p.nodes.get(node.Value())
	}
	return found
}

// run follows Nodes whenever a Service asks, until ctx ends.
func (p *peers) run(ctx context.Context) {
	for p.turnsTo(ctx, true) {
		p.follow(ctx)
	}
}

// turnsTo waits until some Service asks, or none does. It reports false when ctx ends.
func (p *peers) turnsTo(ctx context.Context, some bool) bool {
	for len(p.names()) > 0 != some {
		select {
		case <-p.turned:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// kindPeers is how logs call them. The own Node is followed beside them.
const kindPeers = "Node of endpoints"

// follow follows Nodes until no Service has asked for a while.
func (p *peers) follow(ctx context.Context) {
	nodes, err := newInformer(kindPeers, p.informer(), convertPeer, p.nodeChanged, p.reports)
	if err != nil { // it runs already, which it does not
		p.reports.failed(kindPeers, err)
		<-ctx.Done()
		return
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { nodes.shared.RunWithContext(ctx) })
	running.Go(func() {
		select {
		case <-nodes.synced.Done():
			p.changed()
			p.markKnown()
		case <-ctx.Done():
		}
	})
	p.use(nodes)
	defer p.use(nil)
	for p.turnsTo(ctx, false) {
		select {
		case <-time.After(peersFor):
			return
		case <-p.turned: // a Service asks again
		case <-ctx.Done():
		}
	}
}

func (p *peers) use(nodes *informer[*peer]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes = nodes
}

// await waits until Nodes were known once, if a Service asks for them, or until ctx ends.
func (p *peers) await(ctx context.Context) {
	if len(p.names()) == 0 {
		return
	}
	select {
	case <-p.known:
	case <-ctx.Done():
	}
}

// nodeChanged skips the first list: once it is complete, all Services that ask are looked at again.
func (p *peers) nodeChanged(c change[*peer]) {
	if !c.initial && !c.old.same(c.new) {
		p.changed(cmp.Or(c.new, c.old).name)
	}
}

// weigher returns what tells the weight of an address.
func (s *Source) weigher(w *weights) func(sliceAddress) uint8 {
	needPeers := w.needPeers()
	return func(a sliceAddress) uint8 {
		switch {
		case w == nil:
			return 0
		case needPeers:
			return w.of(a.zone, s.peers.get(a.node))
		default:
			return w.of(a.zone, nil)
		}
	}
}

// peersChanged marks Services whose weights may have changed, as a Node changed or all were listed.
func (s *Source) peersChanged(node ...string) {
	names := s.peers.names()
	if len(node) > 0 {
		on := wordOf(node[0])
		names = slices.DeleteFunc(names, func(n model.ServiceName) bool {
			return !slices.ContainsFunc(s.slicesOf.get(n), func(f *slice) bool { return f.hasOn(on) })
		})
	}
	if len(names) == 0 {
		return
	}
	s.pending.mark(func(b *batch) {
		for _, name := range names {
			b.services[name] = struct{}{}
		}
	})
}
