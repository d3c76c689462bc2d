package compile

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// sameValues compares addresses by value, and tells empty slices from the nil that a Plan has.
var sameValues = cmp.Options{
	cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{}),
	cmpopts.EquateComparable(model.Dispute{}, model.LocalSource{}),
}

var families = []model.Family{model.IPv4, model.IPv6}

// in returns the family's form of addresses and prefixes written as IPv4: in IPv6, 10.96.0.1 is
// fd00::10:96:0:1, and 10.0.0.0/24 is fd00::10:0:0:0/112.
func in(f model.Family, s string) string {
	if f == model.IPv4 || s == "" {
		return s
	}
	addr, length, isPrefix := strings.Cut(s, "/")
	out := "fd00::" + strings.ReplaceAll(addr, ".", ":")
	if !isPrefix {
		return out
	}
	// One decimal number becomes one group, so that only whole numbers can be masked.
	return out + map[string]string{"/0": "/0", "/8": "/80", "/16": "/96", "/24": "/112", "/32": "/128"}["/"+length]
}

// addrs parses addresses that are separated by spaces, as those of the family.
func addrs(f model.Family, s string) (out []netip.Addr) {
	for w := range strings.FieldsSeq(s) {
		out = append(out, netip.MustParseAddr(in(f, w)))
	}
	return out
}

func prefixes(f model.Family, s string) (out []netip.Prefix) {
	for w := range strings.FieldsSeq(s) {
		out = append(out, netip.MustParsePrefix(in(f, w)))
	}
	return out
}

// name parses NAMESPACE/NAME, or NAME in the namespace default.
func name(s string) model.ServiceName {
	if s == "" {
		return model.ServiceName{}
	}
	if ns, n, ok := strings.Cut(s, "/"); ok {
		return model.ServiceName{Namespace: ns, Name: n}
	}
	return model.ServiceName{Namespace: "default", Name: s}
}

var someday = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// aService has the ClusterIPs given, one TCP port 80 called http, and the age of the day given.
func aService(f model.Family, n string, day int, clusterIPs string, more ...func(*model.Service)) model.Service {
	s := model.Service{
		Name:       name(n),
		Created:    someday.AddDate(0, 0, day),
		ClusterIPs: addrs(f, clusterIPs),
		Ports:      []model.Port{{Name: "http", Protocol: model.TCP, Port: 80}},
	}
	for _, m := range more {
		m(&s)
	}
	return s
}

// stateOf is a State with those Services.
func stateOf(services ...model.Service) model.State {
	st := model.State{Services: map[model.ServiceName]model.Service{}, Allocations: map[netip.Addr]model.Allocation{}}
	for _, s := range services {
		st.Services[s.Name] = s
	}
	return st
}

// compilerOf returns a Compiler that got the State with one Apply.
func compilerOf(set model.Settings, st model.State) *Compiler {
	ch := model.Changes{
		Services:    map[model.ServiceName]*model.Service{},
		Allocations: map[netip.Addr]*model.Allocation{},
		Ranges:      &st.Ranges, Node: &st.Node, LocalAddrs: &st.LocalAddrs,
	}
	for n, s := range st.Services {
		ch.Services[n] = &s
	}
	for a, x := range st.Allocations {
		ch.Allocations[a] = &x
	}
	c := New(set)
	c.Apply(ch)
	return c
}

// planOf is the Plan of a State.
func planOf(set model.Settings, st model.State) model.Plan { return compilerOf(set, st).Plan() }

// inBoth runs a test in both families.
func inBoth(t *testing.T, run func(t *testing.T, f model.Family)) {
	t.Helper()
	for _, f := range families {
		t.Run(f.String(), func(t *testing.T) { run(t, f) })
	}
}

func wantEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, sameValues); diff != "" {
		t.Errorf("%s, want -, got +:\n%s", what, diff)
	}
}
