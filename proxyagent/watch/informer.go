package watch

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// kind says how to follow one kind of objects: In is the API's type, Out what is kept of it.
type kind[In runtime.Object, Out object] struct {
	name    string
	objects cache.ListerWatcher
	example In
	convert func(In) (Out, junk)
	index   cache.Indexers
	// changed is called for every event, one after the other.
	changed func(*informer[Out], change[Out])
	// failed is called when listing or watching failed; nil when nobody wants to know.
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

// transform converts what comes from the API server. It meets its own results again, and lets them pass.
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
