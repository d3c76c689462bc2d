package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

const (
	pageSize       = 500              // how many keys List asks for at once, as many as an API server does
	openTimeout    = 10 * time.Second // how long Open waits for the first endpoint to answer
	attemptTimeout = 10 * time.Second // how long one attempt may take: a frozen member keeps its connections open and says nothing
)

// Store reads and writes what an API server keeps in etcd. Its methods may be called concurrently.
type Store struct {
	client         *clientv3.Client
	keys           keys
	attemptTimeout time.Duration // for one attempt
	away           atomic.Bool   // it has been logged that etcd is away, and not yet that it is back
}

// Open connects to etcd and returns when the first endpoint answers, or after ten seconds with the
// reason. It writes nothing, and does not ask whether there is anything below the prefix.
func Open(ctx context.Context, c Config) (*Store, error) {
	client, err := c.dial()
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	s := &Store{client: client, keys: newKeys(c.Prefix), attemptTimeout: attemptTimeout}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if _, err := s.get(ctx, "connecting to etcd at "+strings.Join(c.Endpoints, ","), string(s.keys), clientv3.WithCountOnly()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the connection. Methods that wait for an answer return an error.
func (s *Store) Close() error {
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("closing the connection to etcd: %w", err)
	}
	return nil
}

// Get reads a key. A key that does not exist is a Value with ModRevision 0 and no error.
func (s *Store) Get(ctx context.Context, key string) (migration.Value, error) {
	key = s.keys.absolute(key)
	answer, err := s.get(ctx, "reading "+key, key)
	switch {
	case err != nil:
		return migration.Value{}, err
	case len(answer.Kvs) == 0:
		return migration.Value{Key: s.keys.relative(key)}, nil
	}
	return s.value(answer.Kvs[0]), nil
}

// List visits all keys of a folder: services/specs is not services/specs2. See [migration.Store].
func (s *Store) List(ctx context.Context, prefix string, at int64, visit func(migration.Value) error) (int64, error) {
	below := s.keys.below(prefix)
	end := clientv3.WithRange(clientv3.GetPrefixRangeEnd(below))
	for from := below; ; {
		page, err := s.get(ctx, "listing "+below, from, end, clientv3.WithLimit(pageSize), clientv3.WithRev(at))
		if err != nil {
			return 0, err
		}
		if at == 0 {
			at = page.Header.Revision
		}
		for _, kv := range page.Kvs {
			if err := visit(s.value(kv)); err != nil {
				return at, err
			}
		}
		if !page.More || len(page.Kvs) == 0 {
			return at, nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00" // the key that comes next after it in the order of bytes
	}
}

// Watch shows each change below a folder after a revision, until see returns an error, or ctx ends,
// which is one too. It survives that etcd is away, if etcd remembers what happened since.
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

// follow watches as long as the client can, and advances after. The client resumes after a lost
// connection; a member without a leader ends the watch: another is asked. refused is see's error.
func (s *Store) follow(ctx context.Context, below string, after *int64, see func(migration.Value) error) (refused, err error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for batch := range s.client.Watch(ctx, below, clientv3.WithPrefix(), clientv3.WithRev(*after+1), clientv3.WithProgressNotify()) {
		if err := batch.Err(); err != nil {
			return nil, compacted(err)
		}
		s.noticeBack(ctx)
		for _, event := range batch.Events {
			v := migration.Value{Key: s.keys.relative(string(event.Kv.Key)), ModRevision: event.Kv.ModRevision}
			if event.Type != clientv3.EventTypeDelete {
				v = s.value(event.Kv)
			}
			if refused := see(v); refused != nil {
				return refused, nil
			}
			*after = event.Kv.ModRevision
		}
		// A batch with changes has the store's revision, and more changes before that may be to come.
		if batch.IsProgressNotify() {
			*after = max(*after, batch.Header.Revision)
		}
	}
	return nil, status.Error(codes.Unavailable, "the watch ended")
}

func (s *Store) get(ctx context.Context, what, key string, options ...clientv3.OpOption) (answer *clientv3.GetResponse, err error) {
	err = s.ask(ctx, what, func(ctx context.Context) (err error) {
		answer, err = s.client.Get(ctx, key, options...)
		return compacted(err)
	})
	return answer, err
}

func compacted(err error) error {
	if errors.Is(err, rpctypes.ErrCompacted) {
		return migration.ErrCompacted
	}
	return err
}

// value decodes a key. An empty value is not nil: the key exists.
func (s *Store) value(kv *mvccpb.KeyValue) migration.Value {
	v := migration.Value{
		Key: s.keys.relative(string(kv.Key)), Raw: kv.Value,
		CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
	}
	if v.Raw == nil {
		v.Raw = []byte{}
	}
	if v.Object, v.APIVersion, v.Err = decode(v.Raw); v.Err != nil {
		return v
	}
	if m, err := meta.Accessor(v.Object); err == nil {
		m.SetResourceVersion(strconv.FormatInt(kv.ModRevision, 10))
	}
	return v
}

// ask puts a question to etcd until it is answered, be it with a refusal.
func (s *Store) ask(ctx context.Context, what string, question func(context.Context) error) error {
	for backoff := newBackoff(); ; {
		attempt, cancel := context.WithTimeout(ctx, s.attemptTimeout)
		err := question(attempt)
		cancel()
		if err == nil {
			s.noticeBack(ctx)
			return nil
		}
		if err := s.pause(ctx, backoff, what, err); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// newBackoff begins at a tenth of a second, the time of an election, and ends at two seconds.
func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 2 * time.Second}
}

// pause waits before the next attempt, and logs once for what. It returns an error if waiting is of
// no use: etcd has refused, or ctx or the store has ended.
func (s *Store) pause(ctx context.Context, backoff *wait.Backoff, what string, err error) error {
	switch {
	case s.client.Ctx().Err() != nil:
		return errors.New("the connection to etcd was closed")
	case ctx.Err() == nil && !passing(err):
		return err
	case ctx.Err() == nil && !s.away.Swap(true):
		klog.FromContext(ctx).Info("waiting for etcd", "endpoints", strings.Join(s.client.Endpoints(), ","), "to", what, "because", err.Error())
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w; the last that was heard of etcd: %w", context.Cause(ctx), err)
	case <-time.After(backoff.Step()):
		return nil
	}
}

func (s *Store) noticeBack(ctx context.Context) {
	if s.away.Load() && s.away.Swap(false) {
		klog.FromContext(ctx).Info("etcd answers again", "endpoints", strings.Join(s.client.Endpoints(), ","))
	}
}

// passing reports whether an error comes from etcd's momentary state, not from the request: asking
// again can help, and a write may have taken effect in spite of it.
func passing(err error) bool {
	momentary := []error{rpctypes.ErrTooManyRequests, rpctypes.ErrNotCapable, rpctypes.ErrNotLeader, rpctypes.ErrAuthOldRevision}
	lost := []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal} // Internal is a torn stream
	return slices.ContainsFunc(momentary, func(e error) bool { return errors.Is(err, e) }) || slices.Contains(lost, codeOf(err))
}

// codeOf returns the gRPC code of an error of the client, which comes in three forms.
func codeOf(err error) codes.Code {
	if known, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return known.Code()
	}
	if ended := status.FromContextError(err).Code(); ended != codes.Unknown {
		return ended
	}
	return status.Code(err)
}
