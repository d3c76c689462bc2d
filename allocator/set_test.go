package allocator_test

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/internal/golden"
)

// TestSetSmallRuns looks into the tree after every step.
func TestSetSmallRuns(t *testing.T) {
	for name, shape := range shapes {
		for i, w := range worlds {
			t.Run(fmt.Sprintf("%s/%s+%d", name, w.first, w.stride), func(t *testing.T) {
				mustPass(t, shape(seeded(uint64(i)), 400), runSet(w, 1))
			})
		}
	}
}

// TestSetDeepRuns plays where every address has a word for itself: three levels of nodes.
func TestSetDeepRuns(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			mustPass(t, shape(seeded(7), 7000), runSet(worlds[6], 97))
		})
	}
}

// TestSetDeleteAll fills a tree of three levels and empties it in every order. Nodes must go as members go.
func TestSetDeleteAll(t *testing.T) {
	const n = 5000
	up := make([]uint16, n)
	for i := range up {
		up[i] = uint16(i)
	}
	down := slices.Clone(up)
	slices.Reverse(down)
	random := slices.Clone(up)
	rng := seeded(8)
	rng.Shuffle(n, func(i, j int) { random[i], random[j] = random[j], random[i] })

	for fillName, fill := range map[string][]uint16{"up": up, "down": down, "random": random} {
		for emptyName, empty := range map[string][]uint16{"up": up, "down": down, "random": random} {
			t.Run("filled "+fillName+" emptied "+emptyName, func(t *testing.T) {
				fillAndEmpty(t, fill, empty)
			})
		}
	}
}

func fillAndEmpty(t *testing.T, fill, empty []uint16) {
	w := worlds[6]
	var s allocator.Set
	for _, i := range fill {
		s.Insert(w.at(i))
	}
	if sh := shapeOf(t, &s); sh.Depth != 3 || sh.Words != len(fill) {
		t.Fatalf("the full tree is %+v, want 3 levels", sh)
	}
	for left, i := range slices.Backward(empty) {
		if !s.Delete(w.at(i)) {
			t.Fatalf("%s is not there", w.at(i))
		}
		if left%113 == 0 {
			checkNodes(t, shapeOf(t, &s))
		}
	}
	if sh := shapeOf(t, &s); s.Len() != 0 || sh.Nodes > 1 || sh.Words != 0 {
		t.Errorf("the empty tree is %+v with %d members", sh, s.Len())
	}
	if _, ok := s.NthFree(w.span(5, 9), 0); !ok || s.CountIn(all6) != 0 || s.Contains(w.at(5)) || s.Delete(w.at(5)) {
		t.Error("something remained in the empty set")
	}
}

func shapeOf(t *testing.T, s *allocator.Set) allocator.Shape {
	t.Helper()
	sh, err := s.Check()
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// checkNodes checks that memory follows use: a leaf for ten words at least, and an inner node for ten kids.
func checkNodes(t *testing.T, sh allocator.Shape) {
	t.Helper()
	most, level := 0, sh.Words
	for range sh.Depth {
		level = max(level/10, 1)
		most += level
	}
	if sh.Nodes > most {
		t.Errorf("%d nodes for %d words in %d levels, want at most %d", sh.Nodes, sh.Words, sh.Depth, most)
	}
}

// TestSetFill pins how well nodes are filled: memory is 24 bytes for a word, divided by this.
func TestSetFill(t *testing.T) {
	const n = 40_000
	rng := seeded(9)
	for name, tc := range map[string]struct {
		at    func(i int) uint16
		least float64 // share of the places of a node that are in use
	}{
		"up":     {func(i int) uint16 { return uint16(i) }, 0.70},
		"random": {func(int) uint16 { return uint16(rng.Uint32()) }, 0.62},
	} {
		var s allocator.Set
		for i := range n {
			s.Insert(worlds[6].at(tc.at(i)))
		}
		sh := shapeOf(t, &s)
		if got := float64(sh.Words) / float64(sh.Nodes*allocator.Fan); got < tc.least {
			t.Errorf("%s: nodes are filled to %.2f, want %v at least", name, got, tc.least)
		}
	}
}

// TestSetLarge has 200,000 members and compares with arithmetic that needs no walk: every third address is one.
func TestSetLarge(t *testing.T) {
	const n = 200_000
	order := seeded(10).Perm(n)
	first := addr("10.0.0.0")
	var s allocator.Set
	for _, i := range order {
		s.Insert(nth(first, 3*i))
	}
	if sh := shapeOf(t, &s); s.Len() != n || sh.Words != 3*n/64 {
		t.Errorf("%d members in %+v", s.Len(), sh)
	}
	sp := allocator.Span{First: first, Last: nth(first, 3*n-1)}
	for _, i := range order[:2000] {
		if got := s.CountIn(allocator.Span{First: first, Last: nth(first, 3*i)}); got != uint64(i)+1 {
			t.Fatalf("%d members up to member %d", got, i)
		}
		if got, ok := s.NthFree(sp, uint64(2*i)); !ok || got != nth(first, 3*i+1) {
			t.Fatalf("free address %d is %s, want %s", 2*i, got, nth(first, 3*i+1))
		}
	}
	for _, i := range order[50:] {
		s.Delete(nth(first, 3*i))
	}
	sh := shapeOf(t, &s)
	checkNodes(t, sh)
	if s.Len() != 50 || s.CountIn(sp) != 50 || sh.Words > 50 {
		t.Errorf("%d members in %+v", s.Len(), sh)
	}
}

// nth returns the IPv4 address i behind first.
func nth(first netip.Addr, i int) netip.Addr {
	b := first.As4()
	n := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
	n += i
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// TestSetInSlash64 asks for free addresses of the largest range there is: 2^64-1 of them.
func TestSetInSlash64(t *testing.T) {
	sp := rangeOf(t, "fd00::/64").Span()
	members := golden.Set{}
	var s allocator.Set
	for _, text := range []string{"fd00::1", "fd00::2", "fd00::8000:0:0:0", "fd00::ffff:ffff:ffff:ffff"} {
		s.Insert(addr(text))
		members.Insert(addr(text))
	}
	for _, tc := range []struct {
		k    uint64
		want string
	}{
		{0, "fd00::3"},
		{1, "fd00::4"},
		{1<<63 - 4, "fd00::7fff:ffff:ffff:ffff"},
		{1<<63 - 3, "fd00::8000:0:0:1"},
		{math.MaxUint64 - 5, "fd00::ffff:ffff:ffff:fffe"},
		{math.MaxUint64 - 4, ""},
		{math.MaxUint64, ""},
	} {
		got, ok := s.NthFree(sp, tc.k)
		if ok != (tc.want != "") || ok && got != addr(tc.want) {
			t.Errorf("NthFree(%d) = %s, %v, want %q", tc.k, got, ok, tc.want)
		}
		if want, wantOK := members.NthFree(golden.Span(sp), tc.k); got != want || ok != wantOK {
			t.Errorf("NthFree(%d) = %s, %v, the oracle says %s, %v", tc.k, got, ok, want, wantOK)
		}
	}
	var none allocator.Set
	if got, ok := none.NthFree(sp, math.MaxUint64-1); !ok || got != sp.Last {
		t.Errorf("the last of 2^64-1 free addresses is %s, %v", got, ok)
	}
	if got, ok := none.NthFree(sp, math.MaxUint64); ok {
		t.Errorf("one more free address than there are is %s", got)
	}
	if got, ok := none.NthFree(all6, math.MaxUint64); !ok || got != addr("::ffff:ffff:ffff:ffff") {
		t.Errorf("free address 2^64-1 of all is %s, %v", got, ok)
	}
}

func TestZeroSet(t *testing.T) {
	var s allocator.Set
	if s.Len() != 0 || s.CountIn(all4) != 0 || s.Contains(all4.First) || s.Delete(all4.First) {
		t.Error("the zero Set has members")
	}
	for a := range s.All(all4) {
		t.Errorf("the zero Set has the member %s", a)
	}
	if a, ok := s.NthFree(all4, 1<<32-1); !ok || a != all4.Last {
		t.Errorf("the last free address is %s, %v", a, ok)
	}
	if a, ok := s.NthFree(all4, 1<<32); ok {
		t.Errorf("one more free address than there are is %s", a)
	}
	shapeOf(t, &s)
}

func TestSetRefusesStrangers(t *testing.T) {
	var s allocator.Set
	s.Insert(addr("fe80::1"))
	for _, a := range []netip.Addr{{}, addr("fe80::1%eth0"), addr("::ffff:10.0.0.1%eth0")} {
		if s.Insert(a) || s.Contains(a) || s.Delete(a) {
			t.Errorf("%s is a member", a)
		}
	}
	if s.Len() != 1 {
		t.Errorf("Len = %d, want 1", s.Len())
	}
	for _, sp := range []allocator.Span{{}, span("fe80::2-fe80::1"), {First: addr("fe80::%a"), Last: addr("fe80::2")}} {
		if _, ok := s.NthFree(sp, 0); ok || s.CountIn(sp) != 0 || len(slices.Collect(s.All(sp))) != 0 {
			t.Errorf("%v has addresses", sp)
		}
	}
}

// TestSetMappedIsTheSameMember: IPv4 addresses and IPv4-mapped ones are one number.
func TestSetMappedIsTheSameMember(t *testing.T) {
	var s allocator.Set
	if !s.Insert(addr("10.0.0.1")) || s.Insert(addr("::ffff:10.0.0.1")) || !s.Contains(addr("::ffff:10.0.0.1")) {
		t.Error("10.0.0.1 and ::ffff:10.0.0.1 are two members")
	}
	if got := slices.Collect(s.All(all6)); len(got) != 1 || got[0] != addr("::ffff:10.0.0.1") {
		t.Errorf("All = %s, want an IPv6 address", got)
	}
}

// TestSetAllStops: whoever has seen enough is not shown more, at whatever place of the tree that is.
func TestSetAllStops(t *testing.T) {
	w := worlds[6]
	var s allocator.Set
	for i := range uint16(3000) {
		s.Insert(w.at(i))
		s.Insert(w.at(i).Next())
	}
	for _, enough := range []int{1, 2, 3, 62, 63, 80, 81, 82, 83, 1000, 5999} {
		seen := 0
		for range s.All(all6) {
			if seen++; seen == enough {
				break
			}
		}
		if seen != enough {
			t.Errorf("saw %d members, want %d", seen, enough)
		}
	}
	between := allocator.Span{First: w.at(40).Next(), Last: w.at(90)}
	if got := slices.Collect(s.All(between)); len(got) != 100 || got[0] != between.First || got[99] != between.Last {
		t.Errorf("%d members in %s, want 100 with both ends", len(got), between)
	}
}
