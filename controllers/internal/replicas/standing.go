package replicas

import (
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// standing is what a view means for those who draw addresses. It does not change once it is published.
type standing struct {
	me          string
	shard       allocator.Shard
	from, until time.Time
	// steps is from when the replica settles by claims what will be its own; the zero time before it has told the others that it serves.
	steps    time.Time
	living   []string
	reckoned []string
	mates    map[string]mate
	// written: the own Lease is there. quiet is when the others have been silent for so long that they are probably dead; the zero time
	// without others.
	written bool
	quiet   time.Time
}

// standingOf is the standing by a view, but for its shard.
func standingOf(v view, t terms) *standing {
	s := &standing{me: v.me, living: v.living(), reckoned: v.reckoned(), mates: v.mates(t), written: !v.acknowledged.IsZero(), quiet: v.quiet(t)}
	s.from, s.until = v.sure(t)
	if !v.told.IsZero() {
		s.steps = v.told.Add(handover / 4)
	}
	return s
}

// sure reports whether the shard may be drawn from at now without asking.
//
// The end is compared by both clocks. The monotonic one is the one that counts, but it stands still while some machines sleep; a
// wall clock that was put forward costs no more than a renewal.
func (s *standing) sure(now time.Time) bool {
	return !s.until.IsZero() && !now.Before(s.from) && now.Before(s.until) && now.Round(0).Before(s.until.Round(0))
}

// mate is another replica, for those who have to know whether it hands out anything.
type mate struct {
	// serves: it says so.
	serves bool
	// dead: it has missed two renewals, and is probably dead.
	dead bool
	// gone is when its Lease was first missed; zero as long as it is there.
	gone time.Time
}

// awake reports whether it may hand out something, or has done so a moment ago.
func (m mate) awake(now time.Time) bool {
	return !m.dead && (m.gone.IsZero() || now.Before(m.gone.Add(handover)))
}

// inLine are the replicas among whom the right to settle addresses is divided at now: those that serve, and if none does, those that are there.
// Those that do not answer are left out. It is never empty.
func (s *standing) inLine(now time.Time, silent func(string) bool) []string {
	awake := func(name string) bool { return name == s.me || s.mates[name].awake(now) && !silent(name) }
	serving := among(s.reckoned, func(name string) bool {
		if name == s.me {
			return s.sure(now) || !s.steps.IsZero() && !now.Before(s.steps) && now.Before(s.until)
		}
		return s.mates[name].serves && awake(name)
	})
	if len(serving) > 0 {
		return serving
	}
	return among(s.reckoned, awake)
}

// among returns those names that are so; the slice itself if all are, as is usual.
func among(names []string, so func(string) bool) []string {
	not := func(name string) bool { return !so(name) }
	if !slices.ContainsFunc(names, not) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), not)
}
