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
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// DefaultLeakGrace is how long a bit must be set without a Service before it is cleared: a Service
// under creation has its bit before it exists, for as long as a request may take.
const DefaultLeakGrace = 90 * time.Second

type drift struct {
	key             string
	prefix          netip.Prefix
	missing, leaked sets.Set[netip.Addr]
	last            Value          // the version of the bitmap up to which every one was seen
	bitmap          *bitmap.Bitmap // what it says
}

const maxConflicts = 100 // of a write with those of other clients

var errEnough = errors.New("enough was seen")

// repairBitmap mends a bitmap in use: an API server rereads it when another writer has changed it.
//
// A bit may be cleared if it was set all the time for longer than a request can take, and no
// Service listed after that time holds it: the API server has had time to write the Service.
func (r Runner) repairBitmap(ctx context.Context, s Step) error {
	d, err := r.drift(ctx, s.Key)
	if err != nil {
		return err
	}
	if err := r.outlast(ctx, d); err != nil {
		return fmt.Errorf("following the bitmap: %w", err)
	}
	now, err := r.drift(ctx, s.Key)
	if err != nil {
		return err
	}
	d.leaked, d.missing = d.leaked.Intersection(now.leaked), d.missing.Intersection(now.missing)
	for range maxConflicts {
		err := r.mend(ctx, d)
		if !errors.Is(err, ErrConflict) {
			return err
		}
		// Bits that an API server has cleared since may be set again for other Services.
		v, err := r.Sources.Store.Get(ctx, d.key)
		if err == nil {
			err = r.follow(ctx, d, func() bool { return d.last.ModRevision >= v.ModRevision })
		}
		if err != nil {
			return fmt.Errorf("following the bitmap: %w", err)
		}
	}
	return fmt.Errorf("the bitmap changed %d times while it was being repaired; try again when fewer Services come and go", maxConflicts)
}

func (r Runner) drift(ctx context.Context, key string) (*drift, error) {
	w, err := r.Sources.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	p := NewPlan(w, r.Options)
	s := p.stored(key)
	if s == nil {
		return nil, batch.ErrMoved
	}
	m, err := s.of(rangeAt(p.Ranges, key))
	if err != nil {
		return nil, err
	}
	d := &drift{key: key, prefix: m.Prefix()}
	d.missing, d.leaked = newHolders(w).drift(m)
	return d, nil
}

// drift are the addresses that Services hold and a bitmap lacks, and those that no Service holds.
func (h *holders) drift(m *bitmap.Bitmap) (missing, leaked sets.Set[netip.Addr]) {
	missing, leaked = sets.New[netip.Addr](), sets.New[netip.Addr]()
	for a := range m.All() {
		if len(h.entries[a].claims) == 0 {
			leaked.Insert(a)
		}
	}
	for a, e := range h.entries {
		if len(e.claims) > 0 && m.Covers(a) && !m.Contains(a) {
			missing.Insert(a)
		}
	}
	return missing, leaked
}

// of returns the bitmap; an empty one of the range where nothing was ever written.
func (s StoredBitmap) of(prefix netip.Prefix) (*bitmap.Bitmap, error) {
	if errors.Is(s.Err, bitmap.ErrUnset) {
		return bitmap.New(prefix)
	}
	return s.Bitmap, s.Err
}

// outlast drops the leaked bits that any version of the bitmap within the grace lacks, until none
// is left. Missing bits outlast the time between the reading of the two records.
func (r Runner) outlast(ctx context.Context, d *drift) error {
	v, err := r.Sources.Store.Get(ctx, d.key)
	if err == nil {
		err = d.see(v)
	}
	switch {
	case err != nil:
		return err
	case len(d.leaked) == 0:
		return batch.Sleep(ctx, confirmAfter)
	}
	logr.FromContextOrDiscard(ctx).Info("Waiting, so that no bit of a Service under creation is cleared",
		"bitmap", d.key, "leakedBits", len(d.leaked), "for", r.LeakGrace.String())
	grace, stop := context.WithTimeout(ctx, r.LeakGrace)
	defer stop()
	err = r.follow(grace, d, func() bool { return len(d.leaked) == 0 })
	if grace.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// follow sees the versions of the bitmap that come after the last one, until it is enough.
func (r Runner) follow(ctx context.Context, d *drift, enough func() bool) error {
	err := r.Sources.Store.Watch(ctx, prefixRanges, d.last.ModRevision, func(v Value) error {
		if v.Key != d.key {
			return nil
		}
		if err := d.see(v); err != nil || !enough() {
			return err
		}
		return errEnough
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (d *drift) see(v Value) error {
	m, err := newStoredBitmap(v).of(d.prefix)
	if err != nil {
		return err
	}
	d.last, d.bitmap = v, m
	maps.DeleteFunc(d.leaked, func(a netip.Addr, _ sets.Empty) bool { return !m.Contains(a) })
	return nil
}

func (r Runner) mend(ctx context.Context, d *drift) error {
	m := d.bitmap.Clone()
	for a := range d.missing {
		if err := m.Add(a); err != nil {
			return err
		}
	}
	for a := range d.leaked {
		m.Remove(a)
	}
	if m.Equal(d.bitmap) {
		return nil
	}
	allocation := d.last.Object.(*corev1.RangeAllocation).DeepCopy()
	allocation.Range, allocation.Data = m.String(), m.Data()
	_, err := r.Sources.Store.Commit(ctx, []Write{{Key: d.key, Guard: d.last.ModRevision, Object: allocation}})
	return err
}
