package reservation

import (
	"cmp"
	"net/netip"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

var (
	now  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	shop = types.NamespacedName{Namespace: "ns", Name: "shop"}
)

// families are the address of the tests in both; each table runs for both.
var families = map[string]netip.Addr{"IPv4": netip.MustParseAddr("10.0.0.5"), "IPv6": netip.MustParseAddr("fd00::5")}

// reservedBy is the reservation of an address by a policy, whose UID is its name.
func reservedBy(policy string) func(netip.Addr) *steering.Reservation {
	return func(a netip.Addr) *steering.Reservation {
		return &steering.Reservation{Policy: policy, PolicyUID: types.UID(policy), Name: "front", Span: allocator.Span{First: a, Last: a}, For: shop}
	}
}

// freedFor is an address that a Service gave back some time ago.
func freedFor(ago time.Duration) *addressindex.CoolDown {
	return &addressindex.CoolDown{Service: shop, Released: now.Add(-ago)}
}

// surplus is a cool-down that ends early.
func surplus(c *addressindex.CoolDown) *addressindex.CoolDown {
	c.Surplus = true
	return c
}

// Any writer of IPAddresses may set annotations: a time after the creation would cool for ever.
func TestWhenACoolingObjectWasFreed(t *testing.T) {
	before, sameSecond := now.Add(-time.Hour), now.Add(900*time.Millisecond)
	for at, want := range map[string]time.Time{
		before.Format(time.RFC3339Nano): before, sameSecond.Format(time.RFC3339Nano): sameSecond,
		now.Add(time.Second).Format(time.RFC3339Nano): now, "2099-01-01T00:00:00Z": now, "yesterday": now, "": now,
	} {
		got := addressindex.ReadCoolDown(map[string]string{v1alpha1.AnnotationReleased: at, v1alpha1.AnnotationLastService: "ns/x"}, now)
		if !got.Released.Equal(want) || got.Service.String() != "ns/x" {
			t.Errorf("%q: freed at %v by %v, want %v", at, got.Released, got.Service, want)
		}
	}
}

// maker makes an IPAddress as it would be found.
type maker func(netip.Addr) *networkingv1.IPAddress

// reservation is the IPAddress that is written for reservedBy(policy).
func reservation(policy string) maker {
	return func(a netip.Addr) *networkingv1.IPAddress {
		return found(reserve(a, *reservedBy(policy)(a)))
	}
}

// cooling is the IPAddress that is written for freedFor(ago).
func cooling(policy string, ago time.Duration) maker {
	return func(a netip.Addr) *networkingv1.IPAddress {
		return found(cool(a, *freedFor(ago), &steering.Policy{Name: policy, UID: types.UID(policy)}))
	}
}

func found(ip *networkingv1.IPAddress) *networkingv1.IPAddress {
	ip.UID, ip.CreationTimestamp = "u", metav1.NewTime(now)
	return ip
}

// bare is an IPAddress of some manager with some parent.
func bare(manager, purpose string, parent networkingv1.ParentReference, ago time.Duration) maker {
	return func(a netip.Addr) *networkingv1.IPAddress {
		ip := &networkingv1.IPAddress{Spec: networkingv1.IPAddressSpec{ParentRef: &parent}}
		ip.Name, ip.UID, ip.CreationTimestamp = a.String(), "u", metav1.NewTime(now.Add(-ago))
		ip.Labels = map[string]string{networkingv1.LabelManagedBy: manager, v1alpha1.LabelPurpose: purpose}
		return ip
	}
}

func (b maker) with(change func(*networkingv1.IPAddress)) maker {
	return func(a netip.Addr) *networkingv1.IPAddress {
		ip := b(a)
		change(ip)
		return ip
	}
}

// without takes a label or an annotation away.
func without(key string) func(*networkingv1.IPAddress) {
	return func(ip *networkingv1.IPAddress) {
		delete(ip.Labels, key)
		delete(ip.Annotations, key)
	}
}

func annotated(key, value string) func(*networkingv1.IPAddress) {
	return func(ip *networkingv1.IPAddress) { ip.Annotations[key] = value }
}

func ownedBy(uids ...types.UID) func(*networkingv1.IPAddress) {
	return func(ip *networkingv1.IPAddress) {
		ip.OwnerReferences = nil
		for _, uid := range uids {
			ip.OwnerReferences = append(ip.OwnerReferences, metav1.OwnerReference{UID: uid})
		}
	}
}

func terminating(ip *networkingv1.IPAddress) {
	ip.DeletionTimestamp = &metav1.Time{Time: now}
}

var (
	ofService = networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "shop"}
	ofReplica = networkingv1.ParentReference{Group: v1alpha1.Prefix, Resource: "replicas", Name: "r1"}
)

func TestDecide(t *testing.T) {
	ours := v1alpha1.ManagedByOperator
	for name, tc := range map[string]struct {
		object      maker
		reservation func(netip.Addr) *steering.Reservation
		freed       *addressindex.CoolDown
		coolDown    time.Duration
		cooler      string // empty: p
		claimed     bool
		// gone: no ServiceCIDR has the address. closing: the only one that has it is being deleted.
		gone, closing bool

		wantDo      action
		wantPurpose string // of what should be there
		wantAgain   time.Duration
	}{
		"nothing there, nothing wanted": {},
		// reservations
		"reserved and free":                                 {reservation: reservedBy("p"), wantDo: create, wantPurpose: "reservation"},
		"reserved, a Service has it":                        {reservation: reservedBy("p"), claimed: true},
		"reserved, the API server is handing it out":        {reservation: reservedBy("p"), object: bare(v1alpha1.ManagedByAPIServer, "", ofService, 0)},
		"reserved, somebody else's":                         {reservation: reservedBy("p"), object: bare("x", "", ofService, 0)},
		"reserved, an additional address":                   {reservation: reservedBy("p"), object: bare(ours, "additional", ofService, 0)},
		"reserved and in place":                             {reservation: reservedBy("p"), object: reservation("p"), wantPurpose: "reservation"},
		"reserved outside of every range":                   {reservation: reservedBy("p"), gone: true},
		"reserved in a range that is being deleted":         {reservation: reservedBy("p"), closing: true},
		"in place in a range that is being deleted":         {reservation: reservedBy("p"), object: reservation("p"), closing: true, wantPurpose: "reservation"},
		"in place, the range is gone":                       {reservation: reservedBy("p"), object: reservation("p"), gone: true, wantDo: remove},
		"in place, the policy is gone":                      {object: reservation("p"), wantDo: remove},
		"in place, and a Service has the address":           {reservation: reservedBy("p"), object: reservation("p"), claimed: true, wantDo: remove},
		"in place for another policy":                       {reservation: reservedBy("p"), object: reservation("q"), wantDo: replace, wantPurpose: "reservation"},
		"in place for a policy of the same name before":     {reservation: reservedBy("p"), object: reservation("p").with(ownedBy("old")), wantDo: replace, wantPurpose: "reservation"},
		"in place, both policies of this name own it":       {reservation: reservedBy("p"), object: reservation("p").with(ownedBy("p", "old")), wantDo: replace, wantPurpose: "reservation"},
		"in place, the owner was taken off":                 {reservation: reservedBy("p"), object: reservation("p").with(ownedBy()), wantDo: relabel, wantPurpose: "reservation"},
		"in place under another name":                       {reservation: reservedBy("p"), object: reservation("p").with(annotated(v1alpha1.AnnotationReservation, "old")), wantDo: relabel, wantPurpose: "reservation"},
		"in place, the purpose was taken off":               {reservation: reservedBy("p"), object: reservation("p").with(without(v1alpha1.LabelPurpose)), wantDo: relabel, wantPurpose: "reservation"},
		"in place, the manager was taken off":               {reservation: reservedBy("p"), object: reservation("p").with(without(networkingv1.LabelManagedBy)), wantDo: relabel, wantPurpose: "reservation"},
		"in place, the family was taken off":                {reservation: reservedBy("p"), object: reservation("p").with(without(networkingv1.LabelIPAddressFamily)), wantDo: relabel, wantPurpose: "reservation"},
		"not wanted, and the manager was taken off":         {object: reservation("p").with(without(networkingv1.LabelManagedBy)), wantDo: remove},
		"in place, deleted, and held by a finalizer":        {reservation: reservedBy("p"), object: reservation("p").with(terminating)},
		"labelled a reservation, with a Service for parent": {reservation: reservedBy("p"), object: bare(ours, "reservation", ofService, 0)},
		"labelled as cooling, with a Service for parent":    {object: bare(ours, "cooling", ofService, time.Hour)},
		// cool-down
		"freed just now":                             {freed: freedFor(300 * time.Millisecond), coolDown: time.Hour, wantAgain: 700 * time.Millisecond},
		"freed a second ago":                         {freed: freedFor(time.Second), coolDown: time.Hour, wantDo: create, wantPurpose: "cooling", wantAgain: time.Hour - time.Second + skew},
		"freed, and surplus":                         {freed: surplus(freedFor(time.Minute)), coolDown: time.Hour},
		"freed, and had by a Service again":          {freed: freedFor(time.Minute), coolDown: time.Hour, claimed: true},
		"freed without a cool-down":                  {freed: freedFor(time.Minute)},
		"freed longer ago than it has to rest":       {freed: freedFor(time.Minute), coolDown: time.Minute},
		"freed in a range that is being deleted":     {freed: freedFor(time.Minute), coolDown: time.Hour, closing: true},
		"freed outside of every range":               {freed: freedFor(time.Minute), coolDown: time.Hour, gone: true},
		"freed, and something unknown of ours":       {freed: freedFor(time.Minute), coolDown: time.Hour, object: bare(ours, "claim", ofReplica, 0), wantAgain: unknownFor},
		"cooling":                                    {object: cooling("p", time.Minute), coolDown: time.Hour, wantPurpose: "cooling", wantAgain: 59*time.Minute + skew},
		"cooling, and surplus":                       {object: cooling("p", time.Minute), freed: surplus(freedFor(time.Minute)), coolDown: time.Hour, wantDo: remove},
		"cooling until now, by our clock":            {object: cooling("p", time.Minute), coolDown: time.Minute, wantPurpose: "cooling", wantAgain: skew},
		"cooling until now, by every clock":          {object: cooling("p", time.Minute+skew), coolDown: time.Minute, wantDo: remove},
		"cooling for less than it used to":           {object: cooling("p", 10*time.Minute), coolDown: time.Minute, wantDo: remove},
		"cooling for no policy any more":             {object: cooling("p", time.Minute), wantDo: remove},
		"cooling for another policy by now":          {object: cooling("p", time.Minute), coolDown: time.Hour, cooler: "q", wantDo: replace, wantPurpose: "cooling", wantAgain: 59*time.Minute + skew},
		"cooling in a range that is being deleted":   {object: cooling("p", time.Minute), coolDown: time.Hour, closing: true, wantDo: remove},
		"cooling, and had by a Service":              {object: cooling("p", time.Minute), coolDown: time.Hour, claimed: true, wantDo: remove},
		"cooling, nobody knows since when":           {object: cooling("p", time.Minute).with(without(v1alpha1.AnnotationReleased)), coolDown: time.Hour, wantDo: relabel, wantPurpose: "cooling", wantAgain: time.Hour + skew},
		"cooling, allegedly from the future":         {object: cooling("p", time.Minute).with(annotated(v1alpha1.AnnotationReleased, "2999-01-01T00:00:00Z")), coolDown: time.Hour, wantDo: relabel, wantPurpose: "cooling", wantAgain: time.Hour + skew},
		"cooling, and reserved by the same policy":   {object: cooling("p", time.Minute), coolDown: time.Hour, reservation: reservedBy("p"), wantDo: replace, wantPurpose: "reservation"},
		"cooling and reserved, the range closes":     {object: cooling("p", time.Minute), coolDown: time.Hour, reservation: reservedBy("p"), closing: true, wantDo: remove},
		"freed and reserved: no rest, no second":     {freed: freedFor(0), coolDown: time.Hour, reservation: reservedBy("p"), wantDo: create, wantPurpose: "reservation"},
		"a reservation was lifted: it does not cool": {object: reservation("p"), coolDown: time.Hour, wantDo: remove},
		// what another version of the operator wrote
		"of an unknown purpose":                        {object: bare(ours, "claim", ofReplica, 10*time.Second), wantAgain: 20 * time.Second},
		"of an unknown purpose for long":               {object: bare(ours, "claim", ofReplica, 30*time.Second), wantDo: remove},
		"of an unknown purpose at a reserved address":  {object: bare(ours, "claim", ofReplica, 30*time.Second), reservation: reservedBy("p"), wantDo: replace, wantPurpose: "reservation"},
		"of an unknown purpose at a Service's address": {object: bare(ours, "claim", ofReplica, 30*time.Second), claimed: true, wantDo: remove},
		// of other managers
		"the API server's":               {object: bare(v1alpha1.ManagedByAPIServer, "", ofService, time.Hour)},
		"ours, for a purpose to come":    {object: bare(ours, "future", ofService, time.Hour)},
		"another's with our purpose":     {object: bare("x", "cooling", ofService, time.Hour)},
		"an additional address, at rest": {object: bare(ours, "additional", ofService, time.Hour), freed: freedFor(time.Minute), coolDown: time.Hour},
	} {
		for family, a := range families {
			t.Run(name+"/"+family, func(t *testing.T) {
				in := inputs{
					now: now, address: a, claimed: tc.claimed, covered: !tc.gone, offered: !tc.gone && !tc.closing, freed: tc.freed, coolDown: tc.coolDown,
					cooler: &steering.Policy{Name: cmp.Or(tc.cooler, "p"), UID: types.UID(cmp.Or(tc.cooler, "p"))},
				}
				if tc.reservation != nil {
					in.reservation = tc.reservation(a)
				}
				if tc.object != nil {
					in.object = tc.object(a)
					if purpose(in.object) == v1alpha1.PurposeCooling {
						in.freed = read(in.object)
						in.freed.Surplus = tc.freed != nil && tc.freed.Surplus
					}
				}
				d := decide(in)
				if d.do != tc.wantDo || d.again != tc.wantAgain {
					t.Errorf("action %d, again in %v; want %d, %v", d.do, d.again, tc.wantDo, tc.wantAgain)
				}
				got := ""
				if d.want != nil {
					got = purpose(d.want)
				}
				if got != tc.wantPurpose {
					t.Errorf("wanted for %q, should be for %q", got, tc.wantPurpose)
				}
			})
		}
	}
}

// read reads who had a cooling address, as from the cache.
func read(o *networkingv1.IPAddress) *addressindex.CoolDown {
	freed := addressindex.ReadCoolDown(o.Annotations, o.CreationTimestamp.Time)
	return &freed
}

// What is found is what was written, or writing never ends; new leaders read what old ones wrote.
func TestTheObjectsThatAreWritten(t *testing.T) {
	for family, a := range families {
		t.Run(family, func(t *testing.T) {
			want := &networkingv1.IPAddress{
				ObjectMeta: metav1.ObjectMeta{
					Name: a.String(),
					Labels: map[string]string{
						"ipaddress.kubernetes.io/managed-by": "clusterip-operator.io", "ipaddress.kubernetes.io/ip-family": family,
						"clusterip-operator.io/purpose": "cooling",
					},
					Annotations: map[string]string{
						"clusterip-operator.io/last-service": "ns/shop", "clusterip-operator.io/released-at": "2026-01-01T11:59:58.500000007Z",
					},
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "clusterip-operator.io/v1alpha1", Kind: "ServiceCIDRPolicy", Name: "p", UID: "p-uid"}},
				},
				Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
					Group: "clusterip-operator.io", Resource: "servicecidrpolicies", Name: "p",
				}},
			}
			freed := freedFor(1500*time.Millisecond - 7*time.Nanosecond)
			got := cool(a, *freed, &steering.Policy{Name: "p", UID: "p-uid"})
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("cooling (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(freed, read(found(got.DeepCopy())), cmpopts.EquateComparable(addressindex.CoolDown{})); diff != "" {
				t.Errorf("who had it (-want +got):\n%s", diff)
			}
			want.Labels["clusterip-operator.io/purpose"] = "reservation"
			want.Annotations = map[string]string{"clusterip-operator.io/reservation": "front"}
			want.OwnerReferences[0].UID = "p"
			got = reserve(a, *reservedBy("p")(a))
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("reservation (-want +got):\n%s", diff)
			}
			if do := difference(found(got.DeepCopy()), got); do != leave {
				t.Errorf("action %d on what was just written", do)
			}
		})
	}
}
