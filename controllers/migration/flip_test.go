package migration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/internal/relation"
)

// repairLoop does what a 1.36 API server does about ClusterIPs in its first minutes. It is written
// after KEP-1880 and the source, not the package under test; like them it works with texts.
type repairLoop struct {
	flag     []string
	cidrs    map[string][]string
	deleting map[string]bool // ServiceCIDRs
	services map[string][]string
	objects  map[string]relation.IPAddress // by name
	events   []string
}

// flipped is the repair loop of an API server that is started with a flag on a snapshot's data.
func flipped(w Snapshot, flag []netip.Prefix) *repairLoop {
	l := &repairLoop{
		cidrs: map[string][]string{}, deleting: map[string]bool{}, services: map[string][]string{}, objects: map[string]relation.IPAddress{},
		flag: textsOf(flag, netip.Prefix.String),
	}
	for _, c := range w.ServiceCIDRs {
		l.cidrs[c.Name], l.deleting[c.Name] = textsOf(c.CIDRs, netip.Prefix.String), c.Deleting
	}
	for _, s := range w.Services {
		l.services[s.Name.String()] = clusterIPs(s)
	}
	for _, ip := range w.IPAddresses {
		l.objects[ip.Address.String()] = ip
	}
	l.defaultServiceCIDR()
	for name, ips := range l.services {
		for _, ip := range ips {
			l.service(name, ip)
		}
	}
	for name, o := range l.objects {
		l.object(name, o)
	}
	slices.Sort(l.events)
	return l
}

// clusterIPs is spec.clusterIPs as it was written.
func clusterIPs(s Service) (texts []string) {
	for _, a := range s.Addresses {
		text := a.String()
		for _, other := range s.Misspelt {
			if addr(other) == a {
				text = other
			}
		}
		texts = append(texts, text)
	}
	return append(texts, s.Invalid...)
}

func (l *repairLoop) event(format string, args ...any) {
	l.events = append(l.events, fmt.Sprintf(format, args...))
}

// defaultServiceCIDR is created, extended from one family to two, or complained of.
func (l *repairLoop) defaultServiceCIDR() {
	there, ok := l.cidrs["kubernetes"]
	switch {
	case !ok, len(l.flag) == 2 && len(there) == 1 && there[0] == l.flag[0]:
		l.cidrs["kubernetes"] = l.flag
	case !l.deleting["kubernetes"] && !slices.Equal(there, l.flag):
		l.event("KubernetesDefaultServiceCIDRInconsistent %v", there)
	}
}

// service is the loop over the ClusterIPs of a Service.
func (l *repairLoop) service(name, clusterIP string) {
	a, err := netip.ParseAddr(clusterIP)
	if err != nil {
		l.event("ClusterIPNotValid %s %s", name, clusterIP)
		return
	}
	if !l.contains(a) {
		l.event("ClusterIPOutOfRange %s %s", name, clusterIP)
		return
	}
	o, ok := l.objects[a.String()]
	if !ok {
		l.event("ClusterIPNotAllocated %s %s", name, clusterIP)
		return
	}
	if parent := o.Service.String(); parent != name {
		if _, exists := l.services[parent]; !exists { // also when the parent is no Service
			l.event("ClusterIPNotAllocated %s %s has a wrong reference", name, clusterIP)
			return
		}
		if slices.Contains(l.services[parent], o.Address.String()) {
			l.event("ClusterIPAlreadyAllocated %s %s", name, clusterIP)
		}
	}
	family := "IPv6"
	if a.Is4() {
		family = "IPv4"
	}
	if o.Family != family || o.ManagedBy != "ipallocator.k8s.io" {
		l.event("written anew, for its labels: %s", clusterIP)
	}
}

func (l *repairLoop) contains(a netip.Addr) bool {
	for _, cidrs := range l.cidrs {
		for _, text := range cidrs {
			p := netip.MustParsePrefix(text)
			last := p.Contains(a) && !p.Contains(a.Next())
			if p.Contains(a) && a != p.Masked().Addr() && (a.Is6() || !last) {
				return true
			}
		}
	}
	return false
}

// object is the loop over IPAddresses, a long time after they were created.
func (l *repairLoop) object(name string, o relation.IPAddress) {
	if o.ManagedBy != "ipallocator.k8s.io" {
		return
	}
	clusterIPs, exists := l.services[o.Service.String()]
	switch {
	case o.Service.Name == "":
		l.event("IPAddressNotAllocated %s appears to have been modified", name)
	case !exists:
		l.event("IPAddressNotAllocated %s appears to have leaked", name)
	case !slices.Contains(clusterIPs, name):
		l.event("IPAddressWrongReference %s", name)
	}
}

// stricter reports whether we say no for a reason of our own, where the API server repairs nothing.
func stricter(w Snapshot, flag []netip.Prefix, f Finding) bool {
	switch f.Kind {
	case DefaultServiceCIDRMissing: // it creates it; where the API is served, so can we
		return true
	case ObjectUnreadable: // it would not even start
		return true
	case IPAddressMissing: // the IPAddress goes as soon as a controller takes its finalizer away
		return slices.ContainsFunc(w.IPAddresses, func(ip relation.IPAddress) bool { return ip.Address == f.Address && ip.Deleting })
	case DefaultServiceCIDRWrong, SecondaryRangeMislabelled: // it extends one family to two, and says nothing of one that goes
		c := w.defaultCIDR()
		return f.Blocks || c.Deleting || len(flag) == 2 && slices.Equal(c.CIDRs, flag[:1])
	default:
		return false
	}
}

// ReadyToFlip is a promise about another program: it is held against thousands of worlds.
func TestReadyToFlipAsTheAPIServerSees(t *testing.T) {
	ready, unready := 0, 0
	for seed := range uint64(6000) {
		s := randomCluster(seeded(seed), 3)
		p := NewPlan(s.Snapshot, Options{})
		flag := s.flag
		if p.Ranges != nil && !p.contradicted(p.Ranges) {
			flag = p.Ranges // what the cluster tells of it
		}
		loop := flipped(s.Snapshot, flag)
		switch stop := p.StopFlip(); {
		case len(stop) == 0 && len(loop.events) > 0:
			t.Fatalf("seed %d: it is ready, and yet the API server says\n  %s\n%s", seed, strings.Join(loop.events, "\n  "), s)
		case len(stop) > 0 && len(loop.events) == 0:
			for _, f := range stop {
				if !stricter(s.Snapshot, flag, f) {
					t.Fatalf("seed %d: it is not ready because of %s, of which the API server says nothing\n%s", seed, findingText(f), s)
				}
			}
		case len(stop) == 0:
			ready++
		default:
			unready++
		}
	}
	if ready < 1000 || unready < 1000 {
		t.Errorf("%d worlds are ready, %d are not: the clusters prove nothing", ready, unready)
	}
}
