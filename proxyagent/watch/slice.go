package watch

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// slice is what is kept of an EndpointSlice. Ports and addresses are multiplied only in Take.
type slice struct {
	head
	// service is the name of the Service, empty for none. Most names of slices begin with it, and it
	// is that part of them then.
	service string
	// trigger is when a pod behind it changed, in Unix nanoseconds; zero when unknown.
	trigger   int64
	ports     []slicePort
	addresses []sliceAddress
}

type slicePort struct {
	name     word
	port     uint16
	protocol model.Protocol
}

type sliceAddress struct {
	addr                        netip.Addr
	node, zone                  word
	hints                       *model.Hints
	ready, serving, terminating bool
}

// owner is the Service of a slice; the zero name if the slice does not exist or has no Service.
func (s *slice) owner() model.ServiceName {
	if s == nil || s.service == "" {
		return model.ServiceName{}
	}
	return model.ServiceName{Namespace: s.namespace, Name: s.service}
}

// isEmpty reports whether a slice has no endpoint, as one that does not exist.
func (s *slice) isEmpty() bool { return s == nil || len(s.ports) == 0 || len(s.addresses) == 0 }

// same reports whether two slices are the same to a node. When the pods changed is no part of that.
func (s *slice) same(o *slice) bool {
	if s.isEmpty() || o.isEmpty() {
		return s.isEmpty() == o.isEmpty()
	}
	return s.owner() == o.owner() && slices.Equal(s.ports, o.ports) && slices.EqualFunc(s.addresses, o.addresses, sliceAddress.same)
}

func (a sliceAddress) same(b sliceAddress) bool {
	if !a.hints.Same(b.hints) {
		return false
	}
	a.hints, b.hints = nil, nil
	return a == b
}

// slicesOf has the EndpointSlices of each Service, in a fraction of the memory of client-go's maps.
type slicesOf struct {
	mu sync.Mutex
	of map[model.ServiceName][]*slice // lists are replaced and not changed
	// ready counts the ready addresses on each node that has some.
	ready map[word]int
}

func (s *slicesOf) get(name model.ServiceName) []*slice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[name]
}

// replace puts after in the place of before; nil is none.
func (s *slicesOf) replace(before, after *slice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countReady(before, -1)
	s.countReady(after, 1)
	if owner := before.owner(); owner != (model.ServiceName{}) {
		s.set(owner, slices.DeleteFunc(slices.Clone(s.of[owner]), func(o *slice) bool { return o.name == before.name }))
	}
	if owner := after.owner(); owner != (model.ServiceName{}) {
		s.set(owner, append(slices.Clone(s.of[owner]), after))
	}
}

func (s *slicesOf) set(owner model.ServiceName, all []*slice) {
	model.Put(s.of, owner, slices.Clip(all), len(all) > 0)
}

// sliceChanged marks the Service, and the former one when the slice moved, but none that does not
// exist or is not served: it comes with an event of its own, and the slice is known by then.
func (s *Source) sliceChanged(c change[*slice]) {
	s.slicesOf.replace(c.old, c.new)
	if c.old.same(c.new) {
		return
	}
	before, after := c.old.owner(), c.new.owner()
	marksBefore, marksAfter := before != after && s.serves(before), s.serves(after)
	if !marksBefore && !marksAfter {
		return
	}
	s.pending.mark(func(b *batch) {
		if marksBefore {
			b.services[before] = struct{}{}
		}
		if marksAfter {
			b.services[after] = struct{}{}
		}
		b.sliceEvents++
		if at, ok := s.trigger(c); ok && marksAfter {
			b.triggers = append(b.triggers, at)
		}
	})
}

func (s *Source) serves(name model.ServiceName) bool {
	known, _ := s.services.get(name.String())
	if known.isRenumbering() && !known.served {
		known, _ = s.holds.get(name)
	}
	return known.isServed()
}

// trigger returns when the pods behind an event changed. It reports false if that is not our
// latency: for objects older than the agent, changes that no pod caused, and deletions.
func (s *Source) trigger(c change[*slice]) (time.Time, bool) {
	if c.initial || c.new == nil || c.new.trigger == 0 || c.old != nil && c.old.trigger == c.new.trigger {
		return time.Time{}, false
	}
	at := time.Unix(0, c.new.trigger)
	return at, at.After(s.began)
}

// hasOn reports whether any address is on a node.
func (s *slice) hasOn(node word) bool {
	return slices.ContainsFunc(s.addresses, func(a sliceAddress) bool { return a.node == node })
}

// appendEndpoints appends every address with every port.
func (s *slice) appendEndpoints(out []model.Endpoint, weight func(sliceAddress) uint8) []model.Endpoint {
	for _, a := range s.addresses {
		endpoint := model.Endpoint{Node: a.node.Value(), Ready: a.ready, Serving: a.serving, Terminating: a.terminating, Weight: weight(a), Hints: a.hints}
		for _, p := range s.ports {
			endpoint.Port, endpoint.Protocol, endpoint.Addr = p.name.Value(), p.protocol, netip.AddrPortFrom(a.addr, p.port)
			out = append(out, endpoint)
		}
	}
	return out
}

func convertSlice(in *discoveryv1.EndpointSlice) (*slice, malformed) {
	var bad malformed
	out := &slice{head: headOf(in), service: in.Labels[discoveryv1.LabelServiceName], trigger: triggerOf(in)}
	if strings.HasPrefix(out.name, out.service) {
		out.service = out.name[:len(out.service)]
	}
	family := familyOf(in.AddressType)
	if family == 0 || out.service == "" {
		return out, bad
	}
	out.ports = convertSlicePorts(in.Ports, &bad)
	for i := range in.Endpoints {
		if a, ok := convertEndpoint(&in.Endpoints[i], family, &bad); ok {
			out.addresses = append(out.addresses, a)
		}
	}
	out.addresses = slices.Clip(out.addresses)
	return out, bad
}

// familyOf returns none for names of hosts, and for whatever the API may invent.
func familyOf(t discoveryv1.AddressType) model.Family {
	switch t {
	case discoveryv1.AddressTypeIPv4:
		return model.IPv4
	case discoveryv1.AddressTypeIPv6:
		return model.IPv6
	default:
		return 0
	}
}

// triggerOf reads the annotation; if it cannot be read it is absent, for it only serves a metric.
func triggerOf(in *discoveryv1.EndpointSlice) int64 {
	at, err := time.Parse(time.RFC3339Nano, in.Annotations[corev1.EndpointsLastChangeTriggerTime])
	if err != nil {
		return 0
	}
	return at.UnixNano()
}

// convertSlicePorts omits ports without a name, which match no port of a Service, and those without
// a number, which mean "all" to other consumers.
func convertSlicePorts(in []discoveryv1.EndpointPort, bad *malformed) []slicePort {
	out := make([]slicePort, 0, len(in))
	for _, p := range in {
		if p.Name == nil || p.Port == nil || *p.Port == 0 {
			continue
		}
		protocol, known := model.ParseProtocol(string(ptr.Deref(p.Protocol, corev1.ProtocolTCP)))
		port, valid := portNumber(*p.Port)
		if !known || !valid {
			bad.add("port", *p.Name)
			continue
		}
		out = append(out, slicePort{name: wordOf(*p.Name), port: port, protocol: protocol})
	}
	return slices.Clip(out)
}

// convertEndpoint reads the first address: the API calls all alike, and no controller writes two.
func convertEndpoint(in *discoveryv1.Endpoint, family model.Family, bad *malformed) (sliceAddress, bool) {
	if len(in.Addresses) == 0 {
		bad.add("endpoint", "")
		return sliceAddress{}, false
	}
	addr, ok := parseAddr(in.Addresses[0])
	if !ok || model.FamilyOf(addr) != family || !reachable(addr) {
		bad.add("endpoint", in.Addresses[0])
		return sliceAddress{}, false
	}
	return sliceAddress{
		addr:        addr,
		node:        wordOf(ptr.Deref(in.NodeName, "")),
		zone:        wordOf(ptr.Deref(in.Zone, "")),
		hints:       convertHints(in.Hints),
		ready:       ptr.Deref(in.Conditions.Ready, true),
		serving:     ptr.Deref(in.Conditions.Serving, true),
		terminating: ptr.Deref(in.Conditions.Terminating, false),
	}, true
}

func convertHints(in *discoveryv1.EndpointHints) *model.Hints {
	if in == nil || len(in.ForZones) == 0 && len(in.ForNodes) == 0 {
		return nil
	}
	out := &model.Hints{}
	for _, zone := range in.ForZones {
		out.Zones = append(out.Zones, wordOf(zone.Name).Value())
	}
	for _, node := range in.ForNodes {
		out.Nodes = append(out.Nodes, wordOf(node.Name).Value())
	}
	return out
}
