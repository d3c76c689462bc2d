package conntrack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// perTurn is how many flows are deleted, in a few tens of ms, before the agent's loop goes on.
const perTurn = 1000

// search is one reading of the table. It has the suspects that were due: they are suspects of the
// Reconciler again if it fails.
type search struct {
	staleCheck
	found []Flow
	took  time.Duration
	err   error // of the reading
	stuck error // of flows that the kernel does not delete
}

// Search returns how to look for stale flows, nil when nothing is due. What it returns reads the
// table, which takes long where there are many flows, and may run beside the Reconciler; what that
// returns deletes the flows that are stale by then, some in each call as long as there are more.
func (r *Reconciler) Search(now time.Time) func(context.Context) func(context.Context) (deleted int, more bool, err error) {
	if next := r.Next(); next.IsZero() || now.Before(next) {
		return nil
	}
	s := &search{staleCheck: staleCheck{suspects: make(map[front]*served), former: slices.Clone(r.former), abandoned: r.abandoned}}
	for f, at := range r.suspects {
		if !now.Before(at) {
			s.suspects[f] = r.index.owners[f]
			delete(r.suspects, f)
		}
	}
	if len(r.suspects) == 0 {
		r.suspects = make(map[front]time.Time) // one that was once large takes long to walk, as Next does
	}
	r.abandoned = nil
	needsLocal := slices.ContainsFunc(slices.Collect(maps.Keys(s.suspects)), func(f front) bool { return f.isNodePort() || r.index.overlapsNodePort(f) })
	return func(ctx context.Context) func(context.Context) (int, bool, error) {
		start := time.Now()
		s.err = s.read(ctx, r.family, r.table, needsLocal)
		s.took = time.Since(start)
		return func(ctx context.Context) (int, bool, error) { return r.finish(ctx, s, time.Now()) }
	}
}

// read looks for flows that may be stale.
func (s *search) read(ctx context.Context, family model.Family, table Table, needsLocal bool) error {
	if needsLocal {
		addrs, err := table.LocalAddrs()
		if err != nil {
			return fmt.Errorf("reading the addresses of the node: %w", err)
		}
		s.local = model.SetOf(addrs)
	}
	for _, q := range s.queries(family) {
		flows, err := table.Flows(ctx, q, s.possible)
		if err != nil {
			return fmt.Errorf("reading the %v flows of %v: %w", q.Protocol, family, err)
		}
		s.found = append(s.found, flows...)
	}
	return nil
}

// queries are as narrow as the suspects allow. A TCP connection that was answered ends by itself.
func (s *search) queries(family model.Family) (all []Query) {
	for _, p := range model.Protocols {
		q, n := Query{Family: family, Protocol: p, Unanswered: p == model.TCP}, 0
		for f := range s.suspects {
			if f.protocol != p {
				continue
			}
			if n++; n == 1 {
				q.Addr, q.Port = f.at.Addr(), f.at.Port()
			}
			if q.Addr != f.at.Addr() {
				q.Addr = netip.Addr{}
			}
			if q.Port != f.at.Port() {
				q.Port = 0
			}
		}
		if s.abandoned != nil && p != model.TCP {
			q.Addr, q.Port, n = netip.Addr{}, 0, n+1
		}
		if n > 0 {
			all = append(all, q)
		}
	}
	return all
}

// finish deletes some of what was found and is stale still: the index knows the rules that are in
// the kernel now, and a flow of an endpoint that came meanwhile stays.
func (r *Reconciler) finish(ctx context.Context, s *search, now time.Time) (deleted int, more bool, err error) {
	some := s.found[:min(len(s.found), perTurn)]
	s.found, s.index = s.found[len(some):], r.index
	deleted, err = r.delete(ctx, slices.DeleteFunc(some, func(f Flow) bool { return !s.stale(f) }), now)
	s.stuck, s.err = errors.Join(s.stuck, err), errors.Join(s.err, ctx.Err())
	if len(s.found) > 0 && ctx.Err() == nil {
		return deleted, true, nil
	}
	// The shorter one of two: the agent may not have got the processor for a while.
	r.earliest = now.Add((share - 1) * min(r.took, s.took))
	r.took = s.took
	if s.err != nil {
		r.again(s, now)
	} else if len(r.suspects) == 0 {
		r.former = nil
	}
	return deleted, false, errors.Join(s.err, s.stuck)
}

// again has everything looked for once more that a search should have found.
func (r *Reconciler) again(s *search, now time.Time) {
	r.earliest = now.Add(retry)
	for f := range s.suspects {
		if _, already := r.suspects[f]; !already {
			r.suspect(now.Add(-settle), f)
		}
	}
	if r.abandoned == nil {
		r.abandoned = s.abandoned
	}
}

// delete deletes flows. The front of one that the kernel keeps, as it does while a flow table
// forwards it, is looked at again later: no other front waits for that.
func (r *Reconciler) delete(ctx context.Context, flows []Flow, now time.Time) (int, error) {
	deleted := 0
	var wrong []error
	for _, f := range flows {
		if ctx.Err() != nil {
			break
		}
		switch there, err := r.table.Delete(ctx, f); {
		case err != nil:
			r.suspects[f.front()] = now.Add(retry)
			wrong = append(wrong, fmt.Errorf("deleting the %v flow from %v to %v: %w", f.Protocol, f.Source, f.Destination, err))
		case there:
			deleted++
		}
	}
	return deleted, errors.Join(wrong...)
}
