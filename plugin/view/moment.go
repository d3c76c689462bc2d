package view

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// still is how long Services and IPAddresses stay as the first lists have shown them: a command
// that reads them once is done by then. What has changed since comes all at once after it, and one
// of the two kinds may then be seconds ahead of the other for a while.
const still = 2 * time.Second

// followTogether follows Services and IPAddresses from one moment. Lists of a hundred thousand end
// seconds apart, and of two moments a Service created in between would seem to lack its IPAddress.
func (v *View) followTogether(ctx context.Context, c Cluster) {
	services, addresses := c.source(&corev1.ServiceList{}, v), c.source(&networkingv1.IPAddressList{}, v)
	services.moment = c.moment(ctx)
	addresses.moment = services.moment
	services.other, addresses.other = v.cache.addresses.listed, v.cache.services.listed
	go v.cache.services.follow(ctx, services)
	go v.cache.addresses.follow(ctx, addresses)
}

// moment is a resourceVersion at which both Services and IPAddresses can be listed; empty if there
// is none, since the API server keeps them in two etcds: what one etcd tells only grows. A list
// says what is wrong if the API server does not answer.
func (c Cluster) moment(ctx context.Context) string {
	var told [3]string
	for i, list := range []client.ObjectList{&corev1.ServiceList{}, &networkingv1.IPAddressList{}, &corev1.ServiceList{}} {
		if err := c.Live.List(ctx, list, client.Limit(1)); err != nil {
			return ""
		}
		told[i] = list.GetResourceVersion()
	}
	for i := range 2 {
		if order, err := resourceversion.CompareResourceVersion(told[i], told[i+1]); err != nil || order > 0 {
			return ""
		}
	}
	return told[1]
}

// momentary lists what was at a version, once, and then what is.
type momentary struct {
	client.Reader
	version string
}

// List implements client.Reader.
func (r *momentary) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	if r.version == "" || o.Continue != "" { // a page says itself what it is of
		return r.Reader.List(ctx, into, options...)
	}
	o.Raw = &metav1.ListOptions{ResourceVersion: r.version, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	r.version = ""
	err := r.Reader.List(ctx, into, o)
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) { // this API server lags behind
		return r.Reader.List(ctx, into, options...)
	}
	return err
}

// stay waits until the other kind is listed too, and a little longer.
func (s source) stay(ctx context.Context) {
	if s.other == nil {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-s.other:
	}
	select {
	case <-ctx.Done():
	case <-time.After(still):
	}
}
