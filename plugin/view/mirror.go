package view

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/compact"
)

// mirror keeps all objects of a kind of which there may be a hundred thousand, each as the bytes by
// which API servers send it, without what is not read: a tenth of what it takes as an object, and
// nothing in it for the garbage collector to follow. Who reads one decodes it, in a microsecond.
//
// It is an informer as far as the address index asks for one. Its zero value keeps nothing.
type mirror[T any, P kept[T]] struct {
	cache.Informer // of which AddEventHandler is asked for alone
	resource       schema.GroupResource
	trim           toolscache.TransformFunc
	handler        toolscache.ResourceEventHandler
	synced         atomic.Bool
	listed         chan struct{} // closed when synced

	mu      sync.RWMutex
	objects map[types.NamespacedName]record
}

// kept is an object that can be kept.
type kept[T any] interface {
	*T
	client.Object
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// record is one object. pass is the listing that has shown it last.
type record struct {
	data []byte
	pass int
}

func newMirror[T any, P kept[T]](resource schema.GroupResource, trim toolscache.TransformFunc) *mirror[T, P] {
	return &mirror[T, P]{resource: resource, trim: trim, listed: make(chan struct{}), objects: map[types.NamespacedName]record{}}
}

// AddEventHandler implements cache.Informer, for one handler that comes before all objects.
func (m *mirror[T, P]) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	m.handler = h
	return registration{synced: m.synced.Load}, nil
}

// registration tells when the first listing has been handed to a handler.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
	synced func() bool
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (r registration) HasSynced() bool { return r.synced() }

// put keeps an object, as pass has shown it, and tells the handler if it is new or has changed: one
// that was deleted and created anew between two listings has changed, too. After a restore of etcd
// its resourceVersion may be that of the one before.
func (m *mirror[T, P]) put(o P, pass int) error {
	trimmed, err := m.trim(o)
	if err != nil {
		return err
	}
	o = compact.Expand(trimmed).(P) // Marshal is of the full object
	name := client.ObjectKeyFromObject(o)
	data, err := o.Marshal()
	if err != nil {
		return fmt.Errorf("keeping %s %s: %w", m.resource.Resource, name, err)
	}
	m.mu.Lock()
	before, known := m.objects[name]
	m.objects[name] = record{data, pass}
	m.mu.Unlock()
	if !known {
		m.handler.OnAdd(o, !m.synced.Load())
		return nil
	}
	if bytes.Equal(before.data, data) {
		return nil
	}
	was, err := m.decode(before.data)
	if err == nil {
		m.handler.OnUpdate(was, o)
	}
	return err
}

// drop forgets an object.
func (m *mirror[T, P]) drop(name types.NamespacedName) error {
	m.mu.Lock()
	before, known := m.objects[name]
	delete(m.objects, name)
	m.mu.Unlock()
	if !known {
		return nil
	}
	was, err := m.decode(before.data)
	if err == nil {
		m.handler.OnDelete(was)
	}
	return err
}

// complete ends a listing: what pass has not shown is gone.
func (m *mirror[T, P]) complete(pass int) error {
	for _, name := range m.names() {
		m.mu.RLock()
		one, known := m.objects[name]
		m.mu.RUnlock()
		if known && one.pass != pass {
			if err := m.drop(name); err != nil {
				return err
			}
		}
	}
	if !m.synced.Swap(true) {
		close(m.listed)
	}
	return nil
}

func (m *mirror[T, P]) decode(data []byte) (P, error) {
	o := P(new(T))
	if err := o.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("reading %s that were kept: %w", m.resource.Resource, err)
	}
	return o, nil
}

// get reads an object into the given one.
func (m *mirror[T, P]) get(name types.NamespacedName, into P) error {
	m.mu.RLock()
	one, known := m.objects[name]
	m.mu.RUnlock()
	if !known {
		return apierrors.NewNotFound(m.resource, name.Name)
	}
	o, err := m.decode(one.data)
	if err == nil {
		*into = *o
	}
	return err
}

func (m *mirror[T, P]) names() []types.NamespacedName {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Collect(maps.Keys(m.objects))
}

// each calls f for all objects, in no order, until it returns an error. f may keep them.
func (m *mirror[T, P]) each(ctx context.Context, f func(P) error) error {
	for _, name := range m.names() {
		o := P(new(T))
		err := m.get(name, o)
		if apierrors.IsNotFound(err) { // gone since
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = f(o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
