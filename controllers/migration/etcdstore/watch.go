package etcdstore

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// errEnded says that a watch ended without a reason.
var errEnded = status.Error(codes.Unavailable, "the watch ended")

// Watch shows each change below a prefix, which is a folder as in List, after a revision, until ctx ends, which it returns as an
// error, or see returns one. It survives that etcd is away, as long as etcd remembers what happened since.
func (s *Store) Watch(ctx context.Context, prefix string, after int64, see func(migration.Value) error) error {
	w := &watch{store: s, below: s.keys.below(prefix), last: after, see: see}
	backoff := newBackoff()
	for {
		before := w.last
		err := w.follow(ctx)
		switch {
		case w.refused:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("watching %s: %w", w.below, context.Cause(ctx))
		case !passing(err):
			return fmt.Errorf("watching %s after revision %d: %w", w.below, w.last, err)
		case w.last > before:
			backoff = newBackoff() // it was well in between
		}
		if err := s.notice(ctx, "watching "+w.below, err); err != nil {
			return fmt.Errorf("watching %s: %w", w.below, err)
		}
		_ = pause(ctx, backoff.Step()) // if ctx ends, the next look says so
	}
}

// watch is one Watch with how far it has come.
type watch struct {
	store *Store
	below string
	see   func(migration.Value) error
	// last is the revision up to which everything has been seen.
	last int64
	// refused says that the error is that of see.
	refused bool
}

// follow watches as long as the client can. The client itself resumes after a lost connection; a member that has lost its leader ends
// the watch, so that another one is asked.
func (w *watch) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for batch := range w.store.client.Watch(ctx, w.below, clientv3.WithPrefix(), clientv3.WithRev(w.last+1), clientv3.WithProgressNotify()) {
		if err := batch.Err(); err != nil {
			return compacted(err)
		}
		w.store.noticeBack(ctx)
		if err := w.show(batch); err != nil {
			w.refused = true
			return err
		}
	}
	return errEnded
}

// show hands on the changes of one batch. Only a batch without changes tells how far etcd has come: the revision of others is that of
// the store, and there may be more to come before it.
func (w *watch) show(batch clientv3.WatchResponse) error {
	for _, event := range batch.Events {
		if err := w.see(w.store.change(event)); err != nil {
			return err
		}
		w.last = event.Kv.ModRevision
	}
	if batch.IsProgressNotify() {
		w.last = max(w.last, batch.Header.Revision)
	}
	return nil
}

// change is what a watch shows of an event. A key that was deleted has no value.
func (s *Store) change(event *clientv3.Event) migration.Value {
	if event.Type == clientv3.EventTypeDelete {
		return migration.Value{Key: s.keys.relative(string(event.Kv.Key)), ModRevision: event.Kv.ModRevision}
	}
	return s.value(event.Kv)
}
