package replicas

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Rights say which addresses a replica settles at some moment. Each address has one replica that settles it: its owner; or while that one does not
// serve, as it has just joined, or does not answer, or its Lease is gone, the next in line, its heir. Everybody else asks that replica for it.
//
// About who serves, replicas may be of two minds for a moment. So only owners that are sure hand out by themselves; heirs have to claim what they hand out.
type Rights struct {
	// Shard are the addresses that the replica settles.
	Shard allocator.Shard
	// Own are those of them that it owns.
	Own allocator.Shard
	// Sure: it hands out its own without a claim.
	Sure bool

	inLine []string
}

// Of returns what the replica may do with an address by itself; Refused if another one settles it.
func (r Rights) Of(a netip.Addr) Grant {
	switch {
	case r.Sure && r.Own.Owns(a):
		return Outright
	case r.Shard.Owns(a):
		return Claimable
	default:
		return Refused
	}
}

// holder returns the name of the replica that settles an address, for one that is in line or knows who is.
func (r Rights) holder(a netip.Addr) string { return r.inLine[max(0, r.Shard.Owner(a))] }

// Grant is what a replica may do with an address.
type Grant int

const (
	// Refused says that it may not hand the address out, and as an answer that somebody has it.
	Refused Grant = iota
	// Claimable says that it may claim the address, and that nobody else does so now.
	Claimable
	// Outright says that it may hand the address out.
	Outright
	// Elsewhere is an answer: whoever was asked does not settle the address. Replicas may be of two minds about it for a moment.
	Elsewhere
)

// nobodys is the shard of a replica that is none.
var nobodys = allocator.NewShard(nil, "")

// division is the last one of a part of the replicas. Who is in line changes when one joins, dies or falls silent.
type division struct {
	inLine []string
	shard  allocator.Shard
}

// Rights returns which addresses this replica settles now. They hold for an address that is drawn now and reaches the API server within the
// time-out of the webhook. They cost some loads.
func (m *Members) Rights() Rights {
	s, now := m.current.Load(), m.clock.Now()
	if !s.written {
		return Rights{Shard: nobodys, Own: nobodys}
	}
	r := Rights{Own: s.shard, Sure: s.sure(now), inLine: s.inLine(now, m.silence.of)}
	if len(r.inLine) == len(s.reckoned) {
		r.Shard = s.shard
		return r
	}
	last := m.divided.Load()
	if last == nil || !slices.Equal(last.inLine, r.inLine) {
		last = &division{r.inLine, allocator.NewShard(r.inLine, m.id)}
		m.divided.Store(last)
	}
	r.Shard = last.shard
	return r
}
