package allocator

import (
	"math/bits"
	"net/netip"
	"slices"
)

// Shard is one member's part of all addresses. The parts of all members are disjoint and complete, about equally
// large, and mixed with one another however small the range: each address has a weight with every member, which
// depends on the address and on the member's name only, and the heaviest member owns it (rendezvous hashing). When a
// member leaves, the others keep what they own and share what it owned; when one joins, it takes from all alike.
//
// Shards make collisions rare, not impossible: members may for a moment be of two minds about who they are.
//
// The zero Shard owns everything. A Shard never changes, and any number of goroutines may use it.
type Shard struct {
	seeds   []uint64 // of all members, in the order of their names
	me      int      // place in seeds, -1 if the owner is no member
	divided bool     // false for the zero Shard
}

// NewShard returns the part of me among the members, whose order does not matter and of whom each counts once. A
// me that is no member owns nothing. Everybody who calls it with the same members, on whatever machine, gets parts
// that fit together.
func NewShard(members []string, me string) Shard {
	names := slices.Compact(slices.Sorted(slices.Values(members)))
	s := Shard{me: slices.Index(names, me), divided: true}
	for _, name := range names {
		s.seeds = append(s.seeds, seedOf(name))
	}
	return s
}

// Owns reports whether a is in the part. It costs a few instructions for each member.
func (s Shard) Owns(a netip.Addr) bool { return s.owns(numberOf(a)) }

func (s Shard) owns(a uint128) bool { return s.ownsAll() || s.owner(a) == s.me }

// owner returns the place of the member that owns a: the heaviest one, of several the one whose name comes first; 0 if
// there is no member.
func (s Shard) owner(a uint128) (at int) {
	point, heaviest := pointOf(a), uint64(0)
	for i, seed := range s.seeds {
		if w := weigh(point, seed); w > heaviest {
			at, heaviest = i, w
		}
	}
	return at
}

// Owner returns the place of the member that owns a, in the order of the members' names without doubles; -1 for the zero Shard, and if there is no member.
func (s Shard) Owner(a netip.Addr) int {
	if len(s.seeds) == 0 {
		return -1
	}
	return s.owner(numberOf(a))
}

func (s Shard) ownsAll() bool { return !s.divided || len(s.seeds) == 1 && s.me == 0 }

func (s Shard) ownsNone() bool { return s.divided && s.me < 0 }

// members is how many share the addresses; 1 for the zero Shard.
func (s Shard) members() int { return max(len(s.seeds), 1) }

// pointOf turns an address into a number that looks random.
func pointOf(a uint128) uint64 { return scatter(a.hi ^ scatter(a.lo)) }

// weigh mixes where an address lies with who a member is: both halves of one product.
func weigh(point, seed uint64) uint64 {
	high, low := bits.Mul64(point^seed, 0x9e3779b97f4a7c15)
	return high ^ low
}

// seedOf turns a name into a number that looks random and is the same everywhere (FNV-1a, then scattered).
func seedOf(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return scatter(h)
}
