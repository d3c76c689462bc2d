//go:build linux

package nftables

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
)

// perMessage is how many elements are in one message, as an attribute has less than 64 KiB.
const perMessage = 500

// What a message with its answer, and an element, may take of the socket's buffers at most.
const messageSize, elementSize = 1 << 10, 1 << 8

// batch gathers the messages of a transaction. The kernel does all of them, or nothing.
type batch struct {
	*kernel
	size int // of what is gathered
	err  error
}

func (t *batch) flush() {
	if t.err == nil {
		t.err = errors.Join(t.room(t.size), t.kernel.flush())
	}
}

// declaring is held to add sets: the library counts them for all families, without a lock.
var declaring sync.Mutex

// declare adds the table and its sets, which may exist; with remember also those that packets
// write.
func (t *batch) declare(remember bool) {
	t.conn.AddTable(t.table)
	names := slices.Sorted(maps.Keys(tables.Schemas))
	if remember {
		names = slices.AppendSeq(names, maps.Keys(tables.Remembering))
	}
	declaring.Lock()
	defer declaring.Unlock()
	for _, name := range names {
		t.err = cmp.Or(t.err, t.conn.AddSet(t.set(name), nil))
	}
	t.size += len(names) * messageSize
}

// write gives chains their rules. The chains themselves come first: rules of one lead to another.
func (t *batch) write(chains map[string]tables.Chain) {
	for name, content := range chains {
		c := &nftables.Chain{Name: name, Table: t.table}
		if h := content.Hook; h.Kind != "" {
			c.Type, c.Hooknum, c.Priority, c.Policy = nftables.ChainType(h.Kind), new(nftables.ChainHook(h.Number)), new(nftables.ChainPriority(h.Priority)), new(nftables.ChainPolicyAccept)
		}
		t.conn.AddChain(c)
		t.conn.FlushChain(c)
		t.size += (2 + len(content.Rules)) * messageSize
	}
	for name, content := range chains {
		for _, r := range content.Rules {
			t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: &nftables.Chain{Name: name, Table: t.table}, Exprs: r})
		}
	}
}

// change brings elements to what is wanted: those that the kernel has are deleted first.
func (t *batch) change(changed map[tables.Key]tables.Change) {
	gone, come := map[tables.Set][]nftables.SetElement{}, map[tables.Set][]nftables.SetElement{}
	for k, c := range changed {
		if c.There {
			gone[k.Set] = append(gone[k.Set], elementOf(k, "", false))
		}
		if c.Wanted {
			come[k.Set] = append(come[k.Set], elementOf(k, c.Value, true))
		}
	}
	t.send(gone, t.conn.SetDeleteElements)
	t.send(come, t.conn.SetAddElements)
}

func (t *batch) send(all map[tables.Set][]nftables.SetElement, send func(*nftables.Set, []nftables.SetElement) error) {
	for name, elements := range all {
		s := t.set(name)
		for some := range slices.Chunk(elements, perMessage) {
			t.err = cmp.Or(t.err, send(s, some))
			t.size += messageSize + len(some)*elementSize
		}
	}
}

// remove removes sets, and chains to which nothing but their elements leads.
func (t *batch) remove(chains, sets []string) {
	t.size += (2*len(chains) + len(sets)) * messageSize
	for _, name := range chains {
		t.conn.FlushChain(&nftables.Chain{Name: name, Table: t.table})
	}
	for _, name := range sets {
		t.conn.DelSet(&nftables.Set{Name: name, Table: t.table})
	}
	for _, name := range chains {
		t.conn.DelChain(&nftables.Chain{Name: name, Table: t.table})
	}
}

func elementOf(k tables.Key, value string, withValue bool) nftables.SetElement {
	e := nftables.SetElement{Key: []byte(k.Of)}
	switch kind := tables.Schemas[k.Set].Kind; {
	case !withValue || kind == tables.Member:
	case kind != tables.Verdict:
		e.Val = []byte(value)
	case value == tables.Drop:
		e.VerdictData = &expr.Verdict{Kind: expr.VerdictDrop}
	default:
		e.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: value}
	}
	return e
}

// try has the kernel look at the chains and elements of some ports: it writes them to another
// table, which the same transaction removes. So nothing changes.
func try(g model.Globals, ports ...*model.ServicePort) error {
	k, err := open(g.Family)
	if err != nil {
		return err
	}
	defer k.close()
	k.table.Name += "-try"
	d := model.Delta{Globals: &g, Ports: map[model.PortName]*model.ServicePort{}}
	for _, p := range ports {
		d.Ports[p.Name] = p
	}
	wanted := tables.NewTable(g.Family)
	wanted.Apply(d)
	all, t := wanted.Transaction(time.Time{}), batch{kernel: k}
	t.declare(wanted.Remembers())
	t.write(all.Write)
	t.change(all.Change)
	t.conn.DelTable(t.table)
	t.flush()
	return t.err
}

// Usable returns why the table of a family cannot be written; nil when it can. Nothing changes.
func Usable(f model.Family) error {
	a := f.Unspecified()
	endpoints := []netip.AddrPort{netip.AddrPortFrom(a.Next(), 80), netip.AddrPortFrom(a.Next().Next(), 80)}
	all := &model.ServicePort{
		Name: model.PortName{Protocol: model.TCP}, ClusterIPs: []netip.Addr{a}, LoadBalancerIPs: []netip.Addr{endpoints[1].Addr().Next()}, Port: 80, NodePort: 30000,
		SourceRanges: []netip.Prefix{model.Single(a)}, AffinitySeconds: 1, HasEndpoints: true, Cluster: endpoints, Hairpin: endpoints,
	}
	if err := try(model.Globals{Family: f, NodePortAny: true}, all); err != nil {
		return fmt.Errorf("writing tables of nftables (it takes kernel 5.13 or later, and NET_ADMIN): %w", err)
	}
	return nil
}
