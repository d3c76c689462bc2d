package replicas

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store is where the replicas meet. A write is refused if the Lease is not the one, in UID and version, that was seen; the protocol
// stands on that. A delete without a version is for any.
type store interface {
	// list returns all Leases as they are at some moment between call and return.
	list(ctx context.Context) ([]lease, error)
	create(ctx context.Context, l lease) (lease, error)
	update(ctx context.Context, l lease) (lease, error)
	remove(ctx context.Context, l lease) error
	// follow calls each time that a Lease has appeared, gone or changed, until the API server ends it, which is no error. It may miss
	// changes.
	follow(ctx context.Context, changed func(l lease, gone bool)) error
}

// brief is what no watch is that the API server meant to serve.
const brief = time.Second

var errBrief = errors.New("the watch of the Leases of replicas ended as soon as it began")

// server is the store at the API server.
type server struct {
	client    client.WithWatch
	namespace string
	clock     clock.PassiveClock
}

var _ store = server{}

func (s server) which() []client.ListOption {
	return []client.ListOption{client.InNamespace(s.namespace), client.MatchingLabels{Label: LabelValue}}
}

// list asks for the latest, not for what a cache of the API server happens to have: that is what no resource version means.
func (s server) list(ctx context.Context) ([]lease, error) {
	var objects coordinationv1.LeaseList
	if err := s.client.List(ctx, &objects, s.which()...); err != nil {
		return nil, fmt.Errorf("listing the Leases of replicas: %w", err)
	}
	leases := make([]lease, 0, len(objects.Items))
	for i := range objects.Items {
		if l, ok := parse(&objects.Items[i]); ok {
			leases = append(leases, l)
		}
	}
	return leases, nil
}

func (s server) create(ctx context.Context, l lease) (lease, error) {
	o := l.object(s.namespace, s.clock.Now())
	if err := s.client.Create(ctx, o); err != nil {
		return lease{}, fmt.Errorf("creating %s: %w", l, err)
	}
	return s.answered(o)
}

func (s server) update(ctx context.Context, l lease) (lease, error) {
	o := l.object(s.namespace, s.clock.Now())
	if err := s.client.Update(ctx, o); err != nil {
		return lease{}, fmt.Errorf("renewing %s: %w", l, err)
	}
	return s.answered(o)
}

func (s server) answered(o *coordinationv1.Lease) (lease, error) {
	l, ok := parse(o)
	if !ok {
		return lease{}, fmt.Errorf("the API server answered with a Lease named %q", o.Name)
	}
	return l, nil
}

func (s server) remove(ctx context.Context, l lease) error {
	o := l.object(s.namespace, s.clock.Now())
	only := client.Preconditions{UID: &l.uid}
	if l.version != "" {
		only.ResourceVersion = &l.version
	}
	if err := s.client.Delete(ctx, o, only); err != nil {
		return fmt.Errorf("deleting %s: %w", l, err)
	}
	return nil
}

func (s server) follow(ctx context.Context, changed func(l lease, gone bool)) error {
	w, err := s.client.Watch(ctx, &coordinationv1.LeaseList{}, s.which()...)
	if err != nil {
		return fmt.Errorf("watching the Leases of replicas: %w", err)
	}
	defer w.Stop()
	began := s.clock.Now()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return fmt.Errorf("watching the Leases of replicas: %w", errorOf(event.Object))
		}
		if o, ok := event.Object.(*coordinationv1.Lease); ok {
			if l, ours := parse(o); ours {
				changed(l, event.Type == watch.Deleted)
			}
		}
	}
	if s.clock.Since(began) < brief {
		return errBrief
	}
	return nil
}

func errorOf(object any) error {
	if status, ok := object.(*metav1.Status); ok {
		return fmt.Errorf("%s: %s", status.Reason, status.Message)
	}
	return fmt.Errorf("unexpected %T", object)
}
