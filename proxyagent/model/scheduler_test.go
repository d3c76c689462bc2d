package model

import (
	"net/netip"
	"slices"
	"testing"
)

func TestUsable(t *testing.T) {
	a, b, c := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("10.0.0.2:80"), netip.MustParseAddrPort("[fd00::1]:80")
	all := []netip.AddrPort{a, b, c}
	for name, tc := range map[string]struct {
		weights Weights
		want    []netip.AddrPort
		weigh   []int
	}{
		"no weights":           {nil, all, []int{1, 1, 1}},
		"one weighs more":      {Weights{b: 3}, all, []int{1, 3, 1}},
		"one weighs nothing":   {Weights{a: 0, c: 2}, []netip.AddrPort{b, c}, []int{1, 2}},
		"none weighs anything": {Weights{a: 0, b: 0, c: 0}, all, []int{1, 1, 1}},
	} {
		if got, weigh := tc.weights.Usable(all); !slices.Equal(got, tc.want) || !slices.Equal(weigh, tc.weigh) {
			t.Errorf("%s: %v weigh %v", name, got, weigh)
		}
	}
}

func TestModesHaveSchedulers(t *testing.T) {
	for mode, want := range map[Mode]string{IPTables: " random", NFTables: " random rr wrr sh mh", IPVS: " rr wrr lc wlc lblc lblcr sh dh sed nq mh"} {
		has := ""
		for _, s := range Schedulers {
			if mode.Has(s) {
				has += " " + string(s)
			}
		}
		if has != want || !mode.Has("") {
			t.Errorf("%s has%s, want%s", mode, has, want)
		}
	}
}
