package view

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// source is where a mirror reads.
type source struct {
	live client.WithWatch
	list client.ObjectList // of the kind, to say which it is
	page int64
	// read is told of each page, failed of what went wrong.
	read   func(Page, int)
	failed func(error)
}

// again is how long a mirror waits when the API server did not answer, or has ended a watch.
const again = time.Second

// follow lists the kind and watches it until ctx ends. After any error it lists anew: an API server
// that was away may have come back with another past.
func (m *mirror[T, P]) follow(ctx context.Context, from source) {
	for pass, at := 0, ""; ctx.Err() == nil; {
		var err error
		if at == "" {
			pass, at, err = m.listAll(ctx, from, pass)
		}
		if err == nil {
			at, err = m.watch(ctx, from, at, pass)
		}
		if err != nil {
			at = ""
			from.failed(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// listAll reads all objects, and returns the resourceVersion that they show. pass is the last one
// that was begun: each attempt is another.
func (m *mirror[T, P]) listAll(ctx context.Context, from source, pass int) (last int, at string, err error) {
	before, list := pass, from.list.DeepCopyObject().(client.ObjectList)
	err = Pages(ctx, from.live, list, from.page, func(p Page) error {
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

// watch keeps what changes since a resourceVersion until the API server ends the watch, and returns
// the last resourceVersion that it has told.
func (m *mirror[T, P]) watch(ctx context.Context, from source, at string, pass int) (string, error) {
	list := from.list.DeepCopyObject().(client.ObjectList)
	w, err := from.live.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: at, AllowWatchBookmarks: true}})
	if err != nil {
		return "", fmt.Errorf("watching %s: %w", m.resource.Resource, err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		o, known := e.Object.(P)
		if !known {
			return "", fmt.Errorf("watching %s: %w", m.resource.Resource, apierrors.FromObject(e.Object))
		}
		at = o.GetResourceVersion()
		switch e.Type {
		case watch.Added, watch.Modified:
			err = m.put(o, pass)
		case watch.Deleted:
			err = m.drop(client.ObjectKeyFromObject(o))
		}
		if err != nil {
			return "", err
		}
	}
	return at, nil
}
