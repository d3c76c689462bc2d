package steering

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// A list says what a plain one says, whatever comes and goes, and lists that were before stay.
func TestAListOfReservations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	at := func(i int) allocator.Span {
		first := netip.MustParseAddr([]string{"10.0.0.0", "fd00::"}[i%2]).As16()
		first[14], first[15] = byte(i>>6), byte(i<<2)
		a := netip.AddrFrom16(first).Unmap()
		return allocator.Span{First: a, Last: a.Next()}
	}
	var list reservedList
	plain := map[int]bool{}
	steps := 400
	if testing.Short() {
		steps = 150
	}
	for step := range steps {
		var more, gone []Reservation
		for range 1 + rng.IntN(20) {
			i := rng.IntN(3000)
			if r := (Reservation{Span: at(i)}); !plain[i] {
				plain[i], more = true, append(more, r)
			} else if step%3 > 0 && !slices.Contains(more, r) {
				delete(plain, i)
				gone = append(gone, r)
			}
		}
		before, was := list, spansOf(list, allocator.Span{First: netip.MustParseAddr("0.0.0.0"), Last: netip.MustParseAddr("ffff::")})
		list = list.without(gone).with(more)
		if got := spansOf(before, allocator.Span{First: netip.MustParseAddr("0.0.0.0"), Last: netip.MustParseAddr("ffff::")}); !slices.Equal(got, was) {
			t.Fatalf("step %d: the list before has changed", step)
		}
		for range 5 {
			i := rng.IntN(3000)
			window := allocator.Span{First: at(i).First.Next(), Last: at(min(2998+i%2, i+2*rng.IntN(400))).First}
			var want []allocator.Span
			for j := range plain {
				if s := at(j); s.Overlaps(window) {
					want = append(want, s)
				}
			}
			slices.SortFunc(want, func(a, b allocator.Span) int { return a.First.Compare(b.First) })
			if got := spansOf(list, window); !slices.Equal(got, want) {
				t.Fatalf("step %d: %v has %v, want %v", step, window, got, want)
			}
		}
		for _, part := range list {
			if len(part) == 0 || len(part) >= mostInPart {
				t.Fatalf("step %d: a part of %d", step, len(part))
			}
		}
	}
	if len(list) < 10 {
		t.Errorf("%d parts: that shows little", len(list))
	}
}

func spansOf(l reservedList, in allocator.Span) (out []allocator.Span) {
	for r := range l.meeting(in) {
		out = append(out, r.Span)
	}
	return out
}
