package migration

import (
	"errors"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/version"
)

func TestDualWrites(t *testing.T) {
	of := func(minor string) *version.Info { return &version.Info{Major: "1", Minor: minor} }
	for name, tc := range map[string]struct {
		a    APIServer
		want bool
	}{
		"1.33":                   {APIServer{Version: of("33")}, true},
		"1.34":                   {APIServer{Version: of("34")}, true},
		"1.34 that says no":      {APIServer{Version: of("34"), BitmapOff: true}, false},
		"1.33 that says no":      {APIServer{Version: of("33"), BitmapOff: true}, true},
		"1.35":                   {APIServer{Version: of("35")}, false},
		"1.36 that acts as 1.33": {APIServer{Version: &version.Info{Major: "1", Minor: "36", EmulationMinor: "33"}}, true},
		"a vendor's 1.36":        {APIServer{Version: of("36+")}, false},
		"one that is away":       {APIServer{Version: of("36"), Err: errors.New("refused")}, true},
		"one that says nothing":  {APIServer{}, true},
		"one of another world":   {APIServer{Version: &version.Info{Major: "2", Minor: "40"}}, true},
	} {
		if got := tc.a.DualWrites(); got != tc.want {
			t.Errorf("%s may write bitmaps: %v", name, got)
		}
	}
}

func TestAddressesOfAPIServers(t *testing.T) {
	slice := func(ports []discoveryv1.EndpointPort, endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{Ports: ports, Endpoints: endpoints}
	}
	port := func(n ...int32) (out []discoveryv1.EndpointPort) {
		for _, p := range n {
			out = append(out, discoveryv1.EndpointPort{Port: &p})
		}
		return out
	}
	at := func(hosts ...string) discoveryv1.Endpoint { return discoveryv1.Endpoint{Addresses: hosts} }
	nobody := discoveryv1.EndpointPort{}

	for name, tc := range map[string]struct {
		slices []discoveryv1.EndpointSlice
		want   []string
	}{
		"none":                        {},
		"three":                       {slices: []discoveryv1.EndpointSlice{slice(port(6443), at("10.1.0.1"), at("10.1.0.2", "10.1.0.3"))}, want: []string{"10.1.0.1:6443", "10.1.0.2:6443", "10.1.0.3:6443"}},
		"several slices, IPv6":        {slices: []discoveryv1.EndpointSlice{slice(port(6443), at("10.1.0.1")), slice(port(6444), at("fd01::1"))}, want: []string{"10.1.0.1:6443", "[fd01::1]:6444"}},
		"one in two slices":           {slices: []discoveryv1.EndpointSlice{slice(port(6443), at("10.1.0.1")), slice(port(6443), at("10.1.0.1"))}, want: []string{"10.1.0.1:6443"}},
		"one host, two ports":         {slices: []discoveryv1.EndpointSlice{slice(port(6443, 6444), at("10.1.0.1"))}, want: []string{"10.1.0.1:6443", "10.1.0.1:6444"}},
		"a port that is not said":     {slices: []discoveryv1.EndpointSlice{slice(append(port(6443), nobody), at("10.1.0.1"))}, want: []string{"10.1.0.1:6443"}},
		"no port at all":              {slices: []discoveryv1.EndpointSlice{slice([]discoveryv1.EndpointPort{nobody}, at("10.1.0.1"))}},
		"a slice without endpoints":   {slices: []discoveryv1.EndpointSlice{slice(port(6443))}},
		"an endpoint without address": {slices: []discoveryv1.EndpointSlice{slice(port(6443), at())}},
	} {
		t.Run(name, func(t *testing.T) { mustEqual(t, "addresses", addresses(tc.slices), tc.want) })
	}
}
