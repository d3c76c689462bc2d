package million

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// What was left out at the largest size has the slope of those before.
func TestTables(t *testing.T) {
	r := Result{
		Parts:      []Part{{"index", 0}, {"rules", allocator.IPv6}},
		Operations: []Operation{{"draw"}, {"change"}},
		Sizes: []Size{
			{1000, []Filled{{time.Second, 1 << 20}, {time.Second, 2 << 20}}, []time.Duration{time.Microsecond, 2 * time.Microsecond}},
			{2000, []Filled{{2 * time.Second, 2 << 20}, {3 * time.Second, 3 << 20}}, []time.Duration{time.Microsecond, 4 * time.Microsecond}},
			{12000, []Filled{{12 * time.Second, 12 << 20}, {}}, []time.Duration{3 * time.Microsecond, 0}},
		},
	}
	got := r.Tables()
	want := [][][]string{
		{{"index, both families", "1.00", "1.00", "2.00", "2.00", "12.0", "12.0", "1,049", "1,000"}, {"rules, IPv6", "1.00", "2.00", "3.00", "3.00", "-", "-", "1,049", "2,000"}},
		{{"draw", "1.00", "1.00", "3.00", "3.00"}, {"change", "2.00", "4.00", "-", "-"}},
	}
	if diff := cmp.Diff(want, [][][]string{got[0].Rows, got[1].Rows}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// No two Services have one address, and all lie in the ranges.
func TestAddresses(t *testing.T) {
	for _, f := range allocator.Families {
		seen := map[string]bool{}
		for i := range 1_000_000 {
			a := address(f, i)
			if !ranges[f][0].Contains(a) && !ranges[f][1].Contains(a) || seen[a.String()] {
				t.Fatalf("%s, the %d-th, is in no range or met before", a, i)
			}
			seen[a.String()] = true
		}
	}
}
