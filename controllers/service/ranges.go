package service

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/ledger"
)

// listing is what the API server had for ServiceCIDRs at some time. The zero value is of no time; it is safe for concurrent use.
//
// One listing serves all Services that are suspected at about the same time: thousands of them are when a range was taken away.
type listing struct {
	mu    sync.Mutex
	asOf  time.Time
	cidrs []ledger.ServiceCIDR
}

// since returns what is in a listing that is not older than t, if there is one.
func (l *listing) since(t time.Time) (cidrs []ledger.ServiceCIDR, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cidrs, !l.asOf.IsZero() && !l.asOf.Before(t)
}

func (l *listing) keep(cidrs []ledger.ServiceCIDR, asOf time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if asOf.After(l.asOf) {
		l.cidrs, l.asOf = cidrs, asOf
	}
}

// liveOffer returns what decide wants to know, from the books and from the API server itself: after an outage the watch of ServiceCIDRs may
// come back half a minute later than that of Services, and a Service in a new range is not to blame for that.
//
// A complaint has lasted for confirmFor by now, and no Service is older than its range: a listing of that time knows the range.
func (r *Reconciler) liveOffer(ctx context.Context) (func(netip.Addr) bool, error) {
	now := r.Clock.Now()
	cidrs, fresh := r.listed.since(now.Add(-confirmFor))
	if !fresh {
		cidrs = nil // what is older is shared with others
		list := &networkingv1.ServiceCIDRList{}
		if err := r.Live.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
		}
		for i := range list.Items {
			cidrs = append(cidrs, ledger.NewServiceCIDR(&list.Items[i]))
		}
		r.listed.keep(cidrs, now)
	}
	return func(a netip.Addr) bool {
		return r.offered(a) || slices.ContainsFunc(cidrs, func(c ledger.ServiceCIDR) bool { return c.Contains(a) })
	}, nil
}
