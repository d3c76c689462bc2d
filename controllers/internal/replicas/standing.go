package replicas

import (
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// standing is what a view means for those who draw addresses. It does not change once it is published.
type standing struct {
	shard       allocator.Shard
	from, until time.Time
	living      []string
	reckoned    []string
	// written: the own Lease is there. quiet is when the others have been silent for so long that they are probably dead; the zero time
	// without others.
	written bool
	idle    map[string]idle
	quiet   time.Time
}

// sure reports whether the shard may be drawn from at now without asking.
//
// The end is compared by both clocks. The monotonic one is the one that counts, but it stands still while some machines sleep; a
// wall clock that was put forward costs no more than a renewal.
func (s *standing) sure(now time.Time) bool {
	return !s.until.IsZero() && !now.Before(s.from) && now.Before(s.until) && now.Round(0).Before(s.until.Round(0))
}

// idle is when a replica hands out nothing: up to until, for it has just joined and is not sure of its shard before Settle has passed since the
// others know it; and after from, for it is dead, or has missed two renewals and is probably dead.
type idle struct{ until, from time.Time }

// The zero idle never is.
func (i idle) at(now time.Time) bool {
	return now.Before(i.until) || !i.from.IsZero() && now.After(i.from)
}
