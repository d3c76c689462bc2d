package etcdstore

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// Commit writes all or nothing, in one transaction that holds only if all guards do, and returns its revision. What cannot be
// a transaction is refused before anything is sent. See [migration.Store].
//
// The transaction is sent again while etcd is away. That is safe, because the guards let it take effect once; and it is how a lost
// answer is found again: if the guards do not hold for a second attempt, Commit looks whether the first one is why. An error that is
// not ErrConflict says so if something may have been written in spite of it.
func (s *Store) Commit(ctx context.Context, writes []migration.Write) (int64, error) {
	t, err := s.newTransaction(writes)
	if err != nil {
		return 0, fmt.Errorf("refusing to write to etcd: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("writing %s: %w", t, err)
	}
	var answer *clientv3.TxnResponse
	lost := false // an answer
	err = s.ask(ctx, "writing "+t.String(), func(ctx context.Context) (err error) {
		answer, err = s.client.Txn(ctx).If(t.guards...).Then(t.changes...).Else(t.reads...).Commit()
		lost = lost || mayHaveArrived(err)
		return err
	})
	switch {
	case err != nil && lost:
		return 0, unknown(err)
	case err != nil:
		return 0, err
	case answer.Succeeded:
		return answer.Header.Revision, nil
	case lost:
		return s.judge(ctx, t, answer)
	}
	return 0, t.conflict(states(answer))
}

// unknown is the error of a Commit whose answer was lost for good.
func unknown(err error) error {
	return fmt.Errorf("it is not known whether this was written, look again: %w", err)
}

// mayHaveArrived reports whether a transaction may have taken effect though its sender got an error.
func mayHaveArrived(err error) bool {
	unsent := codeOf(err) == codes.Unavailable && strings.Contains(err.Error(), "Error while dialing")
	return err != nil && passing(err) && !unsent
}

// judge says what became of a transaction of which an answer was lost, and whose guards did not hold when it was sent again. Somebody
// else who wrote the same bytes counts as us.
func (s *Store) judge(ctx context.Context, t *transaction, answer *clientv3.TxnResponse) (int64, error) {
	now := states(answer)
	if t.cannotHaveHappened(now) {
		return 0, t.conflict(now)
	}
	if t.onlyDeletes() {
		return answer.Header.Revision, nil // all keys are gone, as we wanted it: there is no telling who did it, and no need to
	}
	for i, w := range t.writes {
		revision, err := s.find(ctx, w, now[i])
		if err != nil {
			return 0, unknown(err)
		}
		if revision != 0 {
			return revision, nil // all or nothing: one write proves the others
		}
	}
	return 0, t.conflict(now)
}

// find returns the revision at which what we put became the value of a key, 0 if it never did. It goes back in the history of the
// key from its present state to the guard: somebody may have changed again what we wrote.
func (s *Store) find(ctx context.Context, w write, now *mvccpb.KeyValue) (int64, error) {
	for kv := now; kv != nil && kv.ModRevision > w.guard && !w.remove; {
		if bytes.Equal(kv.Value, w.value) {
			return kv.ModRevision, nil
		}
		if kv.Version == 1 {
			return 0, nil // it was created so
		}
		before, err := s.get(ctx, "looking for what became of "+w.key, w.key, clientv3.WithRev(kv.ModRevision-1))
		if err != nil {
			return 0, err
		}
		kv = first(before.Kvs)
	}
	return 0, nil
}

// states returns the keys of a transaction as they were when its guards did not hold, nil for those that did not exist.
func states(answer *clientv3.TxnResponse) []*mvccpb.KeyValue {
	var now []*mvccpb.KeyValue
	for _, response := range answer.Responses {
		now = append(now, first(response.GetResponseRange().GetKvs()))
	}
	return now
}

func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}
