package renumber

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// notOffered says why API servers allocate one of the addresses to no Service, empty if they would.
// A Service needs all of its addresses anew, those of a family that stays too: it has none for the
// moment between the two updates.
func notOffered(all []netip.Addr, cidrs []networkingv1.ServiceCIDR) string {
	for _, a := range all {
		offers, unready := covering(a, cidrs)
		switch {
		case offers:
		case unready == nil:
			return fmt.Sprintf("%s is in no ServiceCIDR any more, so that no API server allocates it: create one that has it", a)
		case !unready.DeletionTimestamp.IsZero():
			return fmt.Sprintf("ServiceCIDR %s, which has %s, is being deleted, so that no API server allocates from it: create another one that has the address", unready.Name, a)
		default:
			return fmt.Sprintf("ServiceCIDR %s, which has %s, is not ready, so that no API server allocates from it: see its conditions", unready.Name, a)
		}
	}
	return ""
}

// cordoned says which policy lets no Service have one of the addresses, empty for none. by names
// the policy that has an address cordoned.
func cordoned(all []netip.Addr, by func(netip.Addr) string) string {
	for _, a := range all {
		if policy := by(a); policy != "" {
			return fmt.Sprintf("ServiceCIDRPolicy %q has cordoned the range of %s, so that no Service is given it: set allocation: ByRequest there until the Services are back", policy, a)
		}
	}
	return ""
}

// covering reports whether a ServiceCIDR offers the address, and otherwise one that would, nil for
// none.
func covering(a netip.Addr, cidrs []networkingv1.ServiceCIDR) (offers bool, unready *networkingv1.ServiceCIDR) {
	for i := range cidrs {
		for _, text := range cidrs[i].Spec.CIDRs {
			p, err := netip.ParsePrefix(text)
			switch {
			case err != nil || !p.Contains(a):
			case usable(&cidrs[i]):
				return true, nil
			default:
				unready = &cidrs[i]
			}
		}
	}
	return false, unready
}

// outOfDate says which Service that still has its addresses of before would lose them and be
// refused the others, empty for none. Services that are between cannot wait for a range: with one
// of them the command goes on, finishes these, and leaves the others as they are (Mover.Refusal).
func outOfDate(items []Item, services map[types.NamespacedName]*corev1.Service, cidrs []networkingv1.ServiceCIDR) (found string) {
	for _, i := range items {
		switch stage, _ := stageOf(i, services[i.Key()]); {
		case stage == Between:
			return ""
		case stage == Waiting && found == "":
			if why := notOffered(i.New, cidrs); why != "" {
				found = fmt.Sprintf("Service %s cannot have %s: %s", i.Key(), join(i.New), why)
			}
		}
	}
	return found
}

// rangesFor is how long a list of ServiceCIDRs is believed while Services are moved.
const rangesFor = time.Second

// offering is the list of ServiceCIDRs of a moment ago. A range may go while a long command runs,
// and many Services a second ask. It is safe for concurrent use.
type offering struct {
	list  func(context.Context) ([]networkingv1.ServiceCIDR, error)
	clock clock.PassiveClock

	mu    sync.Mutex
	at    time.Time
	cidrs []networkingv1.ServiceCIDR
}

// now returns the ServiceCIDRs, at most rangesFor old.
func (r *offering) now(ctx context.Context) ([]networkingv1.ServiceCIDR, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock.Now(); r.at.IsZero() || now.Sub(r.at) >= rangesFor {
		cidrs, err := r.list(ctx)
		if err != nil {
			return nil, err
		}
		r.at, r.cidrs = now, cidrs
	}
	return r.cidrs, nil
}
