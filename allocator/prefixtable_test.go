package allocator

import (
	"net/netip"
	"slices"
	"testing"
)

func TestPrefixTable(t *testing.T) {
	var table PrefixTable[string]
	around := func(a string) []string {
		return slices.Sorted(table.Around(netip.MustParseAddr(a)))
	}
	if got := around("10.0.0.1"); len(got) > 0 || table.Get(netip.MustParsePrefix("10.0.0.0/8")) != "" {
		t.Errorf("an empty table has %v", got)
	}
	for _, text := range []string{"10.0.0.0/8", "10.0.0.0/24", "10.0.1.0/24", "fd00::/112", "fd00::/8"} {
		table.Set(netip.MustParsePrefix(text), text)
	}
	for a, want := range map[string][]string{
		"10.0.0.1": {"10.0.0.0/24", "10.0.0.0/8"}, "10.0.1.255": {"10.0.1.0/24", "10.0.0.0/8"}, "11.0.0.0": nil,
		"fd00::1": {"fd00::/112", "fd00::/8"}, "fd00::1:0": {"fd00::/8"}, "::a00:1": nil,
	} {
		slices.Sort(want)
		if got := around(a); !slices.Equal(got, want) {
			t.Errorf("around %s is %v, want %v", a, got, want)
		}
	}
	for range table.Around(netip.MustParseAddr("10.0.0.1")) {
		break // a walk may end early
	}
	table.Delete(netip.MustParsePrefix("10.0.0.0/8"))
	if got := around("10.0.0.1"); !slices.Equal(got, []string{"10.0.0.0/24"}) {
		t.Errorf("after a deletion: %v", got)
	}
}
