package migration

import (
	"net/netip"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
)

// TestJudge has the rules about one address that depend on time, allocator and range: see TestPlan.
func TestJudge(t *testing.T) {
	held := func(s ...Service) (out []*Service) {
		for i := range s {
			out = append(out, &s[i])
		}
		return out
	}
	object := func(ip relation.IPAddress) *relation.IPAddress { return &ip }
	a, b := aService("a", "10.0.0.5"), aService("b", "10.0.0.5")
	odd := aService("odd", "::ffff:10.0.0.5")
	odd.Addresses, odd.Misspelt = []netip.Addr{addr("10.0.0.5")}, []string{"::ffff:10.0.0.5"}
	orphan := anIP("10.0.0.5", "gone")

	for name, tc := range map[string]struct {
		allocator Allocator
		e         entry
		ranges    string
		wantKind  Kind
		wantDo    Action
		// wantAgain: it is looked at again when a grace is over.
		wantAgain time.Duration
	}{
		"nobody's": {},
		"a young orphan, its Service may still come": {e: entry{object: object(made(orphan, 59*time.Second))}, allocator: AllocatorBoth, wantAgain: time.Second},
		"a young orphan of an API server that flips": {e: entry{object: object(byAPIServer(made(orphan, 59*time.Second)))}, allocator: AllocatorBitmap, wantAgain: time.Second},
		"a young one that passes on to another":      {e: entry{claims: held(a), object: object(byAPIServer(made(orphan, 10*time.Second)))}, wantAgain: 50 * time.Second},
		"the same, of somebody else":                 {e: entry{claims: held(a), object: object(byAPIServer(labelled(made(orphan, 10*time.Second), "example.com", "")))}, wantKind: IPAddressForeign},
		"an orphan outside of every range":           {e: entry{object: &orphan}, ranges: "10.9.0.0/24", wantKind: IPAddressOrphan, wantDo: DeleteIPAddress},
		"a wrong parent with a finalizer":            {e: entry{claims: held(a), object: object(finalized(orphan))}, wantKind: IPAddressWrongParent},
		"misspelt, and missing":                      {e: entry{claims: held(odd)}, allocator: AllocatorIPAddresses},
		"misspelt, and the API server has it":        {e: entry{claims: held(odd), object: object(anIP("10.0.0.5", "odd"))}, allocator: AllocatorBoth},
		"misspelt, and the bitmap allocates":         {e: entry{claims: held(odd)}, allocator: AllocatorBitmap, wantKind: IPAddressMissing, wantDo: CreateIPAddress},
		"a broadcast address":                        {e: entry{claims: held(a)}, ranges: "10.0.0.4/31", wantKind: OutOfRange},
		"missing, of two the first has the right":    {e: entry{claims: held(b, a)}, wantKind: IPAddressMissing, wantDo: CreateIPAddress},
		"a parent that is no Service":                {e: entry{claims: held(a), object: object(anIP("10.0.0.5", ""))}, wantKind: IPAddressWrongParent, wantDo: ReplaceIPAddress},
		"a wrong parent that a finalizer holds":      {e: entry{claims: held(a), object: object(dying(orphan))}, wantKind: IPAddressMissing},
		"the right parent, another manager":          {e: entry{claims: held(a), object: object(labelled(anIP("10.0.0.5", "a"), "example.com", "IPv4"))}, wantKind: IPAddressForeign},
		"the right parent, no manager":               {e: entry{claims: held(a), object: object(labelled(anIP("10.0.0.5", "a"), "", "IPv4"))}, wantKind: IPAddressWrongLabels, wantDo: RelabelIPAddress},
		"a parent that is no Service, of nobody":     {e: entry{claims: held(a), object: object(labelled(anIP("10.0.0.5", ""), "", ""))}, wantKind: IPAddressForeign},
		"the right parent, the other family":         {e: entry{claims: held(a), object: object(labelled(anIP("10.0.0.5", "a"), v1alpha1.ManagedByAPIServer, "IPv6"))}, wantKind: IPAddressWrongLabels, wantDo: RelabelIPAddress},
	} {
		t.Run(name, func(t *testing.T) {
			j := judge{now: noon, allocator: tc.allocator}
			if tc.ranges == "" {
				tc.ranges = "10.0.0.0/24"
			}
			for _, p := range nets(tc.ranges) {
				j.ranges = append(j.ranges, must(allocator.NewRange(p)))
			}
			v := j.address(addr("10.0.0.5"), tc.e)
			if v.finding.Kind != tc.wantKind || v.step.Do != tc.wantDo || v.again != tc.wantAgain {
				t.Fatalf("found %q, to do %q, again after %v; want %q, %q, %v", v.finding.Kind, v.step.Do, v.again, tc.wantKind, tc.wantDo, tc.wantAgain)
			}
			if v.step.Do != "" {
				mustBeGuarded(t, v.step, tc.e)
			}
			if v.finding.Kind != "" && v.finding.Plan == "" {
				t.Error("it does not say what to do")
			}
		})
	}
}

// mustBeGuarded: a step names the object that it changes, as it was judged, and the rightful owner.
func mustBeGuarded(t *testing.T, s Step, e entry) {
	t.Helper()
	want := Step{Do: s.Do, Address: addr("10.0.0.5")}
	if len(e.claims) > 0 {
		want.Service = e.claims[0].Name.String()
	}
	if s.Do != CreateIPAddress {
		want.UID, want.ResourceVersion = e.object.UID, e.object.ResourceVersion
	}
	mustEqual(t, "step", s, want)
	if err := s.validate(); err != nil {
		t.Errorf("the step could not be read back from a file: %v", err)
	}
}

// Where no range is known, nothing is out of it: a Service is not wrong because we do not know.
func TestNothingIsOutOfAnUnknownRange(t *testing.T) {
	s := aService("a", "192.0.2.1")
	if v := (judge{}).address(addr("192.0.2.1"), entry{claims: []*Service{&s}}); v.finding.Kind != IPAddressMissing {
		t.Errorf("found %q", v.finding.Kind)
	}
	w := Snapshot{Services: []Service{s}, ServiceCIDRs: []ServiceCIDR{aCIDR("more", "10.0.0.0/24")}}
	if p := NewPlan(w, Options{}); p.Findings[len(p.Findings)-1].Kind != IPAddressMissing {
		t.Errorf("beside a ServiceCIDR that somebody has added: %v", textsOf(p.Findings, findingText))
	}
}

// Of two Services on an address the older one comes first, and one that misspells it last.
func TestWhoHasTheRight(t *testing.T) {
	young, old, odd := aged(aService("a", "fd00::2"), time.Minute), aged(aService("b", "fd00::2"), time.Hour), aged(aService("odd", "FD00::2"), 2*time.Hour)
	b := newHolders(Snapshot{Services: []Service{young, odd, old}})
	mustEqual(t, "claims", textsOf(b.entries[addr("fd00::2")].claims, func(s *Service) string { return s.Name.Name }), []string{"b", "a", "odd"})
}
