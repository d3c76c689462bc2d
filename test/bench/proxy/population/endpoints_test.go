package population

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func TestEndpoint(t *testing.T) {
	for _, tc := range []struct {
		family model.Family
		i      int
		want   string
	}{
		{model.IPv4, 0, "10.184.0.1"},
		{model.IPv4, 255, "10.184.1.0"},
		{model.IPv4, 90_000, "10.185.95.145"},
		{model.IPv4, spare, "10.191.161.33"},
		{model.IPv6, 0, "fd00:182::1"},
		{model.IPv6, 65_535, "fd00:182::1:0"},
	} {
		got := Endpoint(tc.family, tc.i)
		if got.String() != tc.want || !Range(tc.family).Contains(got) {
			t.Errorf("%s %d is %s, want %s", tc.family, tc.i, got, tc.want)
		}
	}
}

func TestSlicesHoldAHundredEndpointsAtMost(t *testing.T) {
	var sizes []int
	seen := map[string]bool{}
	for _, s := range slices("ns", "web", model.IPv4, 500, 230) {
		sizes = append(sizes, len(s.Endpoints))
		for _, e := range s.Endpoints {
			seen[e.Addresses[0]] = true
		}
		if s.Labels[discoveryv1.LabelServiceName] != "web" || *s.Ports[0].Port != OpenPort {
			t.Errorf("%s is for %v and has port %d", s.Name, s.Labels, *s.Ports[0].Port)
		}
	}
	if diff := cmp.Diff([]int{100, 100, 30}, sizes); diff != "" {
		t.Error(diff)
	}
	if len(seen) != 230 || !seen[Endpoint(model.IPv4, 500).String()] || !seen[Endpoint(model.IPv4, 729).String()] {
		t.Errorf("%d addresses", len(seen))
	}
}

func TestStates(t *testing.T) {
	for state, want := range map[State]struct {
		port      int32
		endpoints int
	}{Open: {OpenPort, 3}, Shut: {ShutPort, 3}, Fewer: {OpenPort, 2}, More: {OpenPort, 4}, One: {OpenPort, 1}} {
		s := slice("ns", "web", "web-0", model.IPv6, 0, 3, state)
		if *s.Ports[0].Port != want.port || len(s.Endpoints) != want.endpoints || s.AddressType != discoveryv1.AddressTypeIPv6 {
			t.Errorf("state %d: %d endpoints on %d, %s", state, len(s.Endpoints), *s.Ports[0].Port, s.AddressType)
		}
	}
}
