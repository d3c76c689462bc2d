package model

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// ErrRefused means that the kernel, or a program that writes for it, has looked at what it was
// asked for and does not take it. A tenant can cause that, and the same answer comes again: it must
// stay with the ports that it is about. All other failures are for all ports.
var ErrRefused = errors.New("refused")

// lacking are answers that say nothing of what was asked for: the node lacks something.
var lacking = []syscall.Errno{
	syscall.EPERM, syscall.ENOMEM, syscall.ENOBUFS, syscall.EINTR, syscall.EAGAIN, syscall.ENODEV, syscall.EAFNOSUPPORT, syscall.ENETDOWN,
}

// Refused says of an answer of the kernel that it is [ErrRefused], unless the node lacks something.
func Refused(err error) error {
	number, answered := errors.AsType[syscall.Errno](err)
	if !answered || slices.Contains(lacking, number) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// Bisect finds which of some items are refused, with the reasons, by trying ever fewer of them
// together. It fails when something else goes wrong.
func Bisect[T comparable](items []T, try func(...T) error) (map[T]error, error) {
	if len(items) == 0 {
		return nil, nil
	}
	err := try(items...)
	if !errors.Is(err, ErrRefused) {
		return nil, err
	}
	if len(items) == 1 {
		return confirm(items[0], try)
	}
	refused, err := Bisect(items[:len(items)/2], try)
	if err != nil {
		return nil, err
	}
	more, err := Bisect(items[len(items)/2:], try)
	return merged(refused, more), err
}

// confirm tries an item once more, after nothing: another failure shows then too, or is gone.
func confirm[T comparable](item T, try func(...T) error) (map[T]error, error) {
	if err := try(); err != nil {
		return nil, err
	}
	err := try(item)
	if errors.Is(err, ErrRefused) {
		return map[T]error{item: err}, nil
	}
	return nil, err
}

// Withheld keeps what the kernel refuses of some ports from it, so that it takes everything else. A
// backend has each Delta go through it, and gets one in which these ports are as they can be
// served, whatever becomes of them: a tenant who changes a refused Service all the time must not
// make the writes of all ports fail. The zero value withholds nothing.
type Withheld struct {
	ports   map[PortName]withheld
	changed bool // one of them has, since they were tried
	pace    Pace // of trying them again

	// fresh are the ports that changed since the kernel had everything; with all, any may have.
	fresh map[PortName]struct{}
	all   bool
}

type withheld struct {
	wanted   *ServicePort
	refusals []Refusal
}

// Refusal is what the kernel refuses of a port.
type Refusal struct {
	Port PortName
	// At is an endpoint or, with port 0, an address; zero for all of the port. Then clients are
	// rejected, as if it had no endpoint; if that is refused, it has nothing.
	At  netip.AddrPort
	Why error
}

// mostRefusals is how many endpoints and addresses of a port are left out: with more, all of it is.
const mostRefusals = 16

// Apply returns a Delta as it can be served.
func (w *Withheld) Apply(d Delta) Delta {
	ports := map[PortName]*ServicePort{}
	w.suspect(d)
	for name, port := range d.Ports {
		held, is := w.ports[name]
		switch {
		case !is:
		case port == nil:
			delete(w.ports, name)
		default:
			held.wanted = port
			w.ports[name], ports[name], w.changed = held, held.served(), true
		}
	}
	d.Ports = merged(d.Ports, ports) // which is shared with other backends
	return d
}

func (w *Withheld) suspect(d Delta) {
	if w.all = w.all || d.Globals != nil; w.all {
		return
	}
	if w.fresh == nil {
		w.fresh = map[PortName]struct{}{}
	}
	for name := range d.Ports {
		w.fresh[name] = struct{}{}
	}
}

// Suspects are the ports of which something may be refused, sorted: those that changed since the
// kernel had everything. If it was none of them, or none changed, all are.
func (w *Withheld) Suspects(served map[PortName]*ServicePort) []PortName {
	if w.all || len(w.fresh) == 0 {
		return slices.SortedFunc(maps.Keys(served), PortName.Compare)
	}
	fresh := slices.SortedFunc(maps.Keys(w.fresh), PortName.Compare)
	return slices.DeleteFunc(fresh, func(n PortName) bool { return served[n] == nil })
}

// Settled notes that the kernel has everything that is not withheld.
func (w *Withheld) Settled() { w.fresh, w.all = nil, false }

// WithholdAll returns the Delta for whole ports that turned out to be refused; see Withhold.
func (w *Withheld) WithholdAll(now time.Time, served map[PortName]*ServicePort, refused map[PortName]error) Delta {
	var all []Refusal
	for name, why := range refused {
		all = append(all, Refusal{Port: name, Why: why})
	}
	w.all = w.all || len(all) == 0 // it is none of those that were suspected
	return w.Withhold(now, served, all...)
}

// Withhold returns the Delta for what turned out to be refused of ports, of which served tells how
// they are now. It is empty if they are served without that already.
func (w *Withheld) Withhold(now time.Time, served map[PortName]*ServicePort, refusals ...Refusal) Delta {
	d := Delta{Ports: map[PortName]*ServicePort{}}
	w.pace.at = now
	for _, r := range refusals {
		held, already := w.ports[r.Port]
		if !already {
			held.wanted = served[r.Port]
		}
		if held.wanted == nil || r.At.IsValid() && slices.ContainsFunc(held.refusals, func(o Refusal) bool { return o.At == r.At }) {
			continue
		}
		if held.refusals = append(held.refusals, r); len(held.refusals) > mostRefusals {
			held.refusals = []Refusal{{Port: r.Port, Why: r.Why}}
		}
		if w.ports == nil {
			w.ports = map[PortName]withheld{}
		}
		w.ports[r.Port], d.Ports[r.Port] = held, held.served()
	}
	return d
}

// Due reports whether ports that are withheld have to be tried again: once in a period, or after
// they changed, which takes a tenth of the time at most.
func (w *Withheld) Due(now time.Time, period time.Duration) bool {
	return len(w.ports) > 0 && w.pace.DueAfter(w.changed, now, period)
}

// Tried notes that they have been.
func (w *Withheld) Tried(now time.Time, took time.Duration) {
	w.pace, w.changed = w.pace.After(now, took), false
}

// Wanted are the ports that are withheld, as they should be.
func (w *Withheld) Wanted() map[PortName]*ServicePort {
	wanted := make(map[PortName]*ServicePort, len(w.ports))
	for name, held := range w.ports {
		wanted[name] = held.wanted
	}
	return wanted
}

// Release returns the Delta that ends that ports are withheld.
func (w *Withheld) Release(ports map[PortName]*ServicePort) Delta {
	for name := range ports {
		delete(w.ports, name)
	}
	d := Delta{Ports: ports}
	w.suspect(d)
	return d
}

// Degraded are the ports that are withheld, sorted.
func (w *Withheld) Degraded() (all []Degradation) {
	for _, name := range slices.SortedFunc(maps.Keys(w.ports), PortName.Compare) {
		refusals, reason := w.ports[name].refusals, PartRefused
		if slices.ContainsFunc(refusals, func(r Refusal) bool { return !r.At.IsValid() }) {
			reason = RulesRefused
		}
		all = append(all, Degradation{Port: name, Reason: reason, Detail: refusals[0].Why.Error()})
	}
	return all
}

// served is the port without what is refused, nil where nothing is left.
func (h withheld) served() *ServicePort {
	p := h.wanted
	for _, r := range h.refusals {
		switch {
		case p == nil, !r.At.IsValid() && !p.HasEndpoints:
			return nil
		case r.At.IsValid():
			p = p.without(r.At)
		default:
			p = p.Unserved()
		}
	}
	return p
}

// without is the port without an endpoint or, with port 0, an address.
func (p ServicePort) without(at netip.AddrPort) *ServicePort {
	for _, endpoints := range []*[]netip.AddrPort{&p.Cluster, &p.Local, &p.Hairpin} {
		*endpoints = slices.DeleteFunc(slices.Clone(*endpoints), func(e netip.AddrPort) bool { return e == at })
	}
	for _, addrs := range []*[]netip.Addr{&p.ClusterIPs, &p.ExternalIPs, &p.LoadBalancerIPs} {
		*addrs = slices.DeleteFunc(slices.Clone(*addrs), func(a netip.Addr) bool { return at == netip.AddrPortFrom(a, 0) })
	}
	if len(p.Cluster)+len(p.Local) == 0 {
		return p.Unserved()
	}
	return &p
}
