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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// kind has how to watch one kind of objects: In is the API's type, Out what is kept of it.
type kind[In runtime.Object, Out object] struct {
	name    string
	objects cache.ListerWatcher
	example In
	convert func(In) (Out, junk)
	index   cache.Indexers
	// changed is called for every event, one after the other.
	changed func(*informer[Out], change[Out])
	// failed is called when listing or watching failed; may be nil.
	failed func(error)
	resync time.Duration
}

// change is one event. The zero value of T stands for an object that was not there before, or is not there any more.
type change[T any] struct {
	old, new T
	// initial is true for what was there when the informer began.
	initial bool
}

// informer follows one kind.
type informer[T object] struct {
	shared cache.SharedIndexInformer
	// synced is closed once everything that was there at the beginning went through changed.
	synced <-chan struct{}
}

// newInformer returns an informer that was not started; run its shared part.
func newInformer[In runtime.Object, Out object](k kind[In, Out], r *reports) (*informer[Out], error) {
	if k.index == nil {
		k.index = cache.Indexers{}
	}
	i := &informer[Out]{shared: cache.NewSharedIndexInformer(k.objects, k.example, k.resync, k.index)}
	if err := i.shared.SetTransform(k.transform(r)); err != nil {
		return nil, fmt.Errorf("preparing to follow %s: %w", k.name, err)
	}
	if err := i.shared.SetWatchErrorHandlerWithContext(k.onError(r)); err != nil {
		return nil, fmt.Errorf("preparing to follow %s: %w", k.name, err)
	}
	registration, err := i.shared.AddEventHandler(k.handler(i, r))
	if err != nil {
		return nil, fmt.Errorf("preparing to follow %s: %w", k.name, err)
	}
	i.synced = registration.HasSyncedChecker().Done()
	return i, nil
}

// transform converts objects of the API server. It also gets its own results, which it returns unchanged.
func (k kind[In, Out]) transform(r *reports) cache.TransformFunc {
	return func(obj any) (any, error) {
		in, ok := obj.(In)
		if !ok {
			return obj, nil
		}
		out, j := k.convert(in)
		r.found(k.name, out.key(), j)
		return out, nil
	}
}

func (k kind[In, Out]) onError(r *reports) cache.WatchErrorHandlerWithContext {
	return func(_ context.Context, _ *cache.Reflector, err error) {
		r.failed(k.name, err)
		if k.failed != nil {
			k.failed(err)
		}
	}
}

func (k kind[In, Out]) handler(i *informer[Out], r *reports) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { k.changed(i, change[Out]{new: obj.(Out), initial: initial}) },
		UpdateFunc: func(before, after any) {
			k.changed(i, change[Out]{old: before.(Out), new: after.(Out)})
		},
		DeleteFunc: func(obj any) {
			if unseen, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unseen.Obj // what was known last; the deletion itself went unseen in an outage
			}
			if last, ok := obj.(Out); ok {
				r.gone(k.name, last.key())
				k.changed(i, change[Out]{old: last})
			}
		},
	}
}

// get returns the object of a key; false when there is none.
func (i *informer[T]) get(key string) (T, bool) {
	obj, ok, err := i.shared.GetStore().GetByKey(key)
	if err != nil || !ok {
		var none T
		return none, false
	}
	return obj.(T), true
}

// all returns all objects, in no order.
func (i *informer[T]) all() []T {
	stored := i.shared.GetStore().List()
	out := make([]T, 0, len(stored))
	for _, obj := range stored {
		out = append(out, obj.(T))
	}
	return out
}

// lister is what the typed clients of all kinds have in common.
type lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error)
}

// listWatch follows what a typed client lists, restricted by selectors. Empty selectors select everything.
func listWatch[L runtime.Object](client kubernetes.Interface, typed lister[L], labels, fields string) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.FieldSelector = labels, fields
			return typed.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector, o.FieldSelector = labels, fields
			return typed.Watch(ctx, o)
		},
	}, client)
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

// pending gathers a batch. Until [pending.open] it does not wake and nothing can be taken. Its methods may be called
// concurrently.
type pending struct {
	// wake holds a token when, and only when, something is pending and the token was not received yet. It is touched under mu.
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

// repeatAfter is the time after which the same failure is logged again, so that a long outage stays visible without a line for each retry.
const repeatAfter = 5 * time.Minute

// reports logs failures and unusable objects, each once. Its methods may be called concurrently.
type reports struct {
	log logr.Logger

	mu       sync.Mutex
	junk     map[subject]string
	failures map[string]failure
}

type subject struct{ kind, key string }

type failure struct {
	text string
	at   time.Time
}

func newReports(log logr.Logger) *reports {
	return &reports{log: log, junk: map[subject]string{}, failures: map[string]failure{}}
}

// found logs what of an object cannot be used, unless it was logged before. Only objects with junk are remembered.
func (r *reports) found(kind, key string, j junk) {
	text := j.String()
	r.mu.Lock()
	known := r.junk[subject{kind, key}] == text
	if text == "" {
		delete(r.junk, subject{kind, key})
	} else {
		r.junk[subject{kind, key}] = text
	}
	r.mu.Unlock()
	if !known && text != "" {
		r.log.Info("Part of an object cannot be used and is left out", "kind", kind, "object", key, "left out", text)
	}
}

// gone forgets an object.
func (r *reports) gone(kind, key string) { r.found(kind, key, junk{}) }

// failed logs that a kind cannot be read. The end of a watch that starts again is no failure.
func (r *reports) failed(what string, err error) {
	if err == nil || errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	if r.isNews(what, err.Error()) {
		r.log.Error(err, "The API server cannot be followed, trying again", "what", what)
	} else {
		r.log.V(1).Info("The API server still cannot be followed", "what", what, "error", err.Error())
	}
}

func (r *reports) isNews(what, text string) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	last, reported := r.failures[what]
	if reported && last.text == text && now.Sub(last.at) < repeatAfter {
		return false
	}
	r.failures[what] = failure{text: text, at: now}
	return true
}
