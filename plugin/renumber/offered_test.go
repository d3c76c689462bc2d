package renumber

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func cidr(name string, change func(*networkingv1.ServiceCIDR), cidrs ...string) networkingv1.ServiceCIDR {
	out := networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	if change != nil {
		change(&out)
	}
	return out
}

func deleting(o *networkingv1.ServiceCIDR) { o.DeletionTimestamp = new(metav1.Now()) }

func unready(o *networkingv1.ServiceCIDR) {
	o.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse}}
}

func TestNotOffered(t *testing.T) {
	both := []netip.Addr{netip.MustParseAddr("10.96.0.7"), netip.MustParseAddr("fd00:10:96::7")}
	for name, tc := range map[string]struct {
		cidrs []networkingv1.ServiceCIDR
		want  string // empty: offered
	}{
		"ready":                         {[]networkingv1.ServiceCIDR{cidr("old", nil, "10.96.0.0/24", "fd00:10:96::/120")}, ""},
		"each in a range of its own":    {[]networkingv1.ServiceCIDR{cidr("old", nil, "10.96.0.0/24"), cidr("six", nil, "fd00:10:96::/120")}, ""},
		"gone":                          {[]networkingv1.ServiceCIDR{cidr("new", nil, "10.97.0.0/24")}, "10.96.0.7 is in no ServiceCIDR any more"},
		"IPv6 alone is gone":            {[]networkingv1.ServiceCIDR{cidr("old", nil, "10.96.0.0/24")}, "fd00:10:96::7 is in no ServiceCIDR any more"},
		"being deleted":                 {[]networkingv1.ServiceCIDR{cidr("old", deleting, "10.96.0.0/24", "fd00:10:96::/120")}, "ServiceCIDR old, which has 10.96.0.7, is being deleted"},
		"not ready":                     {[]networkingv1.ServiceCIDR{cidr("old", unready, "10.96.0.0/24", "fd00:10:96::/120")}, "ServiceCIDR old, which has 10.96.0.7, is not ready"},
		"IPv6 alone is being deleted":   {[]networkingv1.ServiceCIDR{cidr("old", nil, "10.96.0.0/24"), cidr("six", deleting, "fd00:10:96::/120")}, "ServiceCIDR six, which has fd00:10:96::7, is being deleted"},
		"being deleted, beside another": {[]networkingv1.ServiceCIDR{cidr("old", deleting, "10.96.0.0/24", "fd00:10:96::/120"), cidr("again", nil, "10.96.0.0/16", "fd00:10:96::/112")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := notOffered(both, tc.cidrs); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCordonedAddressesAreNotGivenBack(t *testing.T) {
	four, six := netip.MustParseAddr("10.96.0.7"), netip.MustParseAddr("fd00:10:96::7")
	by := func(a netip.Addr) string { return map[netip.Addr]string{six: "old"}[a] }
	if got := cordoned([]netip.Addr{four}, by); got != "" {
		t.Errorf("got %q of an address that is not cordoned", got)
	}
	if got := cordoned([]netip.Addr{four, six}, by); !strings.HasPrefix(got, `ServiceCIDRPolicy "old" has cordoned the range of fd00:10:96::7`) {
		t.Errorf("got %q", got)
	}
}

// TestOutOfDate has Services at several stages, and no range for those that are still to be moved.
func TestOutOfDate(t *testing.T) {
	item := func(name string) Item {
		return Item{Namespace: "shop", Name: name, UID: types.UID(name), Old: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, New: []netip.Addr{netip.MustParseAddr("10.97.0.7")}}
	}
	service := func(name, address string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.ServiceSpec{ClusterIPs: []string{address}}}
	}
	was, err := newRecord(service("b", "10.96.0.7"))
	if err != nil {
		t.Fatal(err)
	}
	between := proves(leaving(service("b", "10.96.0.7"), was, nil), was)
	for name, tc := range map[string]struct {
		services []*corev1.Service
		want     string
	}{
		"one is to be moved":              {[]*corev1.Service{service("a", "10.97.0.7"), service("b", "10.96.0.7")}, "Service shop/b cannot have 10.97.0.7: "},
		"all were moved":                  {[]*corev1.Service{service("a", "10.97.0.7"), service("b", "10.97.0.7")}, ""},
		"one is gone":                     {[]*corev1.Service{service("b", "10.97.0.7")}, ""},
		"one is between, and is finished": {[]*corev1.Service{service("a", "10.96.0.7"), between}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			services := map[types.NamespacedName]*corev1.Service{}
			for _, s := range tc.services {
				services[nameOf(s)] = s
			}
			if got := outOfDate([]Item{item("a"), item("b")}, services, nil); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRangesAreListedOnceASecond(t *testing.T) {
	at, lists := clocktesting.NewFakePassiveClock(time.Now()), 0
	fail := errors.New("no answer")
	r := &offering{clock: at, list: func(context.Context) ([]networkingv1.ServiceCIDR, error) { lists++; return nil, fail }}
	ask := func(after time.Duration, wantLists int, want error) {
		t.Helper()
		at.SetTime(at.Now().Add(after))
		if _, err := r.now(t.Context()); !errors.Is(err, want) || lists != wantLists {
			t.Errorf("got error %v and %d lists, want %v and %d", err, lists, want, wantLists)
		}
	}
	ask(0, 1, fail)
	ask(0, 2, fail) // a failure is no list
	fail = nil
	ask(0, 3, nil)
	ask(rangesFor-1, 3, nil)
	ask(1, 4, nil)
}
