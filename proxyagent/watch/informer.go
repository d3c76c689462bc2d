package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// change is one event. The zero T is an object that was not there before, or is not any more.
type change[T any] struct {
	old, new T
	// initial is true for what was there when the informer began.
	initial bool
}

// informer follows one kind and keeps values of type T of its objects.
type informer[T object] struct {
	kind   string
	shared cache.SharedIndexInformer
	// synced is done once everything that was there at the beginning went through changed.
	synced cache.DoneChecker
	// absent is closed once the API server said that it does not have the kind.
	absent chan struct{}
}

// newInformer wraps one of client-go, not yet started. It calls changed for one event at a time.
func newInformer[In runtime.Object, Out object](
	kind string, shared cache.SharedIndexInformer, convert func(In) (Out, malformed), changed func(change[Out]), r *reports,
) (*informer[Out], error) {
	i := &informer[Out]{kind: kind, shared: shared, absent: make(chan struct{})}
	markAbsent := sync.OnceFunc(func() { close(i.absent) })
	registration, err := shared.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { changed(change[Out]{new: obj.(Out), initial: initial}) },
		UpdateFunc: func(before, after any) { changed(change[Out]{old: before.(Out), new: after.(Out)}) },
		DeleteFunc: func(obj any) {
			if unseen, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unseen.Obj // what was known last; the deletion itself went unseen in an outage
			}
			if last, ok := obj.(Out); ok {
				r.found(kind, last.key(), malformed{})
				changed(change[Out]{old: last})
			}
		},
	})
	// A transform also gets its own results, which it returns unchanged.
	err = errors.Join(err, shared.SetTransform(func(obj any) (any, error) {
		in, ok := obj.(In)
		if !ok {
			return obj, nil
		}
		out, bad := convert(in)
		r.found(kind, out.key(), bad)
		return out, nil
	}), shared.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		r.failed(kind, err)
		if apierrors.IsNotFound(err) {
			markAbsent()
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("preparing to follow %s: %w", kind, err)
	}
	i.synced = registration.HasSyncedChecker()
	return i, nil
}

// get returns the object of a key; false when there is none.
func (i *informer[T]) get(key string) (found T, ok bool) {
	obj, ok, err := i.shared.GetStore().GetByKey(key)
	if err != nil || !ok {
		return found, false
	}
	return obj.(T), true
}

// batch is what has to be looked at again: names, not values.
type batch struct {
	services      map[model.ServiceName]struct{}
	allocations   map[netip.Addr]struct{}
	ranges, node  bool
	triggers      []time.Time
	serviceEvents int
	sliceEvents   int
}

func newBatch() batch {
	return batch{services: map[model.ServiceName]struct{}{}, allocations: map[netip.Addr]struct{}{}}
}

// pending gathers a batch. Before [pending.open] it neither wakes nor gives anything to take. Its
// methods may be called concurrently.
type pending struct {
	// wake holds a token, under mu, exactly while something is pending and it was not received yet.
	wake chan struct{}

	mu     sync.Mutex
	opened bool
	batch  batch
}

func newPending() *pending { return &pending{wake: make(chan struct{}, 1), batch: newBatch()} }

// mark adds to the batch.
func (p *pending) mark(add func(*batch)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add(&p.batch)
	if p.opened {
		p.ring()
	}
}

// open makes available what was gathered until now, and wakes also for an empty cluster.
func (p *pending) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = true
	p.ring()
}

// take returns the batch and begins a new one. It reports false as long as pending is closed.
func (p *pending) take() (batch, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.opened {
		return batch{}, false
	}
	taken := p.batch
	p.batch = newBatch()
	select {
	case <-p.wake:
	default:
	}
	return taken, true
}

func (p *pending) ring() {
	select {
	case p.wake <- struct{}{}:
	default: // there is a token already
	}
}

// repeatAfter passes before a failure is logged again: long outages stay visible, retries do not.
const repeatAfter = 5 * time.Minute

// reports logs failures and unusable objects, each once. Its methods may be called concurrently.
type reports struct {
	log logr.Logger

	mu        sync.Mutex
	malformed map[cache.ObjectName]string // by kind and key
	failures  map[string]failure
}

type failure struct {
	text string
	at   time.Time
}

func newReports(log logr.Logger) *reports {
	return &reports{log: log, malformed: map[cache.ObjectName]string{}, failures: map[string]failure{}}
}

// found logs what of an object cannot be used, once. It remembers only objects with such parts.
func (r *reports) found(kind, key string, bad malformed) {
	text, subject := bad.String(), cache.ObjectName{Namespace: kind, Name: key}
	r.mu.Lock()
	known := r.malformed[subject] == text
	model.Put(r.malformed, subject, text, text != "")
	r.mu.Unlock()
	if !known && text != "" {
		r.log.Info("Part of an object cannot be used and is left out", "kind", kind, "object", key, "left out", text)
	}
}

// failed logs that a kind cannot be read. The end of a watch that starts again is no failure.
func (r *reports) failed(kind string, err error) {
	if errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	switch missing := apierrors.IsNotFound(err); {
	case !r.isNews(kind, err.Error(), missing):
		r.log.V(1).Info("The API server still cannot be followed", "kind", kind, "error", err.Error())
	case missing:
		r.log.Info("The API server does not have this kind (Kubernetes 1.33 and later have all): what is known stays, and it is asked again", "kind", kind)
	default:
		r.log.Error(err, "The API server cannot be followed, trying again", "kind", kind)
	}
}

// isNews reports whether to log a failure: a new one, and an old one again unless once is enough.
func (r *reports) isNews(kind, text string, once bool) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	last, reported := r.failures[kind]
	if reported && last.text == text && (once || now.Sub(last.at) < repeatAfter) {
		return false
	}
	r.failures[kind] = failure{text: text, at: now}
	return true
}
