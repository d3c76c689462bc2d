package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

const (
	chunkSize = MaxWrites - 1 // IPAddresses in one transaction; there is a note with them
	// prefixNotes is where the notes are. No API server meets them, for none serves such a group.
	prefixNotes = v1alpha1.Prefix + "/seeded/"
)

// note names the IPAddresses of one transaction, which have its revision until they are changed.
type note struct {
	Addresses []string `json:"addresses"`
}

// storeWriter carries out steps in etcd; see apiWriter.
type storeWriter Sources

// applyToStore carries out steps: creations many in a transaction, or singly if some exist already.
func (r Runner) applyToStore(ctx context.Context, steps []Step) (written int, err error) {
	if len(steps) == 0 {
		return 0, nil
	}
	r.Progress.Begin(writing, len(steps))
	defer r.Progress.End()
	w := storeWriter(r.Sources)
	creates := func(s Step) bool { return s.Do == CreateIPAddress }
	for chunk := range slices.Chunk(steps, chunkSize) {
		single := slices.DeleteFunc(slices.Clone(chunk), creates)
		switch err := w.create(ctx, slices.DeleteFunc(slices.Clone(chunk), func(s Step) bool { return !creates(s) })); {
		case errors.Is(err, ErrConflict):
			single = chunk
		case err != nil:
			return written, err
		default:
			written += len(chunk) - len(single)
		}
		for _, s := range single {
			switch err := w.apply(ctx, s); {
			case err == nil:
				written++
			case !errors.Is(err, batch.ErrMoved):
				return written, fmt.Errorf("%s %s: %w", s.Do, s.What(), err)
			}
		}
		r.Progress.Done(len(chunk))
	}
	return written, nil
}

func (w storeWriter) create(ctx context.Context, steps []Step) error {
	if len(steps) == 0 {
		return nil
	}
	var n note
	var writes []Write
	for _, s := range steps {
		writes = append(writes, Write{Key: keyOfIPAddress(s), Object: w.object(s)})
		n.Addresses = append(n.Addresses, s.Address.String())
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = w.Store.Commit(ctx, append(writes, Write{Key: prefixNotes + string(uuid.NewUUID()), Raw: text}))
	return err
}

func (w storeWriter) apply(ctx context.Context, s Step) error {
	var err error
	switch s.Do {
	case CreateIPAddress:
		err = w.create(ctx, []Step{s})
	case DeleteIPAddress:
		_, err = w.Store.Commit(ctx, []Write{{Key: keyOfIPAddress(s), Guard: s.revision(), Delete: true}})
	case ReplaceIPAddress:
		_, err = w.Store.Commit(ctx, []Write{{Key: keyOfIPAddress(s), Guard: s.revision(), Object: w.object(s)}})
	case RelabelIPAddress:
		err = w.relabel(ctx, s)
	default:
		return fmt.Errorf("%q is not done in etcd", s.Do)
	}
	if errors.Is(err, ErrConflict) {
		return batch.ErrMoved
	}
	return err
}

func (w storeWriter) relabel(ctx context.Context, s Step) error {
	v, err := w.Store.Get(ctx, keyOfIPAddress(s))
	if err != nil {
		return err
	}
	ip, ok := v.Object.(*networkingv1.IPAddress)
	if !ok || v.ModRevision != s.revision() {
		return batch.ErrMoved
	}
	if ip.Labels == nil {
		ip.Labels = map[string]string{}
	}
	maps.Copy(ip.Labels, upstream.Labels(s.Address))
	_, err = w.Store.Commit(ctx, []Write{{Key: v.Key, Guard: v.ModRevision, Object: ip, APIVersion: v.APIVersion}})
	return err
}

func (w storeWriter) object(s Step) *networkingv1.IPAddress {
	now := metav1.NewTime(w.Clock.Now().Truncate(time.Second))
	ip := s.ipAddress()
	ip.UID, ip.CreationTimestamp = uuid.NewUUID(), now
	ip.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.ManagerMigration, Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: networkingv1.SchemeGroupVersion.String(), Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(ownedFields),
	}}
	return ip
}

// ownedFields are the fields of an IPAddress of the allocator, as server-side apply writes them.
const ownedFields = `{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},` +
	`"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}`

func keyOfIPAddress(s Step) string { return prefixIPAddresses + s.Address.String() }

// Unseeded is what became of an Unseed.
type Unseeded struct {
	Deleted []string // addresses whose IPAddress was written by a seed and is gone now, or would be
	Kept    []string // those that another writer has changed or written anew since
}

// Unseed deletes the IPAddresses that were seeded and have not changed since: such an object still
// has the revision of the note that was written with it. With dryRun nothing is deleted.
func Unseed(ctx context.Context, store Store, dryRun bool) (u Unseeded, err error) {
	notes, err := notesOf(ctx, store)
	for _, n := range notes {
		if err := u.undo(ctx, store, n, dryRun); err != nil {
			return u, fmt.Errorf("undoing %s: %w", n.Key, err)
		}
	}
	return u, err
}

func notesOf(ctx context.Context, store Store) (notes []Value, err error) {
	if _, err = store.List(ctx, prefixNotes, 0, func(v Value) error { notes = append(notes, v); return nil }); err != nil {
		return nil, fmt.Errorf("reading what was seeded: %w", err)
	}
	return notes, nil
}

// Forget deletes the notes of a seed and returns their number; nothing can be unseeded any more.
func Forget(ctx context.Context, store Store) (int, error) {
	notes, err := notesOf(ctx, store)
	if err != nil {
		return 0, err
	}
	var writes []Write
	for _, v := range notes {
		writes = append(writes, Write{Key: v.Key, Guard: v.ModRevision, Delete: true})
	}
	for chunk := range slices.Chunk(writes, MaxWrites) {
		if err := commitEach(ctx, store, chunk); err != nil {
			return 0, fmt.Errorf("deleting the notes of a seed: %w", err)
		}
	}
	return len(notes), nil
}

// undo takes back one transaction in another. If an object changes in between, it looks again.
func (u *Unseeded) undo(ctx context.Context, store Store, v Value, dryRun bool) error {
	var n note
	if err := json.Unmarshal(v.Raw, &n); err != nil {
		return fmt.Errorf("reading the note: %w", err)
	}
	for {
		writes, kept, gone := []Write{{Key: v.Key, Guard: v.ModRevision, Delete: true}}, []string(nil), []string(nil)
		for _, address := range n.Addresses {
			ip, err := store.Get(ctx, prefixIPAddresses+address)
			switch {
			case err != nil:
				return err
			case ip.ModRevision == v.CreateRevision:
				writes, gone = append(writes, Write{Key: ip.Key, Guard: ip.ModRevision, Delete: true}), append(gone, address)
			case ip.Exists():
				kept = append(kept, address)
			}
		}
		var err error
		if !dryRun {
			_, err = store.Commit(ctx, writes)
		}
		if err == nil {
			u.Deleted, u.Kept = append(u.Deleted, gone...), append(u.Kept, kept...)
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if again, err := store.Get(ctx, v.Key); err != nil || !again.Exists() {
			return err // another unseed was faster
		}
	}
}

// commitEach commits writes together, or singly if some keys have changed, which it leaves alone.
func commitEach(ctx context.Context, store Store, writes []Write) error {
	_, err := store.Commit(ctx, writes)
	if !errors.Is(err, ErrConflict) {
		return err
	}
	for _, w := range writes {
		if _, err := store.Commit(ctx, []Write{w}); err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return nil
}
