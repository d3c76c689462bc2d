package migration

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// Rollback is what a return to the bitmap changes.
type Rollback struct {
	Snapshot Snapshot
	Bitmaps  []RebuiltBitmap // those that are not as the Services want them
	Rewrites int             // how many IPAddresses and ServiceCIDRs are stored in a version that 1.32 cannot read
	Refused  []Finding       // why nothing may be written
	Reserved []netip.Addr    // IPAddresses without a Service, which a bitmap cannot keep: a 1.32 API server gives such addresses away
}

// RebuiltBitmap is a bitmap as it will be written.
type RebuiltBitmap struct {
	Key          string
	Guard        int64 // the revision of what it replaces, 0 for nothing
	Bitmap       *bitmap.Bitmap
	Set, Cleared int   // bits that change
	Broken       error // why the old value could not be compared
}

// Nothing reports whether there is nothing to do.
func (r Rollback) Nothing() bool { return len(r.Bitmaps) == 0 && r.Rewrites == 0 }

// Risky reports whether bits are cleared, or may be: a Service that an API server is creating has
// its bit before it exists, and would lose it.
func (r Rollback) Risky() bool {
	return slices.ContainsFunc(r.Bitmaps, func(b RebuiltBitmap) bool { return b.Cleared > 0 || b.Broken != nil })
}

// NewRollback builds the bitmaps from the Services. The repair loop of a 1.32 API server does the
// same, and reports every bit that it finds different. It is pure.
func NewRollback(w Snapshot) (Rollback, error) {
	r := Rollback{Snapshot: w}
	w.Allocator = AllocatorBitmap // it will be
	p := NewPlan(w, Options{})
	if p.Ranges == nil {
		return r, errors.New("nothing tells the API server's range; give --service-cluster-ip-range as it will be started")
	}
	index := newHolders(w)
	var all []*bitmap.Bitmap
	for i, prefix := range p.Ranges {
		want, err := bitmap.New(prefix)
		if err != nil {
			return r, fmt.Errorf("range %s has no bitmap: %w", prefix, err)
		}
		all = append(all, want)
		if err := r.rebuild(bitmapKeys[i], want, &p, index); err != nil {
			return r, err
		}
	}
	r.refuse(p, all, index)
	return r, nil
}

func (r *Rollback) rebuild(key string, want *bitmap.Bitmap, p *Plan, h *holders) error {
	missing, _ := h.drift(want)
	for a := range missing {
		if err := want.Add(a); err != nil {
			return err
		}
	}
	built := RebuiltBitmap{Key: key, Bitmap: want, Set: want.Len()}
	if s := p.stored(key); s != nil {
		built.Guard, built.Broken = s.ModRevision, s.Err
		if s.Err == nil && s.Bitmap.Prefix() == want.Prefix() {
			missing, leaked := h.drift(s.Bitmap)
			if built.Set, built.Cleared = len(missing), len(leaked); built.Set+built.Cleared == 0 {
				return nil
			}
		}
	}
	r.Bitmaps = append(r.Bitmaps, built)
	return nil
}

func (r *Rollback) refuse(p Plan, bitmaps []*bitmap.Bitmap, h *holders) {
	fatal := []Kind{ObjectUnreadable, BitmapEncrypted, DuplicateClusterIP, InvalidClusterIP, RangeContradicted}
	r.Refused = slices.DeleteFunc(p.Findings, func(f Finding) bool { return !slices.Contains(fatal, f.Kind) })
	for a, e := range h.entries {
		switch covered := slices.ContainsFunc(bitmaps, func(m *bitmap.Bitmap) bool { return m.Covers(a) }); {
		case len(e.claims) == 0:
			r.Reserved = append(r.Reserved, a)
		case !covered:
			f := found(OutOfRange, a, e, "the bitmaps are of "+prefixes(p.Ranges), "create the Service anew with an address of these ranges, then try again").finding
			r.Refused = append(r.Refused, f)
		}
	}
	explain(r.Refused)
	slices.SortFunc(r.Reserved, netip.Addr.Compare)
}

// Save keeps the bitmaps that a rollback replaces in a file. Call it before RollBack.
func (r Rollback) Save(ctx context.Context, store Store, file string) error {
	_, old, err := r.writes(ctx, store)
	if err != nil || len(old) == 0 {
		return err
	}
	return newArchive(r.Snapshot, old).save(file)
}

// RollBack carries out a rollback: objects that 1.32 could not read first, then the bitmaps in one
// transaction. It can be called again after any interruption.
func RollBack(ctx context.Context, store Store, r Rollback, progress batch.Progress) error {
	defer progress.End()
	progress.Begin("rewriting", r.Rewrites)
	if err := rewrites(ctx, store, func(writes []Write) error {
		progress.Done(len(writes))
		return commitEach(ctx, store, writes)
	}); err != nil {
		return fmt.Errorf("rewriting IPAddresses and ServiceCIDRs as %s: %w", oldVersion, err)
	}
	if len(r.Bitmaps) == 0 {
		return nil
	}
	writes, _, err := r.writes(ctx, store)
	if err == nil {
		_, err = store.Commit(ctx, writes)
	}
	if err != nil {
		return fmt.Errorf("writing the bitmaps: %w", err)
	}
	return nil
}

func (r Rollback) writes(ctx context.Context, store Store) (writes []Write, old []Value, err error) {
	for _, b := range r.Bitmaps {
		v, err := store.Get(ctx, b.Key)
		switch {
		case err != nil:
			return nil, nil, err
		case v.ModRevision != b.Guard:
			return nil, nil, fmt.Errorf("%s: %w", b.Key, ErrConflict)
		case v.Exists():
			old = append(old, v)
		}
		allocation, ok := v.Object.(*corev1.RangeAllocation)
		if !ok {
			allocation = &corev1.RangeAllocation{}
		}
		allocation.Range, allocation.Data = b.Bitmap.String(), b.Bitmap.Data()
		writes = append(writes, Write{Key: b.Key, Guard: b.Guard, Object: allocation})
	}
	return writes, old, nil
}

// oldVersion is what a 1.32 API server stores and reads.
var oldVersion = networkingv1.GroupName + "/v1beta1"

// CountRewrites returns how many objects a 1.32 API server could not read.
func CountRewrites(ctx context.Context, store Store) (n int, err error) {
	err = rewrites(ctx, store, func(writes []Write) error { n += len(writes); return nil })
	return n, err
}

// rewrites finds the objects that are stored as v1, which 1.32 does not know although it is the
// same on the wire, or that an API server signed, which shows that it allocates from IPAddresses.
// It hands them out in transactions, without the signature.
func rewrites(ctx context.Context, store Store, do func([]Write) error) error {
	var writes []Write
	for _, prefix := range []string{prefixIPAddresses, prefixServiceCIDRs} {
		_, err := store.List(ctx, prefix, 0, func(v Value) error {
			o, ok := v.Object.(metav1.Object)
			if !ok || v.APIVersion != networkingv1.SchemeGroupVersion.String() && !upstream.WrittenByAPIServer(o) {
				return nil
			}
			upstream.Disown(o, v1alpha1.ManagerMigration)
			if writes = append(writes, Write{Key: v.Key, Guard: v.ModRevision, Object: v.Object, APIVersion: oldVersion}); len(writes) < chunkSize {
				return nil
			}
			full := writes
			writes = nil
			return do(full)
		})
		if err != nil {
			return err
		}
	}
	if len(writes) == 0 {
		return nil
	}
	return do(writes)
}
