package migration

import (
	"bytes"
	"context"
	"fmt"
)

// Finalize saves the bitmaps in file and then deletes them, in one transaction that fails if one has changed in between. The
// caller has made sure that no API server writes them any more. Without bitmaps it does nothing.
func Finalize(ctx context.Context, s Sources, file string) (deleted []string, err error) {
	w, err := s.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var values []Value
	var writes []Write
	for _, b := range w.Bitmaps {
		v, err := s.Store.Get(ctx, b.Key)
		switch {
		case err != nil:
			return nil, err
		case v.ModRevision != b.ModRevision:
			return nil, fmt.Errorf("%s: %w; some API server still writes it", b.Key, ErrConflict)
		}
		values = append(values, v)
		writes = append(writes, Write{Key: b.Key, Guard: v.ModRevision, Delete: true})
		deleted = append(deleted, b.Key)
	}
	if len(writes) == 0 {
		return nil, nil
	}
	if err := newArchive(w, values).save(file); err != nil {
		return nil, err
	}
	if _, err := s.Store.Commit(ctx, writes); err != nil {
		return nil, fmt.Errorf("deleting the bitmaps: %w", err)
	}
	return deleted, nil
}

// Restore writes the values of an archive back, where there are none, all or nothing. A key that exists with another value is an
// error.
func Restore(ctx context.Context, s Sources, a Archive) (restored []string, err error) {
	w, err := s.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if w.Cluster != a.Cluster {
		return nil, fmt.Errorf("the archive is of cluster %s, this is %s (UIDs of namespace kube-system)", a.Cluster, w.Cluster)
	}
	writes, err := restoring(ctx, s.Store, a)
	if err != nil || len(writes) == 0 {
		return nil, err
	}
	if _, err := s.Store.Commit(ctx, writes); err != nil {
		return nil, fmt.Errorf("restoring the bitmaps: %w", err)
	}
	for _, w := range writes {
		restored = append(restored, w.Key)
	}
	return restored, nil
}

// restoring are the writes that are left to be done: none for a value that is there already.
func restoring(ctx context.Context, store Store, a Archive) (writes []Write, err error) {
	for _, k := range a.Keys {
		v, err := store.Get(ctx, k.Key)
		switch {
		case err != nil:
			return nil, err
		case !v.Exists():
			writes = append(writes, Write{Key: k.Key, Raw: k.Value})
		case !bytes.Equal(v.Raw, k.Value):
			return nil, fmt.Errorf("%s exists and holds another value; nothing was written", k.Key)
		}
	}
	return writes, nil
}
