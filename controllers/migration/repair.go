package migration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// DefaultLeakGrace is how long a bit must have been set without a Service before it is cleared. A Service under creation has
// its bit before it exists, for as long as a request may take.
const DefaultLeakGrace = 90 * time.Second

// drift is what in a bitmap does not agree with the Services.
type drift struct {
	prefix          netip.Prefix
	missing, leaked map[netip.Addr]bool
	// followed is the revision up to which every version of the bitmap was seen.
	followed int64
}

func newDrift(m *bitmap.Bitmap, b *addressIndex) *drift {
	d := &drift{prefix: m.Prefix(), missing: map[netip.Addr]bool{}, leaked: map[netip.Addr]bool{}}
	for a := range m.All() {
		if !b.claimed(a) {
			d.leaked[a] = true
		}
	}
	for a := range b.entries {
		if b.claimed(a) && m.Covers(a) && !m.Contains(a) {
			d.missing[a] = true
		}
	}
	return d
}

// repairBitmap makes a bitmap agree with the Services while an API server allocates from it, which reads it anew when somebody
// else has written it.
//
// A bit may be cleared when it was set all the time for longer than a request can take, and no Service that was listed after
// that time holds it: whoever set it has had the time to write the Service.
func (r Runner) repairBitmap(ctx context.Context, s Step) error {
	d, err := r.drift(ctx, s.Key)
	if err != nil {
		return err
	}
	if err := r.lasting(ctx, s.Key, d); err != nil {
		return err
	}
	for range maxConflicts {
		err := r.mend(ctx, s.Key, d)
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("the bitmap changed %d times while it was being repaired; try again when fewer Services come and go", maxConflicts)
}

// maxConflicts is how often a write is tried on a bitmap that others write as well.
const maxConflicts = 100

// drift compares the bitmap with the Services as they are now.
func (r Runner) drift(ctx context.Context, key string) (*drift, error) {
	w, err := r.Sources.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	p := NewPlan(w, r.Options)
	s := p.stored(key)
	if s == nil {
		return nil, errMoved
	}
	m, err := s.of(p.rangeOf(key))
	if err != nil {
		return nil, err
	}
	return newDrift(m, newAddressIndex(w)), nil
}

// of returns the bitmap; an empty one of the range where nothing was ever written.
func (s StoredBitmap) of(prefix netip.Prefix) (*bitmap.Bitmap, error) {
	if errors.Is(s.Err, bitmap.ErrUnset) {
		return bitmap.New(prefix)
	}
	return s.Bitmap, s.Err
}

// lasting keeps of a drift what is still there later: of the leaked bits those that were set in every version of the bitmap
// within the grace, of the missing ones those that were not of a Service created between the reading of the two records.
func (r Runner) lasting(ctx context.Context, key string, d *drift) error {
	if len(d.leaked) > 0 {
		logr.FromContextOrDiscard(ctx).Info("Waiting, so that no bit of a Service under creation is cleared",
			"bitmap", key, "leakedBits", len(d.leaked), "for", r.LeakGrace.String())
		if err := r.follow(ctx, key, d); err != nil {
			return fmt.Errorf("following the bitmap: %w", err)
		}
	} else if err := pauseIf(ctx, true); err != nil {
		return err
	}
	now, err := r.drift(ctx, key)
	if err != nil {
		return err
	}
	keep(d.leaked, now.leaked)
	keep(d.missing, now.missing)
	return nil
}

// keep drops what is not in both.
func keep(a, b map[netip.Addr]bool) {
	maps.DeleteFunc(a, func(address netip.Addr, _ bool) bool { return !b[address] })
}

// follow drops every bit that a version of the bitmap within the grace does not have.
func (r Runner) follow(ctx context.Context, key string, d *drift) error {
	v, err := r.Sources.Store.Get(ctx, key)
	if err == nil {
		err = d.forgetCleared(v)
	}
	if err == nil {
		grace, stop := context.WithTimeout(ctx, r.LeakGrace)
		defer stop()
		err = r.versions(grace, key, v.ModRevision, d.forgetCleared)
		if grace.Err() != nil && ctx.Err() == nil {
			return nil
		}
	}
	if errors.Is(err, errNothingLeaks) {
		return nil
	}
	return err
}

// errNothingLeaks ends the wait: every bit that seemed leaked was of a Service under way.
var errNothingLeaks = errors.New("no bit leaks")

// forgetCleared drops the bits that are not set in a version of the bitmap, until none is left.
func (d *drift) forgetCleared(v Value) error {
	s := newStoredBitmap(v)
	if s.Err != nil {
		return s.Err
	}
	d.followed = v.ModRevision
	for a := range d.leaked {
		if !s.Bitmap.Contains(a) {
			delete(d.leaked, a)
		}
	}
	if len(d.leaked) == 0 {
		return errNothingLeaks
	}
	return nil
}

// mend writes the bitmap as it is now, with the drift taken out.
func (r Runner) mend(ctx context.Context, key string, d *drift) error {
	v, err := r.Sources.Store.Get(ctx, key)
	if err != nil {
		return err
	}
	allocation, ok := v.Object.(*corev1.RangeAllocation)
	if !ok {
		return errMoved
	}
	if err := r.catchUp(ctx, v, d); err != nil {
		return fmt.Errorf("following the bitmap: %w", err)
	}
	m, err := newStoredBitmap(v).of(d.prefix)
	if err != nil {
		return err
	}
	changed, err := d.takeOut(m)
	if err != nil || !changed {
		return err
	}
	allocation = allocation.DeepCopy()
	allocation.Range, allocation.Data = m.String(), m.Data()
	_, err = r.Sources.Store.Commit(ctx, []Write{{Key: key, Guard: v.ModRevision, Object: allocation}})
	return err
}

// catchUp drops the bits that were cleared since the bitmap was followed, and may be set again for somebody else.
func (r Runner) catchUp(ctx context.Context, v Value, d *drift) error {
	if len(d.leaked) == 0 || v.ModRevision <= d.followed {
		return nil
	}
	err := r.versions(ctx, v.Key, d.followed, func(version Value) error {
		if err := d.forgetCleared(version); err != nil {
			return err
		}
		if version.ModRevision >= v.ModRevision {
			return errCaughtUp
		}
		return nil
	})
	if errors.Is(err, errCaughtUp) || errors.Is(err, errNothingLeaks) {
		return nil
	}
	return err
}

// versions shows every version of a bitmap after a revision.
func (r Runner) versions(ctx context.Context, key string, after int64, see func(Value) error) error {
	return r.Sources.Store.Watch(ctx, prefixRanges, after, func(v Value) error {
		if v.Key != key {
			return nil
		}
		return see(v)
	})
}

// errCaughtUp ends a look at what has happened.
var errCaughtUp = errors.New("caught up")

func (d *drift) takeOut(m *bitmap.Bitmap) (changed bool, err error) {
	for a := range d.missing {
		if !m.Contains(a) {
			changed = true
			err = errors.Join(err, m.Add(a))
		}
	}
	for a := range d.leaked {
		if m.Contains(a) {
			changed = true
			m.Remove(a)
		}
	}
	return changed, err
}
