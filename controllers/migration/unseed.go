package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Unseeded is what became of an Unseed.
type Unseeded struct {
	// Deleted are the addresses whose IPAddress was written by a seed and is gone now, or would be.
	Deleted []string
	// Kept are those that somebody has changed or written anew since.
	Kept []string
}

// Unseed deletes the IPAddresses that were seeded, and of those only what nobody has changed since: such an object still has
// the revision of the note that was written with it. With dryRun nothing is deleted.
func Unseed(ctx context.Context, store Store, dryRun bool) (Unseeded, error) {
	var notes []Value
	_, err := store.List(ctx, prefixNotes, 0, func(v Value) error {
		notes = append(notes, v)
		return nil
	})
	if err != nil {
		return Unseeded{}, fmt.Errorf("reading what was seeded: %w", err)
	}
	var u Unseeded
	for _, n := range notes {
		if err := u.undo(ctx, store, n, dryRun); err != nil {
			return u, fmt.Errorf("undoing %s: %w", n.Key, err)
		}
	}
	return u, nil
}

// Forget deletes the notes of a seed, so that nothing can be unseeded any more, and returns how many there were.
func Forget(ctx context.Context, store Store) (int, error) {
	var writes []Write
	_, err := store.List(ctx, prefixNotes, 0, func(v Value) error {
		writes = append(writes, Write{Key: v.Key, Guard: v.ModRevision, Delete: true})
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reading the notes of a seed: %w", err)
	}
	for chunk := range slices.Chunk(writes, MaxWrites) {
		if err := commitEach(ctx, store, chunk); err != nil {
			return 0, fmt.Errorf("deleting the notes of a seed: %w", err)
		}
	}
	return len(writes), nil
}

// undo takes back one transaction in another one. If an object changes in between, it is looked at again.
func (u *Unseeded) undo(ctx context.Context, store Store, v Value, dryRun bool) error {
	var n note
	if err := json.Unmarshal(v.Raw, &n); err != nil {
		return fmt.Errorf("reading the note: %w", err)
	}
	for {
		writes, kept, gone, err := undoing(ctx, store, v, n)
		if err != nil {
			return err
		}
		if !dryRun {
			_, err = store.Commit(ctx, writes)
		}
		switch {
		case errors.Is(err, ErrConflict):
			if again, err := store.Get(ctx, v.Key); err != nil || !again.Exists() {
				return err // somebody else has undone it
			}
			continue
		case err == nil:
			u.Deleted, u.Kept = append(u.Deleted, gone...), append(u.Kept, kept...)
		}
		return err
	}
}

// undoing are the writes that delete a note and what is left of its objects.
func undoing(ctx context.Context, store Store, v Value, n note) (writes []Write, kept, gone []string, err error) {
	writes = []Write{{Key: v.Key, Guard: v.ModRevision, Delete: true}}
	for _, address := range n.Addresses {
		ip, err := store.Get(ctx, prefixIPAddresses+address)
		switch {
		case err != nil:
			return nil, nil, nil, err
		case !ip.Exists():
		case ip.ModRevision == v.CreateRevision:
			writes = append(writes, Write{Key: ip.Key, Guard: ip.ModRevision, Delete: true})
			gone = append(gone, address)
		default:
			kept = append(kept, address)
		}
	}
	return writes, kept, gone, nil
}
