package seed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an object as kube-apiserver stores it under a key. Without a Value it is deleted.
type Object struct {
	Key   string
	Kind  schema.GroupVersionKind
	Value runtime.Object
}

// Objects writes objects of any of kube-apiserver's own kinds to etcd. Make one with Open; it is
// safe for concurrent use.
type Objects struct{ etcd *clientv3.Client }

// Open connects to etcd at a URL.
func Open(ctx context.Context, url string) (*Objects, error) {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: 10 * time.Second, Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	return &Objects{etcd}, nil
}

// Close ends the connection. That of a context which has ended is closed already.
func (o *Objects) Close() error {
	if err := o.etcd.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Write writes the objects from to to-1, pace a second, each in a revision of its own.
func (o *Objects) Write(ctx context.Context, from, to, pace int, object func(i int) Object) error {
	return paced(ctx, o.etcd, from, to, pace, func(i int) (clientv3.Op, error) { return object(i).op() })
}

func (o Object) op() (clientv3.Op, error) {
	if o.Value == nil {
		return clientv3.OpDelete(o.Key), nil
	}
	return put(o.Key, o.Kind, o.Value)
}

// Address is the i-th of a walk over the dynamic band of a prefix, as the copies have theirs.
func Address(prefix netip.Prefix, i int) netip.Addr { return scatter(prefix, i) }

// paced writes each in a revision of its own. In faster transactions they would share one
// resourceVersion: a watch that is taken up again behind one of them would miss the rest.
func paced(ctx context.Context, etcd *clientv3.Client, from, to, pace int, one func(i int) (clientv3.Op, error)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	start := time.Now()
	for i := from; i < to && ctx.Err() == nil; i++ {
		if pace > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i-from) * time.Second / time.Duration(pace))))
		}
		group.Go(func() error {
			op, err := one(i)
			if err != nil {
				return err
			}
			if _, err := etcd.Do(ctx, op); err != nil {
				return fmt.Errorf("writing object %d to etcd: %w", i, err)
			}
			return nil
		})
	}
	return group.Wait()
}
