package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// pageSize is how many keys List asks for at once, as many as an API server does.
const pageSize = 500

// Store reads and writes what an API server keeps in etcd. Its methods may be called concurrently.
type Store struct {
	client         *clientv3.Client
	keys           keys
	attemptTimeout time.Duration // for one attempt
	away           atomic.Bool   // it has been logged that etcd is away, and not yet that it is back
}

var _ migration.Store = (*Store)(nil)

// Open connects to etcd and returns when the first of its endpoints answers, or after ten seconds with what each of them says. All
// complaints about the configuration come at once. Open writes nothing and does not ask whether there is anything below
// the prefix.
func Open(ctx context.Context, c Config) (*Store, error) {
	trust, err := c.validate()
	if err != nil {
		return nil, err
	}
	client, err := dial(c.Endpoints, trust)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	s := &Store{client: client, keys: newKeys(c.prefix()), attemptTimeout: attemptTimeout}
	if err := s.knock(ctx, trust); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the connection. Whoever waits for an answer gets an error.
func (s *Store) Close() error {
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("closing the connection to etcd: %w", err)
	}
	return nil
}

// Revision returns the revision of etcd at this moment.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	answer, err := s.get(ctx, "reading the revision of etcd", string(s.keys), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return answer.Header.Revision, nil
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

// List visits all keys below a prefix, which is a folder: "services/specs" does not stand for services/specs2. See
// [migration.Store].
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

// get is a read of etcd that waits for an answer.
func (s *Store) get(ctx context.Context, what, key string, options ...clientv3.OpOption) (answer *clientv3.GetResponse, err error) {
	err = s.ask(ctx, what, func(ctx context.Context) (err error) {
		answer, err = s.client.Get(ctx, key, options...)
		return compacted(err)
	})
	return answer, err
}

// compacted translates etcd's word for a history that is gone.
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
