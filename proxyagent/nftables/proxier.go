//go:build linux

package nftables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// Comparing everything takes at most one part in so many of the time, where others change tables all the time, and where nothing indicates a change.
const hintedParts, fullParts = 10, 300

// Proxier keeps the kernel's table for one family as a Plan wants it. Its methods may be called concurrently; they wait for each other.
type Proxier struct {
	mu     sync.Mutex
	tables *Tables
	kernel *kernel

	fullCheck time.Duration

	known    bool             // the fields below, and what has changed in tables, are the whole difference to the kernel
	written  map[string]chain // as the kernel has them
	handles  map[string]string
	clients  map[string]bool
	last     uint32 // generation of nf_tables after the last write or comparison
	checked  time.Time
	took     time.Duration // the last comparison
	changes  int           // of the last Sync
	elements int           // all
}

// New returns a Proxier that has not looked at the kernel yet. Everything is compared after the period of fullCheck although nothing indicates a change; 0: five minutes.
func New(f model.Family, fullCheck time.Duration) (*Proxier, error) {
	k, err := open(f)
	if err != nil {
		return nil, err
	}
	return &Proxier{tables: NewTables(f), kernel: k, fullCheck: cmp.Or(fullCheck, 5*time.Minute)}, nil
}

// Sync brings the kernel to the Plan as it is after the Deltas, in their order. After a failure the next one compares everything.
func (p *Proxier) Sync(ctx context.Context, deltas ...model.Delta) (full bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range deltas {
		p.tables.Apply(d)
	}
	if full = !p.known; full {
		p.checked = time.Now()
		_, err = p.compare()
	}
	if err == nil {
		err = p.program(ctx)
	}
	if err != nil {
		return full, errors.Join(err, p.kernel.reconnect())
	}
	for _, d := range deltas {
		err = errors.Join(err, p.forget(d))
	}
	return full, err
}

// program writes what differs.
func (p *Proxier) program(ctx context.Context) error {
	p.known = false // until it has worked
	p.changes = len(p.tables.changed)
	chains, clients := p.tables.chains(), p.tables.clientMaps()
	var anew, old, unwanted []string
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		if was, there := p.written[name]; !there || !reflect.DeepEqual(was, chains[name]) {
			anew = append(anew, name)
		}
	}
	for name := range p.written {
		if _, stays := chains[name]; !stays {
			old = append(old, name)
		}
	}
	for name := range p.clients {
		if !slices.Contains(clients, name) {
			unwanted = append(unwanted, name)
		}
	}
	if len(anew)+len(old)+len(unwanted)+len(p.tables.changed) == 0 {
		p.known = true
		return nil
	}
	before, err := nfnetlink.Generation()
	if err != nil {
		return err
	}
	t := transaction{kernel: p.kernel}
	if len(anew) > 0 {
		t.declare(clients)
		t.write(chains, anew)
	}
	t.change(p.tables.changed)
	t.remove(old, unwanted)
	if t.flush(); t.err == nil {
		if text := p.kernel.text(chains, anew); text != "" {
			t.err = nft(ctx, text)
			t.done++
		}
	}
	if t.err != nil {
		return fmt.Errorf("writing the table %s: %w", table, t.err)
	}
	if len(anew)+len(old) > 0 {
		p.handles = map[string]string{}
		if err := p.kernel.readRules(p.handles); err != nil {
			return err
		}
	}
	for _, c := range p.tables.changed {
		switch {
		case c.wanted && !c.there:
			p.elements++
		case c.there && !c.wanted:
			p.elements--
		}
	}
	p.tables.changed, p.written, p.clients = map[key]change{}, chains, map[string]bool{}
	for _, name := range clients {
		p.clients[name] = true
	}
	if p.last, err = nfnetlink.Generation(); p.last != before+t.done {
		p.last = before // somebody else wrote meanwhile: the next Check looks
	}
	p.known = err == nil
	return err
}

// forget makes the clients of endpoints that are gone choose again.
func (p *Proxier) forget(d model.Delta) (err error) {
	for name, port := range d.Ports {
		if port == nil || port.AffinitySeconds == 0 || p.tables.ports[name] != port {
			continue
		}
		for m, endpoints := range map[string][]netip.AddrPort{"clients-": port.Cluster, "clients-local-": port.Local} {
			usable := map[string]bool{}
			for _, e := range endpoints {
				usable[destination(e)] = true
			}
			err = errors.Join(err, p.kernel.forget(m+digest(name), usable))
		}
	}
	return err
}

// compare reads everything and notes what differs. It returns the differences in words.
func (p *Proxier) compare() (found []string, err error) {
	if p.last, err = nfnetlink.Generation(); err != nil {
		return nil, err
	}
	have, err := p.kernel.read()
	if err != nil {
		return nil, err
	}
	p.clients = have.clients
	written := map[string]chain{}
	for name, handles := range have.rules {
		if was, ok := p.written[name]; ok && handles == p.handles[name] {
			written[name] = was
			continue
		}
		written[name] = chain{} // is written anew, or taken away
		found = append(found, "chain "+name)
	}
	for name := range p.written {
		if _, there := have.rules[name]; !there {
			found = append(found, "chain "+name)
		}
	}
	p.written, p.tables.changed, p.elements = written, map[key]change{}, len(have.elements)
	wanted := p.tables.all()
	for k, value := range wanted {
		if was, there := have.elements[k]; !there || was != value {
			p.tables.changed[k] = change{there: there, wanted: true, was: was, value: value}
		}
	}
	for k, was := range have.elements {
		if _, ok := wanted[k]; !ok {
			p.tables.changed[k] = change{there: true, was: was}
		}
	}
	for k := range p.tables.changed {
		found = append(found, "set "+string(k.set))
	}
	return slices.Compact(slices.Sorted(slices.Values(found))), nil
}

// Check repairs changes by others and lists them. Without any it costs microseconds.
func (p *Proxier) Check(ctx context.Context, now time.Time) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return nil, nil
	}
	g, err := nfnetlink.Generation()
	due := max(p.fullCheck, fullParts*p.took)
	if g != p.last {
		due = hintedParts * p.took
	}
	if err != nil || now.Sub(p.checked) < due {
		return nil, err
	}
	start := time.Now()
	found, err := p.compare()
	p.checked, p.took = now, time.Since(start)
	if err == nil && len(found) > 0 {
		err = p.program(ctx)
	}
	if err != nil {
		p.known = false
		return nil, errors.Join(err, p.kernel.reconnect())
	}
	return found, nil
}

// Degraded lists what ports do without: nothing.
func (p *Proxier) Degraded() []model.Degradation { return nil }

// Describe lists the elements of a port, for people.
func (p *Proxier) Describe(n model.PortName) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	port := p.tables.ports[n]
	if port == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("Elements of %s in nftables, table %s:", n, table)}
	c := contribution(port)
	for k := range c.members {
		c.values[k] = ""
	}
	var elements []string
	for k, value := range c.values {
		elements = append(elements, "  "+describe(p.tables.globals.Family, k, value))
	}
	return append(lines, slices.Sorted(slices.Values(elements))...)
}

// Counts returns how many elements there are, and how many the last Sync wrote.
func (p *Proxier) Counts() (total, written map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return nil, nil
	}
	return map[string]int{"nat": p.elements}, map[string]int{"nat": p.changes}
}
