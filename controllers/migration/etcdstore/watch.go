package etcdstore

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// Watch shows each change below a prefix, which is a folder as in List, after a revision, until ctx ends, which it returns as an
// error, or see returns one. It survives that etcd is away, as long as etcd remembers what happened since.
func (s *Store) Watch(ctx context.Context, prefix string, after int64, see func(migration.Value) error) error {
	below, backoff := s.keys.below(prefix), newBackoff()
	for {
		before := after
		refused, err := s.follow(ctx, below, &after, see)
		if refused != nil {
			return refused
		}
		if after > before {
			backoff = newBackoff() // it was well in between
		}
		if err := s.pause(ctx, backoff, "watching "+below, err); err != nil {
			return fmt.Errorf("watching %s after revision %d: %w", below, after, err)
		}
	}
}

// follow watches as long as the client can, and moves after on. The client itself resumes after a lost connection; a member that has
// lost its leader ends the watch, so that another one is asked. refused is the error of see.
func (s *Store) follow(ctx context.Context, below string, after *int64, see func(migration.Value) error) (refused, err error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for batch := range s.client.Watch(ctx, below, clientv3.WithPrefix(), clientv3.WithRev(*after+1), clientv3.WithProgressNotify()) {
		if err := batch.Err(); err != nil {
			return nil, compacted(err)
		}
		s.noticeBack(ctx)
		for _, event := range batch.Events {
			if refused := see(s.change(event)); refused != nil {
				return refused, nil
			}
			*after = event.Kv.ModRevision
		}
		// The revision of a batch with changes is that of the store, and there may be more to come before it.
		if batch.IsProgressNotify() {
			*after = max(*after, batch.Header.Revision)
		}
	}
	return nil, status.Error(codes.Unavailable, "the watch ended")
}

// change is what a watch shows of an event. A key that was deleted has no value.
func (s *Store) change(event *clientv3.Event) migration.Value {
	if event.Type == clientv3.EventTypeDelete {
		return migration.Value{Key: s.keys.relative(string(event.Kv.Key)), ModRevision: event.Kv.ModRevision}
	}
	return s.value(event.Kv)
}
