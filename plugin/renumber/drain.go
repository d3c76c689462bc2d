package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// Drain is when old addresses are given up.
type Drain struct {
	// TTL is how long resolvers may still answer with the old address: it is kept at least that long.
	TTL time.Duration
	// Quiet is for how long no client must have had a connection to it.
	Quiet time.Duration
	// Limit is how long it is kept at most.
	Limit time.Duration
	// Connections counts those to each former address that all agents know; nil without a count.
	Connections func(context.Context) (map[netip.Addr]int, error)
}

// lookEvery is how often connections are counted.
const lookEvery = 5 * time.Second

// due reports whether an old address is given up. used is its last use, as far as is known.
func (d Drain) due(now, since, used time.Time) bool {
	age := now.Sub(since)
	return age >= d.Limit || age >= d.TTL && now.Sub(used) >= d.Quiet
}

// Wait gives up each old address once it is due, and returns how many when all are or ctx ends.
func (d Drain) Wait(ctx context.Context, m Mover, p batch.Pace, all []Held) (released int, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	p.Progress.Begin("waiting until the old addresses are unused", len(all))
	defer p.Progress.End()
	used, each := map[netip.Addr]time.Time{}, batch.Pace{Limit: p.Limit, Workers: p.Workers, Progress: round{p.Progress}}
	for _, h := range all {
		used[h.Address] = m.Clock.Now() // no agent has counted until now
	}
	told := ""
	for {
		now := d.count(ctx, m, all, used, &told)
		var due, wait []Held
		for _, h := range all {
			if d.due(now, h.Since, used[h.Address]) { // as of the count: later, what is used would be quiet for as long as this loop takes
				due = append(due, h)
			} else {
				wait = append(wait, h)
			}
		}
		n, err := batch.Each(ctx, each, "", due, m.release)
		released, all = released+n, wait
		if err != nil || len(wait) == 0 {
			return released, err
		}
		select {
		case <-ctx.Done():
			return released, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// round is the progress of one of several rounds of the same work.
type round struct{ batch.Progress }

// Begin implements batch.Progress.
func (round) Begin(string, int) {}

// End implements batch.Progress.
func (round) End() {}

// count notes which addresses are in use now, and returns when that was. One that is not known to
// all agents counts as used.
func (d Drain) count(ctx context.Context, m Mover, all []Held, used map[netip.Addr]time.Time, told *string) (now time.Time) {
	var counts map[netip.Addr]int
	if d.Connections != nil {
		var err error
		if counts, err = d.Connections(ctx); err != nil && ctx.Err() == nil && err.Error() != *told {
			*told = err.Error()
			logr.FromContextOrDiscard(ctx).Info("Connections cannot be counted", "error", err.Error())
		}
	}
	now = m.Clock.Now()
	for _, h := range all {
		if n, known := counts[h.Address]; !known || n > 0 {
			used[h.Address] = now
		}
	}
	return now
}

// release gives up an old address: first the Service stops naming it, then its IPAddress is let go
// of. A Service that has the address again keeps it.
func (m Mover) release(ctx context.Context, h Held) error {
	if h.Second != "" {
		err := m.retire(ctx, h)
		if _, is := errors.AsType[*LeftError](err); is {
			return nil // another command is moving it at this moment: it is counted at the end
		}
		return err
	}
	for range tries {
		s, err := m.service(ctx, h.Item)
		if err != nil {
			return err
		}
		if s != nil && s.UID == h.Item.UID {
			if between(s) {
				return nil // another command is moving it at this moment
			}
			_, err = m.update(ctx, released(s, []netip.Addr{h.Address}))
		}
		switch {
		case errors.Is(err, batch.ErrMoved):
		case err != nil:
			return fmt.Errorf("writing Service %s: %w", h.Item.Key(), err)
		default:
			if err := m.unhold(ctx, h.Item, h.Address); err != nil {
				return err
			}
			return m.disown(ctx, h.Item) // external IPs that were shortened are ours once more
		}
	}
	return fmt.Errorf("another client writes Service %s all the time", h.Item.Key())
}

// retire gives up an address that a second Service keeps, with that Service. LeftError: the first
// one has it still, or is about to: the API server would delete the IPAddress of both.
func (m Mover) retire(ctx context.Context, h Held) error {
	ip, second, err := m.pair(ctx, h.Item, h.Address)
	if err != nil || second == nil || second.UID != h.Second || !vouches(h.Item, ip, second) {
		return err
	}
	switch s, err := m.service(ctx, h.Item); {
	case err != nil:
		return err
	case handing(h.Item, h.Address, s):
		return left("%s", unfinished(h.Item, h.Address))
	}
	// The Service goes last but for the record: `kept` finds the others by it, and tidy by that.
	if err := m.dropCopies(ctx, h.Item, h.Address); err != nil {
		return err
	}
	disowned := m.disown(ctx, h.Item) // an owner that writes the Service all the time keeps no address by that
	if err := m.remove(ctx, second); err != nil {
		return errors.Join(err, disowned)
	}
	return errors.Join(m.clear(ctx, h.Address, nameOf(second).String()), disowned)
}

// disown takes our field manager off a Service for which nothing is kept: its owner has its fields
// again.
func (m Mover) disown(ctx context.Context, i Item) error {
	for range tries {
		s, err := m.service(ctx, i)
		if err != nil || s == nil || s.UID != i.UID || between(s) {
			return err
		}
		next := released(s, nil)
		if len(next.ManagedFields) == len(s.ManagedFields) {
			return nil
		}
		if _, err := m.update(ctx, next); !errors.Is(err, batch.ErrMoved) {
			return err
		}
	}
	return fmt.Errorf("another client writes Service %s all the time", i.Key())
}
