package allocator_test

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// starts are where tests look at 4,096 addresses each.
var starts = []string{"10.96.0.0", "0.0.0.0", "fd00:10:96::", "fd00:10:96:0:8000::ffff:f800", "::ffff:10.96.0.0"}

// replicas returns n names as those of pods are.
func replicas(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("clusterip-operator-7d9f8b6c5d-%05d", i*i))
	}
	return names
}

// fleet is the shards of all members, by name.
type fleet map[string]allocator.Shard

func fleetOf(members ...string) fleet {
	f := fleet{}
	for _, me := range members {
		f[me] = allocator.NewShard(members, me)
	}
	return f
}

// owner returns the one of the members that owns a; it is an error if none does, or two do.
func (f fleet) owner(t *testing.T, a netip.Addr) string {
	t.Helper()
	var owners []string
	for me, s := range f {
		if s.Owns(a) {
			owners = append(owners, me)
		}
	}
	if len(owners) != 1 {
		t.Fatalf("of %d, %s own %s", len(f), owners, a)
	}
	return owners[0]
}

// eachFrom calls do for 4,096 addresses from each of the starts on.
func eachFrom(t *testing.T, do func(*testing.T, []netip.Addr)) {
	for _, start := range starts {
		t.Run(start, func(t *testing.T) {
			var list []netip.Addr
			for a := addr(start); len(list) < 4096; a = a.Next() {
				list = append(list, a)
			}
			do(t, list)
		})
	}
}

// TestShardsPartition: each address has one owner, and all members own about as many (chi-square, five standard
// deviations).
func TestShardsPartition(t *testing.T) {
	eachFrom(t, func(t *testing.T, list []netip.Addr) {
		for _, n := range []int{1, 2, 3, 7} {
			members, owned := fleetOf(replicas(n)...), map[string]int{}
			for _, a := range list {
				owned[members.owner(t, a)]++
			}
			chi2, each := 0.0, float64(len(list))/float64(n)
			for me := range members {
				d := float64(owned[me]) - each
				chi2 += d * d / each
			}
			if freedom := float64(n - 1); chi2 > freedom+5*math.Sqrt(2*freedom) {
				t.Errorf("%d members own %v: chi-square is %.1f", n, owned, chi2)
			}
		}
	})
}

// TestShardsAreMixed: runs of addresses of one owner are no longer than they are by chance.
func TestShardsAreMixed(t *testing.T) {
	s := allocator.NewShard(replicas(2), replicas(2)[0])
	eachFrom(t, func(t *testing.T, list []netip.Addr) {
		changes, run, longest := 0, 0, 0
		for i := 1; i < len(list); i++ {
			if run++; s.Owns(list[i]) != s.Owns(list[i-1]) {
				changes, longest, run = changes+1, max(longest, run), 0
			}
		}
		if math.Abs(float64(changes)-2048) > 5*32 || longest > 32 {
			t.Errorf("the owner changes %d times, and the longest run is %d", changes, longest)
		}
	})
}

// TestMembershipMovesWhatItMust: who joins takes from everybody, and nothing else changes hands; and the other way
// round.
func TestMembershipMovesWhatItMust(t *testing.T) {
	eachFrom(t, func(t *testing.T, list []netip.Addr) {
		for n := 1; n < 6; n++ {
			before, after, joins := fleetOf(replicas(n)...), fleetOf(replicas(n+1)...), replicas(n + 1)[n]
			moved := map[string]int{}
			for _, a := range list {
				was, is := before.owner(t, a), after.owner(t, a)
				if was != is && is != joins {
					t.Fatalf("%s goes from %s to %s when %s joins", a, was, is, joins)
				}
				if was != is {
					moved[was]++
				}
			}
			for me := range before {
				if want := float64(len(list)) / float64(n*(n+1)); math.Abs(float64(moved[me])-want) > 6*math.Sqrt(want) {
					t.Errorf("the newcomer takes %d of %d from %s, want about %.0f", moved[me], len(list), me, want)
				}
			}
		}
	})
}

// TestSameMembersSameShards: the order of names does not matter, nor do names that come twice.
func TestSameMembersSameShards(t *testing.T) {
	members := replicas(4)
	others := []string{members[2], members[0], members[3], members[2], members[1], members[0]}
	given := slices.Clone(others)
	for _, me := range members {
		a, b := allocator.NewShard(members, me), allocator.NewShard(others, me)
		if a.Members() != 4 || b.Members() != 4 {
			t.Errorf("of 4 members one shard counts %d, the other one %d", a.Members(), b.Members())
		}
		for i := range 1000 {
			if x := nth(addr("10.0.0.0"), i); a.Owns(x) != b.Owns(x) {
				t.Fatalf("%s: of %s %v, of %s %v", x, members, a.Owns(x), others, b.Owns(x))
			}
		}
	}
	if !slices.Equal(others, given) {
		t.Error("the names were sorted in place")
	}
}

// TestWhoIsNoMember: without members there is nobody to share with, but a name that is no member's owns nothing.
func TestWhoIsNoMember(t *testing.T) {
	for name, tc := range map[string]struct {
		shard allocator.Shard
		want  bool
	}{
		"the zero Shard":       {allocator.Shard{}, true},
		"alone":                {allocator.NewShard([]string{"a"}, "a"), true},
		"a stranger":           {allocator.NewShard([]string{"a", "b"}, "c"), false},
		"a stranger to one":    {allocator.NewShard([]string{"a"}, "c"), false},
		"a stranger to nobody": {allocator.NewShard(nil, "c"), false},
	} {
		for _, start := range starts {
			for i := range 50 {
				if a := shifted(addr(start), int64(i)); tc.shard.Owns(a) != tc.want {
					t.Fatalf("%s owns %s: %v", name, a, !tc.want)
				}
			}
		}
	}
}

// TestShardsArePinned: replicas of two versions and two machines must agree, so this never changes. Another program in
// another language computed the same.
func TestShardsArePinned(t *testing.T) {
	members := fleetOf("red", "green", "blue")
	for start, want := range map[string]string{
		"10.96.0.0":    "grbgbbbggbgggrrrbgbrgrbrrrbrrbrg",
		"fd00:10:96::": "bbggbgrbbbrbrrrgggbggrgrrbrrrbrg",
	} {
		got := ""
		for i := range 32 {
			got += members.owner(t, shifted(addr(start), int64(i)))[:1]
		}
		if got != want {
			t.Errorf("from %s on the owners are %s, want %s", start, got, want)
		}
	}
}

// The member that Owner names is the one that owns, for every member and both families.
func TestOwnerOwns(t *testing.T) {
	members := []string{"a", "b", "c"}
	for _, first := range []string{"10.0.0.0", "fd00::"} {
		a := netip.MustParseAddr(first)
		for range 500 {
			owner := allocator.NewShard(members, "a").Owner(a)
			for i, me := range members {
				if owns := allocator.NewShard(members, me).Owns(a); owns != (i == owner) {
					t.Fatalf("%s: the owner is %d, and member %d owns it: %t", a, owner, i, owns)
				}
			}
			a = a.Next()
		}
	}
	if (allocator.Shard{}).Owner(netip.MustParseAddr("10.0.0.1")) != -1 {
		t.Error("the zero Shard has no members")
	}
}

// Without one member the others own what they owned: what it did has an heir, and nothing else changes hands.
func TestOwnerWithoutAMember(t *testing.T) {
	all, left := allocator.NewShard([]string{"a", "b", "c"}, "a"), allocator.NewShard([]string{"a", "c"}, "a")
	names, heirs := []string{"a", "b", "c"}, []string{"a", "c"}
	a := netip.MustParseAddr("10.0.0.0")
	for range 500 {
		if owner, heir := names[all.Owner(a)], heirs[left.Owner(a)]; owner != "b" && heir != owner {
			t.Fatalf("%s: the owner is %s, and %s when b is away", a, owner, heir)
		}
		a = a.Next()
	}
}
