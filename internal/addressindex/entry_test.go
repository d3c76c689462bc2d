package addressindex

import (
	"slices"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

func TestAnEntryHas32Bytes(t *testing.T) {
	if n := unsafe.Sizeof(entry{}); n != 32 {
		t.Errorf("it has %d", n)
	}
}

// Parent and claim are one name in memory, whichever comes first; what was copied stays as it was.
func TestEntries(t *testing.T) {
	a, b, c := types.NamespacedName{Namespace: "ns", Name: "a"}, types.NamespacedName{Namespace: "ns", Name: "b"}, types.NamespacedName{Namespace: "ns", Name: "c"}
	var e, f entry
	e.show(allocator.Allocated, a)
	e.claim(a)
	f.claim(a)
	f.show(allocator.Allocated, a)
	for _, one := range []entry{e, f} {
		if one.parent != one.first || !one.covered() || one.last() != a || one.of() != a {
			t.Errorf("%+v", one)
		}
	}
	e.claim(b)
	e.claim(b)
	before := e
	e.claim(c)
	e.release(a)
	e.release(a)
	for _, tc := range []struct {
		e       entry
		want    []types.NamespacedName
		covered bool
	}{{before, []types.NamespacedName{a, b}, false}, {e, []types.NamespacedName{b, c}, false}, {f, []types.NamespacedName{a}, true}, {entry{}, nil, false}} {
		if got := tc.e.claims(); !slices.Equal(got, tc.want) || tc.e.covered() != tc.covered || tc.e.claimed() != (len(tc.want) > 0) || tc.e.disputed() != (len(tc.want) > 1) {
			t.Errorf("%v, covered %t; want %v", got, tc.e.covered(), tc.want)
		}
	}
	e.release(b)
	e.release(c)
	if e.claimed() || e.disputed() || e.last() != a || e.state() != allocator.Allocated {
		t.Errorf("without claims: %+v", e)
	}
	e.show(allocator.Free, types.NamespacedName{})
	if e.of() != (types.NamespacedName{}) || e.state() != allocator.Free {
		t.Errorf("without object: %+v", e)
	}
}
