package refusal

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

// wordsOfAPIServer is how much of an answer fits into the note of an event beside our own words.
const wordsOfAPIServer = 600

// Options of New.
type Options struct {
	// What the IPAddresses are written for: a metric label's value, and in the words of an event.
	What string
	// Remedy is what an admin can do, other than to allow it.
	Remedy string
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Board is told what is refused.
	Board *Board
	// Pace bounds the writes that are tried; nil for no bound.
	Pace flowcontrol.RateLimiter
}

// Client is a client for one loop that writes only IPAddresses. It is safe for concurrent use.
type Client struct {
	client.Client
	pace                   flowcontrol.RateLimiter
	create, remove, change *gate
}

// New returns a client that stops to create, to delete, or to change IPAddresses while the API
// server refuses that. Each of the three has a gate of its own.
func New(of client.Client, o Options) *Client {
	open := func(operation string) *gate {
		refused := metrics.WritesRefused.WithLabelValues(o.What, operation)
		refused.Set(0)
		return &gate{writes: "writes of IPAddresses (" + operation + ", for " + o.What + ")", clock: o.Clock, changed: func(closed bool, last error) {
			what := Refused{Operation: operation, For: o.What, Remedy: o.Remedy}
			if !closed {
				o.Board.set(what, false)
				refused.Set(0)
				log.Log.Info("The API server takes writes of IPAddresses again that it had refused", "operation", operation, "for", o.What)
				return
			}
			what.Said = wording.Cut(last.Error(), wordsOfAPIServer)
			o.Board.set(what, true)
			refused.Set(1)
			log.Log.Error(last, "The API server refuses writes of IPAddresses; one is tried from time to time", "operation", operation, "for", o.What, "longestPause", Pause)
			o.Events.Eventf(defaultRange(), nil, corev1.EventTypeWarning, "IPAddressWritesRefused", "Write", "The API server refuses to %s IPAddresses for %s, and is asked again after %s at most. "+
				"Allow it to the operator's ServiceAccount%s. It said: %s", operation, o.What, Pause, o.Remedy, what.Said)
		}}
	}
	return &Client{Client: of, pace: o.Pace, create: open("create"), remove: open("delete"), change: open("change")}
}

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	return c.try(ctx, c.create, o.GetName(), func() error { return c.Client.Create(ctx, o, options...) })
}

// Delete implements client.Client.
func (c *Client) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	return c.try(ctx, c.remove, o.GetName(), func() error { return c.Client.Delete(ctx, o, options...) })
}

// Patch implements client.Client.
func (c *Client) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	return c.try(ctx, c.change, o.GetName(), func() error { return c.Client.Patch(ctx, o, patch, options...) })
}

// Apply implements client.Client.
func (c *Client) Apply(ctx context.Context, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	var name string
	if named, ok := o.(interface{ GetName() *string }); ok && named.GetName() != nil {
		name = *named.GetName()
	}
	return c.try(ctx, c.change, name, func() error { return c.Client.Apply(ctx, o, options...) })
}

// try writes at the pace of the client. What is not tried costs nothing of that.
func (c *Client) try(ctx context.Context, g *gate, name string, write func() error) error {
	return g.try(name, func() error {
		if c.pace != nil {
			if err := c.pace.Wait(ctx); err != nil {
				return err // at shutdown
			}
		}
		return write()
	})
}

// Wait turns an error of a write that was not tried into another try when one may be. An error that
// has joined another failure with it stays one.
func Wait(result reconcile.Result, err error) (reconcile.Result, error) {
	if after, ok := untried(err); ok {
		return reconcile.Result{RequeueAfter: after}, nil
	}
	return result, err
}

// untried reports whether an error has only untried writes, and when the first may be tried.
func untried(err error) (after time.Duration, ok bool) {
	switch e := err.(type) { //nolint:errorlint // this is the walk that errors.As is
	case *Error:
		return e.After, true
	case interface{ Unwrap() error }:
		return untried(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			a, only := untried(one)
			if !only {
				return 0, false
			}
			if !ok || a < after {
				after, ok = a, true
			}
		}
		return after, ok
	default:
		return 0, false
	}
}

// defaultRange is the object of events that concern no single object.
func defaultRange() *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultServiceCIDR}}
}
