package watch

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func TestConvertSlice(t *testing.T) {
	ready := model.Endpoint{
		Port: "http", Protocol: model.TCP, Addr: netip.MustParseAddrPort("10.0.0.1:8080"), Ready: true, Serving: true,
	}
	like := func(change func(*model.Endpoint)) []model.Endpoint {
		e := ready
		change(&e)
		return []model.Endpoint{e}
	}
	endpoint := func(e discoveryv1.Endpoint) func(*discoveryv1.EndpointSlice) {
		e.Addresses = []string{"10.0.0.1"}
		return func(s *discoveryv1.EndpointSlice) { s.Endpoints = []discoveryv1.Endpoint{e} }
	}
	tests := map[string]struct {
		change    func(*discoveryv1.EndpointSlice)
		want      []model.Endpoint
		malformed int
	}{
		"says nothing of itself": {at("10.0.0.1"), []model.Endpoint{ready}, 0},
		"all conditions true": {
			endpoint(discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(true)}}),
			like(func(e *model.Endpoint) { e.Terminating = true }), 0,
		},
		"all conditions false": {
			endpoint(discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(false)}}),
			like(func(e *model.Endpoint) { e.Ready, e.Serving = false, false }), 0,
		},
		"on a node": {
			endpoint(discoveryv1.Endpoint{NodeName: new("here")}), like(func(e *model.Endpoint) { e.Node = "here" }), 0,
		},
		"with hints": {
			endpoint(discoveryv1.Endpoint{Hints: &discoveryv1.EndpointHints{
				ForZones: []discoveryv1.ForZone{{Name: "a"}, {Name: "b"}}, ForNodes: []discoveryv1.ForNode{{Name: "here"}},
			}}),
			like(func(e *model.Endpoint) { e.Hints = &model.Hints{Zones: []string{"a", "b"}, Nodes: []string{"here"}} }), 0,
		},
		"with hints that say nothing": {endpoint(discoveryv1.Endpoint{Hints: &discoveryv1.EndpointHints{}}), []model.Endpoint{ready}, 0},
		"in a zone, which is no hint": {endpoint(discoveryv1.Endpoint{Zone: new("a")}), []model.Endpoint{ready}, 0},
		"several addresses of which one counts": {
			func(s *discoveryv1.EndpointSlice) {
				s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1", "10.0.0.2"}}}
			},
			[]model.Endpoint{ready}, 0,
		},
		"no address": {
			func(s *discoveryv1.EndpointSlice) {
				s.Endpoints = []discoveryv1.Endpoint{{}, {Addresses: []string{"10.0.0.1"}}}
			},
			[]model.Endpoint{ready}, 1,
		},
		"malformed ones between good ones": {
			at("010.0.0.1", "10.0.0.1%eth0", "::ffff:10.0.0.1", "fd00::1", "example.com", "10.0.0.1/32", "0.0.0.0", "127.0.0.1", "169.254.1.1",
				"224.0.0.1", "", "10.0.0.1"),
			[]model.Endpoint{ready}, 11,
		},
		"IPv6": {
			func(s *discoveryv1.EndpointSlice) {
				s.AddressType = discoveryv1.AddressTypeIPv6
				at("10.0.0.1", "::ffff:10.0.0.1", "::", "::1", "fe80::1", "ff02::1", "fd00::1%eth0", "2001:DB8::0001")(s)
			},
			like(func(e *model.Endpoint) { e.Addr = netip.MustParseAddrPort("[2001:db8::1]:8080") }), 7,
		},
		"names are no concern of ours": {
			func(s *discoveryv1.EndpointSlice) {
				s.AddressType = discoveryv1.AddressTypeFQDN
				at("example.com", "10.0.0.1")(s)
			}, nil, 0,
		},
		"an address type of the future": {
			func(s *discoveryv1.EndpointSlice) { s.AddressType = "IPv8"; at("10.0.0.1")(s) }, nil, 0,
		},
		"no label":         {func(s *discoveryv1.EndpointSlice) { s.Labels = nil; at("10.0.0.1")(s) }, nil, 0},
		"no ports at all":  {func(s *discoveryv1.EndpointSlice) { s.Ports = nil; at("10.0.0.1")(s) }, nil, 0},
		"no endpoints yet": {func(*discoveryv1.EndpointSlice) {}, nil, 0},
		"ports, good and bad": {
			func(s *discoveryv1.EndpointSlice) {
				at("10.0.0.1")(s)
				s.Ports = []discoveryv1.EndpointPort{
					{Name: new("nothing")}, {Port: new(int32(1))}, {Name: new("zero"), Port: new(int32(0))},
					{Name: new("large"), Port: new(int32(65536))}, {Name: new("negative"), Port: new(int32(-1))},
					{Name: new("icmp"), Port: new(int32(1)), Protocol: new(corev1.Protocol("ICMP"))},
					{Name: new("http"), Port: new(int32(8080))},
				}
			},
			[]model.Endpoint{ready}, 3,
		},
		"every port of every address": {
			func(s *discoveryv1.EndpointSlice) {
				at("10.0.0.1", "10.0.0.2")(s)
				s.Ports = []discoveryv1.EndpointPort{
					{Name: new(""), Port: new(int32(1)), Protocol: new(corev1.ProtocolUDP)}, {Name: new("s"), Port: new(int32(2)), Protocol: new(corev1.ProtocolSCTP)},
				}
			},
			[]model.Endpoint{
				{Protocol: model.UDP, Addr: netip.MustParseAddrPort("10.0.0.1:1"), Ready: true, Serving: true},
				{Port: "s", Protocol: model.SCTP, Addr: netip.MustParseAddrPort("10.0.0.1:2"), Ready: true, Serving: true},
				{Protocol: model.UDP, Addr: netip.MustParseAddrPort("10.0.0.2:1"), Ready: true, Serving: true},
				{Port: "s", Protocol: model.SCTP, Addr: netip.MustParseAddrPort("10.0.0.2:2"), Ready: true, Serving: true},
			}, 0,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, bad := convertSlice(newSlice("web-1", "web", tc.change))
			if diff := cmp.Diff(tc.want, got.appendEndpoints(nil, (&Source{}).weigher(nil)), comparers); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
			if got.isEmpty() != (len(tc.want) == 0) {
				t.Errorf("isEmpty: %t", got.isEmpty())
			}
			if bad.count != tc.malformed {
				t.Errorf("%d malformed pieces, want %d: %s", bad.count, tc.malformed, &bad)
			}
		})
	}
}

// Every part of a slice that is handed out has to count as a difference.
func TestSameSlice(t *testing.T) {
	none := func(*discoveryv1.EndpointSlice) {}
	same := map[string]func(*discoveryv1.EndpointSlice){"nothing": none, "trigger": triggeredAt(time.Unix(1, 0))}
	other := map[string]func(*discoveryv1.EndpointSlice){
		"service":      func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "x" },
		"port name":    func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = new("x") },
		"port number":  func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(1)) },
		"protocol":     func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = new(corev1.ProtocolUDP) },
		"address":      func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.0.0.9" },
		"node":         func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].NodeName = new("x") },
		"ready":        func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) },
		"serving":      func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Serving = new(false) },
		"terminating":  func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Terminating = new(true) },
		"another zone": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints.ForZones[0].Name = "x" },
		"another node": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints.ForNodes[0].Name = "x" },
		"no hints":     func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints = nil },
		"no endpoints": func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil },
	}
	hinted := func(s *discoveryv1.EndpointSlice) {
		s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Hints: &discoveryv1.EndpointHints{
			ForZones: []discoveryv1.ForZone{{Name: "a"}}, ForNodes: []discoveryv1.ForNode{{Name: "here"}},
		}}}
	}
	base, _ := convertSlice(newSlice("web-1", "web", hinted))
	for want, changes := range map[bool]map[string]func(*discoveryv1.EndpointSlice){true: same, false: other} {
		for name, change := range changes {
			changed, _ := convertSlice(newSlice("web-1", "web", hinted, change))
			if base.same(changed) != want || changed.same(base) != want {
				t.Errorf("%s: same %t and %t, want %t", name, base.same(changed), changed.same(base), want)
			}
		}
	}
}

func TestMuchMalformedInputIsCounted(t *testing.T) {
	var bad malformed
	for range 10000 {
		bad.add("endpoint", strings.Repeat("x", 10000))
	}
	if got := bad.String(); len(got) > 400 || !strings.HasSuffix(got, " and 9997 more") || len(bad.examples) != 3 {
		t.Errorf("much malformed input is shown as %q", got)
	}
}
