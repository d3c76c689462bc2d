package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// Commit writes all or nothing in one transaction, and returns its revision. See [migration.Store].
//
// While etcd is away the transaction is sent again. That is safe, because the guards let it take
// effect once. If they do not hold for a second attempt, Commit looks whether the first, whose
// answer was lost, is why. An error other than ErrConflict says if something may have been written.
func (s *Store) Commit(ctx context.Context, writes []migration.Write) (int64, error) {
	writes = slices.Clone(writes)
	for i := range writes {
		if err := errors.Join(s.prepare(&writes[i]), ctx.Err()); err != nil {
			return 0, fmt.Errorf("writing to etcd: %w", err)
		}
	}
	guards, changes, reads := operations(writes)
	var answer *clientv3.TxnResponse
	lost := false // an answer
	err := s.ask(ctx, "writing to etcd", func(ctx context.Context) (err error) {
		sent := new(atomic.Bool)
		answer, err = s.client.Txn(context.WithValue(ctx, sentKey{}, sent)).If(guards...).Then(changes...).Else(reads...).Commit()
		lost = lost || err != nil && passing(err) && sent.Load() // it may have taken effect
		return err
	})
	switch {
	case err != nil && lost:
		return 0, unknown(err)
	case err != nil:
		return 0, err
	case answer.Succeeded:
		return answer.Header.Revision, nil
	}
	now := make([]*mvccpb.KeyValue, len(writes)) // nil for those that do not exist
	for i, response := range answer.Responses {
		now[i] = first(response.GetResponseRange().GetKvs())
	}
	if lost {
		return s.judge(ctx, writes, now, answer.Header.Revision)
	}
	return 0, conflict(writes, now)
}

// prepare gives a write the key and the bytes as etcd has them.
func (s *Store) prepare(w *migration.Write) (err error) {
	w.Key = s.keys.absolute(w.Key)
	if w.Object != nil {
		w.Raw, err = encode(w.Object, w.APIVersion)
	} else if w.Raw == nil && !w.Delete {
		err = errors.New("there is nothing to write")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", w.Key, err)
	}
	return nil
}

// operations are the parts of a transaction, in the order of its writes. reads tell why a guard did
// not hold.
func operations(writes []migration.Write) (guards []clientv3.Cmp, changes, reads []clientv3.Op) {
	for _, w := range writes {
		change := clientv3.OpPut(w.Key, string(w.Raw))
		if w.Delete {
			change = clientv3.OpDelete(w.Key)
		}
		guards = append(guards, clientv3.Compare(clientv3.ModRevision(w.Key), "=", w.Guard)) // 0 for a key that does not exist
		changes, reads = append(changes, change), append(reads, clientv3.OpGet(w.Key))
	}
	return guards, changes, reads
}

// unknown is the error of a Commit whose answer was lost for good.
func unknown(err error) error {
	return fmt.Errorf("it is not known whether this was written, look again: %w", err)
}

// conflict is ErrConflict with the first key whose guard did not hold.
func conflict(writes []migration.Write, now []*mvccpb.KeyValue) error {
	for i, w := range writes {
		if is := now[i].GetModRevision(); is != w.Guard {
			return fmt.Errorf("writing %s: %w: it is at revision %d, not at %d (0 is for a key that does not exist)", w.Key, migration.ErrConflict, is, w.Guard)
		}
	}
	return migration.ErrConflict
}

// judge says what became of a transaction whose answer was lost, and whose guards did not hold when
// it was sent again. Another writer that wrote the same bytes counts as us.
func (s *Store) judge(ctx context.Context, writes []migration.Write, now []*mvccpb.KeyValue, revision int64) (int64, error) {
	for i, w := range writes {
		if kv := now[i]; kv != nil && (kv.ModRevision == w.Guard || w.Delete && kv.CreateRevision <= w.Guard) {
			return 0, conflict(writes, now) // it is as it was before, or was to be deleted and never was
		}
	}
	if !slices.ContainsFunc(writes, func(w migration.Write) bool { return !w.Delete }) {
		return revision, nil // all keys are gone, as we wanted it: there is no telling who did it, and no need to
	}
	for i, w := range writes {
		revision, err := s.find(ctx, w, now[i])
		if err != nil {
			return 0, unknown(err)
		}
		if revision != 0 {
			return revision, nil // all or nothing: one write proves the others
		}
	}
	return 0, conflict(writes, now)
}

// find returns the revision at which our value became that of a key, 0 if it never did. It goes
// back in the key's history to the guard: another writer may have changed again what we wrote.
func (s *Store) find(ctx context.Context, w migration.Write, now *mvccpb.KeyValue) (int64, error) {
	for kv := now; kv != nil && kv.ModRevision > w.Guard && !w.Delete; {
		if bytes.Equal(kv.Value, w.Raw) {
			return kv.ModRevision, nil
		}
		if kv.Version == 1 {
			return 0, nil // it was created so
		}
		before, err := s.get(ctx, "looking for what became of "+w.Key, w.Key, clientv3.WithRev(kv.ModRevision-1))
		if err != nil {
			return 0, err
		}
		kv = first(before.Kvs)
	}
	return 0, nil
}

func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}
