package view

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// source is where a mirror reads.
type source struct {
	live client.WithWatch
	list client.ObjectList // of the kind, to say which it is
	page int64
	// moment is the version of the first list, empty for the present one. The first watch begins some
	// time after other is closed, at once if it is nil.
	moment string
	other  <-chan struct{}
	// read is told of each page, failed of what went wrong.
	read   func(Page, int)
	failed func(error)
}

// place is how far a mirror has read.
type place struct {
	pass    int    // the listing that was begun last
	listed  bool   // one was complete
	version string // the last resourceVersion that was told; empty to list anew
	events  int    // how many the watches have told
}

// again is how long a mirror waits when the API server has ended a watch, and after a first error.
// Each further error doubles it up to mostAgain: an API server that is overloaded needs the time.
const again, mostAgain = time.Second, 30 * time.Second

// pauses are those after errors, one after the other. Consoles that lost a watch at one moment do
// not come back at one.
func pauses() wait.Backoff {
	return wait.Backoff{Duration: again, Factor: 2, Jitter: 0.2, Steps: 10, Cap: mostAgain}
}

// follow lists the kind and watches it until ctx ends. Where an API server was too busy or away, it
// watches on from where it was; after any other error it lists anew. It also lists anew when an API
// server that was away has come back with another past.
func (m *mirror[T, P]) follow(ctx context.Context, from source) {
	pause := pauses()
	for at := (place{}); ctx.Err() == nil; {
		before, sleep := at.events, again
		err := m.readOn(ctx, from, &at)
		if at.events > before {
			pause = pauses()
		}
		if err != nil {
			sleep = pause.Step()
			if !canWatchOn(err) {
				at.version = ""
			}
			// What is listed can be answered from, unless a permission is missing, which stays so.
			if !at.listed || apierrors.IsForbidden(err) {
				from.failed(err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(sleep):
		}
	}
}

// canWatchOn reports whether an error says nothing about the resourceVersion that was asked for.
func canWatchOn(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) { // also has the reason Timeout
		return false
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		utilnet.IsTimeout(err) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err)
}

// readOn reads from a place on until a watch ends.
func (m *mirror[T, P]) readOn(ctx context.Context, from source, at *place) (err error) {
	if at.version == "" {
		at.pass, at.version, err = m.listAll(ctx, from, at.pass)
		if err == nil && !at.listed {
			at.listed = true
			from.stay(ctx)
		}
	} else {
		err = m.samePast(ctx, from, at.version)
	}
	if err != nil {
		return err
	}
	return m.watch(ctx, from, at)
}

// samePast returns an error if the API server is at an earlier resourceVersion than the given one,
// which it has told before: its etcd was restored. It then takes the given one for a future one,
// and a watch from there tells nothing, not even an error.
func (m *mirror[T, P]) samePast(ctx context.Context, from source, version string) error {
	list := from.list.DeepCopyObject().(client.ObjectList)
	if err := from.live.List(ctx, list, client.Limit(1)); err != nil {
		return fmt.Errorf("asking for the version of %s: %w", m.resource.Resource, err)
	}
	return m.noEarlier(list.GetResourceVersion(), version)
}

// noEarlier returns an error if the API server tells an earlier version than it has told before.
func (m *mirror[T, P]) noEarlier(told, before string) error {
	if order, err := resourceversion.CompareResourceVersion(told, before); err == nil && order < 0 {
		return fmt.Errorf("the API server has gone back from version %s of %s to %s, as after a restore of etcd", before, m.resource.Resource, told)
	}
	return nil
}

// listAll reads all objects, and returns the resourceVersion that they show. pass is the last one
// that was begun: each attempt is another.
func (m *mirror[T, P]) listAll(ctx context.Context, from source, pass int) (last int, at string, err error) {
	before, list := pass, from.list.DeepCopyObject().(client.ObjectList)
	reader := &momentary{Reader: from.live}
	if !m.synced.Load() {
		reader.version = from.moment
	}
	err = Pages(ctx, reader, list, from.page, func(p Page) error {
		pass = before + p.Attempt
		err := meta.EachListItem(list, func(o runtime.Object) error { return m.put(o.(P), pass) })
		from.read(p, meta.LenList(list))
		return err
	})
	if err == nil {
		err = m.complete(pass)
	}
	if err != nil {
		return pass, "", fmt.Errorf("listing %s: %w", m.resource.Resource, err)
	}
	return pass, list.GetResourceVersion(), nil
}

// watch keeps what changes from a place on until the API server ends the watch. It moves the place.
func (m *mirror[T, P]) watch(ctx context.Context, from source, at *place) error {
	list := from.list.DeepCopyObject().(client.ObjectList)
	w, err := from.live.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: at.version, AllowWatchBookmarks: true}})
	if err != nil {
		return fmt.Errorf("watching %s: %w", m.resource.Resource, err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		o, known := e.Object.(P)
		if !known {
			return fmt.Errorf("watching %s: %w", m.resource.Resource, apierrors.FromObject(e.Object))
		}
		err := m.noEarlier(o.GetResourceVersion(), at.version)
		if err == nil {
			err = m.keep(e.Type, o, at.pass)
		}
		if err != nil {
			return err
		}
		at.version = o.GetResourceVersion()
		at.events++
	}
	return nil
}

// keep keeps what an event says.
func (m *mirror[T, P]) keep(event watch.EventType, o P, pass int) error {
	switch event {
	case watch.Added, watch.Modified:
		return m.put(o, pass)
	case watch.Deleted:
		return m.drop(client.ObjectKeyFromObject(o))
	}
	return nil
}
