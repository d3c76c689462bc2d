package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/replicas"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// blue is a cluster whose namespace ns has a small range of each family for itself: 10.0.1.0/29 and fd00:1::/125.
func blue(change func(*v1alpha1.ServiceCIDRPolicySpec)) setting {
	return setting{
		cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.0.0/24", "fd00::/120"), rangeOf("blue", "10.0.1.0/29", "fd00:1::/125")},
		policies: []*v1alpha1.ServiceCIDRPolicy{policyOfRanges("blue", func(s *v1alpha1.ServiceCIDRPolicySpec) {
			s.Exclusive, s.OnFull = true, v1alpha1.OnFullFail
			s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "ns"}}
			if change != nil {
				change(s)
			}
		}, "blue")},
	}
}

func keeping(name, address, service string) func(*v1alpha1.ServiceCIDRPolicySpec) {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) {
		s.Reservations = append(s.Reservations, v1alpha1.Reservation{Name: name, Address: address, For: service})
	}
}

func TestServiceGetsAddressesOfItsPolicy(t *testing.T) {
	c := newCluster(t, blue(nil))
	four, six := usableOf("10.0.1.0/29"), usableOf("fd00:1::/125")
	got := c.create(t, dualStack(corev1Service("a")))
	if !got.Allowed || len(got.IPs) != 2 || got.IP != got.IPs[0] || !slices.Contains(four, got.IPs[0]) || !slices.Contains(six, got.IPs[1]) {
		t.Fatalf("the answer is %+v", got)
	}
	if n := c.steerer.Ledger.Assumed(); n != 2 {
		t.Errorf("%d addresses are assumed, want both", n)
	}
	if err := c.accept("a", got.IPs...); err != nil {
		t.Fatal(err)
	}
	await(t, "nothing is assumed any more", func() bool { return c.steerer.Ledger.Assumed() == 0 })
	c.expectAtRest(t, nil)
	if len(c.writes) != 0 {
		t.Errorf("a draw from the own shard wrote %v", c.writes)
	}
}

// The API server may ask twice about one Service, with what was filled in the first time.
func TestAskedAgain(t *testing.T) {
	s := blue(keeping("r", "10.0.1.2", "ns/a"))
	c := newCluster(t, s)
	first := c.create(t, corev1Service("a"))
	if first.IP != "10.0.1.2" {
		t.Fatalf("the answer is %+v, want the reserved address", first)
	}
	again := c.create(t, corev1Service("a", first.IPs...))
	if diff := cmp.Diff(answer{Allowed: true}, again); diff != "" {
		t.Errorf("asked again (-want +got):\n%s", diff)
	}
	if to, ok := c.steerer.Ledger.HandedTo(netip.MustParseAddr(first.IP)); !ok || to.Service.Name != "a" {
		t.Errorf("it is handed (%v) to %v", ok, to)
	}
	for name, want := range map[string]bool{"a": true, "b": false} {
		if got := c.steerer.look(t.Context(), netip.MustParseAddr(first.IP), steering.Service{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}); got.ours != want {
			t.Errorf("it was filled in for %s: %v, want %v", name, got.ours, want)
		}
	}
	other := c.create(t, corev1Service("b", first.IPs...))
	if other.Allowed {
		t.Error("another Service may have the reserved address")
	}
}

// A full range: who may fall back does, who may not is refused, and a dual-stack Service leaves nothing behind.
func TestFullRange(t *testing.T) {
	full := func(s setting) setting {
		for _, ip := range usableOf("10.0.1.0/29") {
			s.services = append(s.services, corev1Service("s"+strings.ReplaceAll(ip, ".", "-"), ip))
		}
		return s
	}
	t.Run("Fail", func(t *testing.T) {
		c := newCluster(t, full(blue(nil)))
		want := answer{Message: `ServiceCIDRPolicy "blue": no IPv4 address is left in its ranges (10.0.1.0/29); delete Services there, add a ServiceCIDR to the policy, or set onFull: Fallback`}
		six := dualStack(corev1Service("a"))
		six.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		for _, s := range []*corev1.Service{corev1Service("a"), dualStack(corev1Service("a")), six} {
			if diff := cmp.Diff(want, c.create(t, s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		c.expectAtRest(t, nil)
		if got := c.steerer.Refusals.pending["blue"]; len(got) != 3 || got[0].Service != "ns/a" || got[0].Message != want.Message {
			t.Errorf("noted are %v", got)
		}
	})
	t.Run("Fallback", func(t *testing.T) {
		c := newCluster(t, full(blue(func(s *v1alpha1.ServiceCIDRPolicySpec) { s.OnFull = v1alpha1.OnFullFallback })))
		if got := c.create(t, corev1Service("a")); !slices.Contains(usableOf("10.0.0.0/24"), got.IP) {
			t.Errorf("the answer is %+v, want one of the open range", got)
		}
	})
	t.Run("everything is full, and others have ranges for themselves", func(t *testing.T) {
		s := full(setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.1.0/29"), rangeOf("red", "10.0.2.0/29")},
			policies: []*v1alpha1.ServiceCIDRPolicy{policyOfRanges("red", func(s *v1alpha1.ServiceCIDRPolicySpec) {
				s.Exclusive = true
				s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
			}, "red")}})
		got := newCluster(t, s).create(t, corev1Service("a"))
		want := answer{Message: "no IPv4 address is left in the ranges that are open to this Service; " +
			"other ranges are kept by ServiceCIDRPolicies for the Services that they select: delete Services, or add a ServiceCIDR"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("everything is full, and nobody has anything for himself", func(t *testing.T) {
		c := newCluster(t, full(setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.1.0/29")}}))
		if diff := cmp.Diff(answer{Allowed: true}, c.create(t, corev1Service("a"))); diff != "" {
			t.Errorf("it is left to the API server (-want +got):\n%s", diff)
		}
	})
}

// Whoever a reservation is for gets it without asking, and by asking; our IPAddress makes room first.
func TestReservedForTheService(t *testing.T) {
	reserved := func() setting {
		s := blue(func(s *v1alpha1.ServiceCIDRPolicySpec) {
			keeping("four", "10.0.1.2-10.0.1.3", "ns/a")(s)
			keeping("six", "fd00:1::4", "ns/a")(s)
			keeping("nobody", "10.0.1.4", "")(s)
		})
		for _, ip := range []string{"10.0.1.2", "10.0.1.3", "10.0.1.4", "fd00:1::4"} {
			s.addresses = append(s.addresses, ourAddress(ip, v1alpha1.PurposeReservation, nil))
		}
		return s
	}
	t.Run("without asking", func(t *testing.T) {
		c := newCluster(t, reserved())
		got := c.create(t, dualStack(corev1Service("a")))
		if diff := cmp.Diff(answer{Allowed: true, IP: "10.0.1.2", IPs: []string{"10.0.1.2", "fd00:1::4"}}, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if err := c.accept("a", got.IPs...); err != nil {
			t.Error(err)
		}
		await(t, "nothing is assumed any more", func() bool { return c.steerer.Ledger.Assumed() == 0 })
		c.expectAtRest(t, map[string]string{"10.0.1.3": v1alpha1.PurposeReservation, "10.0.1.4": v1alpha1.PurposeReservation})
	})
	t.Run("by asking", func(t *testing.T) {
		c := newCluster(t, reserved())
		if diff := cmp.Diff(answer{Allowed: true}, c.create(t, corev1Service("a", "10.0.1.3"))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if err := c.accept("a", "10.0.1.3"); err != nil {
			t.Error(err)
		}
	})
	t.Run("by asking for one, and the other without", func(t *testing.T) {
		c := newCluster(t, reserved())
		got := c.create(t, dualStack(corev1Service("a", "fd00:1::4")))
		if diff := cmp.Diff(answer{Allowed: true, IP: "fd00:1::4", IPs: []string{"fd00:1::4", "10.0.1.2"}}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("another replica was first", func(t *testing.T) {
		c := newCluster(t, reserved())
		c.deleting = func(o *networkingv1.IPAddress) error {
			if o.Name == "10.0.1.2" {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "ipaddresses"}, o.Name)
			}
			return nil
		}
		if got := c.create(t, corev1Service("a")); got.IP != "10.0.1.3" {
			t.Errorf("the answer is %+v, want the second address of the reservation", got)
		}
		if !c.steerer.Ledger.HandedElsewhere(netip.MustParseAddr("10.0.1.2")) {
			t.Error("what the other one has is not known")
		}
	})
	reservation := func(policy string) *networkingv1.IPAddress {
		return ofPolicy(ourAddress("10.0.1.2", v1alpha1.PurposeReservation, nil), policy)
	}
	for name, tc := range map[string]struct {
		there *networkingv1.IPAddress
		want  string
	}{
		"the leader has just reserved it again": {reservation("blue"), "10.0.1.2"},
		"another policy reserves it by now":     {reservation("red"), "10.0.1.3"},
		"somebody has it":                       {upstream.NewIPAddress(netip.MustParseAddr("10.0.1.2"), types.NamespacedName{Namespace: "ns", Name: "b"}), "10.0.1.3"},
	} {
		t.Run("our watch is behind: "+name, func(t *testing.T) {
			s := reserved()
			s.addresses = s.addresses[1:]
			c := newCluster(t, s)
			c.deaf = true
			c.put(tc.there)
			if got := c.create(t, corev1Service("a")); got.IP != tc.want {
				t.Fatalf("the answer is %+v, want %s", got, tc.want)
			}
			if _, stands := c.purposes()["10.0.1.2"]; stands != (tc.want != "10.0.1.2") {
				t.Errorf("at the first address there is something: %t", stands)
			}
		})
	}
	t.Run("nobody knows what stands there", func(t *testing.T) {
		s := reserved()
		s.addresses = s.addresses[1:]
		c := newCluster(t, s)
		c.steerer.Live = unreachable{c.steerer.Live}
		if got := c.create(t, corev1Service("a")); got.IP != "10.0.1.2" || c.steerer.Ledger.Assumed() != 1 {
			t.Errorf("the answer is %+v, want the address, which is kept from others while the API server looks", got)
		}
	})
	t.Run("the API server is away", func(t *testing.T) {
		c := newCluster(t, reserved())
		c.deleting = func(*networkingv1.IPAddress) error { return errDown }
		got := c.create(t, corev1Service("a"))
		if !got.Allowed || !slices.Contains([]string{"10.0.1.1", "10.0.1.5", "10.0.1.6"}, got.IP) {
			t.Errorf("the answer is %+v, want another address of the range", got)
		}
		c.steerer.Ledger.Forget(netip.MustParseAddr(got.IP))
		c.expectAtRest(t, map[string]string{
			"10.0.1.2": v1alpha1.PurposeReservation, "10.0.1.3": v1alpha1.PurposeReservation,
			"10.0.1.4": v1alpha1.PurposeReservation, "fd00:1::4": v1alpha1.PurposeReservation,
		})
	})
	t.Run("others are refused", func(t *testing.T) {
		c := newCluster(t, reserved())
		for ip, want := range map[string]string{
			"10.0.1.2": `ServiceCIDRPolicy "blue": the address 10.0.1.2 is kept for Service ns/a by the reservation "four"; choose another address, or leave the choice to the cluster`,
			"10.0.1.4": `ServiceCIDRPolicy "blue": the address 10.0.1.4 is kept for nobody by the reservation "nobody"; choose another address, or leave the choice to the cluster`,
		} {
			if diff := cmp.Diff(answer{Message: want}, c.create(t, corev1Service("b", ip))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		if len(c.writes) > 0 {
			t.Errorf("a refusal wrote %v", c.writes)
		}
	})
}

// An address that rests goes back to whoever had it, by asking; to nobody else by asking; and to whoever draws when nothing else is left.
func TestRestingAddresses(t *testing.T) {
	released := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	resting := func() setting {
		s := blue(func(s *v1alpha1.ServiceCIDRPolicySpec) { s.CoolDown = &metav1.Duration{Duration: time.Hour} })
		for i, ip := range usableOf("10.0.1.0/29") {
			at := released.Add(-time.Duration(i) * time.Second)
			s.addresses = append(s.addresses, ourAddress(ip, v1alpha1.PurposeCooling, map[string]string{
				v1alpha1.AnnotationLastService: "ns/a", v1alpha1.AnnotationReleased: at.Format(time.RFC3339Nano),
			}))
		}
		return s
	}
	c := newCluster(t, resting())
	want := answer{Message: `ServiceCIDRPolicy "blue": the address 10.0.1.1 rests until ` + released.Add(time.Hour).Format(time.RFC3339) +
		` after Service ns/a had it; choose another address, or leave the choice to the cluster`}
	if diff := cmp.Diff(want, c.create(t, corev1Service("b", "10.0.1.1"))); diff != "" {
		t.Errorf("another Service (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(answer{Allowed: true}, c.create(t, corev1Service("a", "10.0.1.1"))); diff != "" {
		t.Errorf("the Service that had it (-want +got):\n%s", diff)
	}
	if err := c.accept("a", "10.0.1.1"); err != nil {
		t.Error(err)
	}
	for _, ip := range []string{"10.0.1.6", "10.0.1.5", "10.0.1.4", "10.0.1.3", "10.0.1.2"} {
		got := c.create(t, corev1Service("x"))
		if got.IP != ip {
			t.Fatalf("the answer is %+v, want %s, which rests for longest", got, ip)
		}
		if err := c.accept("x"+ip[7:], ip); err != nil {
			t.Error(err)
		}
	}
	if got := c.create(t, corev1Service("y")); got.Allowed {
		t.Errorf("the answer is %+v, want a refusal", got)
	}
}

// A dry run refuses what would be refused, and leaves nothing behind: no address, no claim, nothing deleted, nothing noted.
func TestDryRun(t *testing.T) {
	s := blue(keeping("r", "10.0.1.2", "ns/a"))
	s.addresses = append(s.addresses, ourAddress("10.0.1.2", v1alpha1.PurposeReservation, nil))
	for _, ip := range usableOf("fd00:1::/125") {
		s.services = append(s.services, corev1Service("s"+strings.ReplaceAll(ip, ":", "-"), ip))
	}
	c := newCluster(t, s)
	c.rights.Sure = false // it would have to claim
	dry := true
	ask := func(s *corev1.Service) answer {
		return c.ask(t, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, DryRun: &dry, Object: rawOf(t, s)}})
	}
	for name, tc := range map[string]struct {
		service *corev1.Service
		allowed bool
	}{
		"reserved for it":         {corev1Service("a"), true},
		"reserved for it, asked":  {corev1Service("a", "10.0.1.2"), true},
		"drawn":                   {corev1Service("b"), true},
		"chosen":                  {corev1Service("b", "10.0.1.3"), true},
		"reserved for another":    {corev1Service("b", "10.0.1.2"), false},
		"no IPv6 address is left": {dualStack(corev1Service("b")), false},
	} {
		if got := ask(tc.service); got.Allowed != tc.allowed || got.IPs != nil {
			t.Errorf("%s: %+v, want allowed %v and nothing filled in", name, got, tc.allowed)
		}
	}
	c.expectAtRest(t, map[string]string{"10.0.1.2": v1alpha1.PurposeReservation})
	if len(c.writes) > 0 || len(c.steerer.Refusals.pending) > 0 {
		t.Errorf("written %v, noted %v", c.writes, c.steerer.Refusals.pending)
	}
}

// What goes wrong here lets the request pass.
func TestFailsOpen(t *testing.T) {
	unsure := func(c *cluster) { c.rights.Sure = false }
	for name, tc := range map[string]struct {
		setting setting
		spoil   func(*cluster)
		request func(*admission.Request)
	}{
		"claims cannot be written":          {blue(nil), func(c *cluster) { unsure(c); c.creating = func(*networkingv1.IPAddress) error { return errDown } }, nil},
		"the namespace cannot be read":      {func() setting { s := blue(nil); s.namespaces = downReader{}; return s }(), nil, nil},
		"the Service cannot be read":        {blue(nil), nil, func(r *admission.Request) { r.Object.Raw = []byte("{") }},
		"the Service before cannot be read": {blue(nil), nil, func(r *admission.Request) { r.Operation = admissionv1.Update }},
		"the owner of the addresses is in trouble, and claims cannot be written": {blue(nil), func(c *cluster) {
			none := allocator.NewShard([]string{"other"}, "me")
			c.rights = replicas.Rights{Shard: none, Own: none, Sure: true}
			c.borrow = func(netip.Addr) (replicas.Grant, error) { return replicas.Refused, errDown }
			c.creating = func(*networkingv1.IPAddress) error { return errDown }
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, tc.setting)
			if tc.spoil != nil {
				tc.spoil(c)
			}
			r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: rawOf(t, dualStack(corev1Service("a")))}}
			if tc.request != nil {
				tc.request(&r)
			}
			if diff := cmp.Diff(answer{Allowed: true}, c.ask(t, r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			c.expectAtRest(t, nil)
		})
	}
}

type downReader struct{ client.Reader }

// Get implements client.Reader.
func (downReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errDown
}

// A Service in a namespace that the cache does not have yet is steered by what the API server says of it.
func TestYoungNamespace(t *testing.T) {
	s := blue(nil)
	s.namespaces = namespaceReader{}
	c := newCluster(t, s)
	c.steerer.Live = namespaceReader{"ns": {"team": "ns"}}
	if got := c.create(t, corev1Service("a")); !slices.Contains(usableOf("10.0.1.0/29"), got.IP) {
		t.Errorf("the answer is %+v, want an address of its policy", got)
	}
	c.steerer.Live = namespaceReader{}
	if diff := cmp.Diff(answer{Allowed: true}, c.create(t, corev1Service("a"))); diff != "" {
		t.Errorf("in a namespace that does not exist (-want +got):\n%s", diff)
	}
}

// One that is not sure of its shard claims: the claim is seen, and gone, before the address is handed out.
func TestClaims(t *testing.T) {
	unsure := func(c *cluster) *cluster {
		c.rights.Sure = false
		return c
	}
	t.Run("won", func(t *testing.T) {
		c := unsure(newCluster(t, blue(nil)))
		got := c.create(t, dualStack(corev1Service("a")))
		if len(got.IPs) != 2 {
			t.Fatalf("the answer is %+v", got)
		}
		if diff := cmp.Diff([]string{"create claim", "delete claim", "create claim", "delete claim"}, c.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		if err := c.accept("a", got.IPs...); err != nil {
			t.Error(err)
		}
		await(t, "nothing is assumed any more", func() bool { return c.steerer.Ledger.Assumed() == 0 })
		c.expectAtRest(t, nil)
	})
	t.Run("others are first, five times", func(t *testing.T) {
		c := unsure(newCluster(t, blue(nil)))
		lost := map[string]bool{}
		c.creating = func(o *networkingv1.IPAddress) error {
			if len(lost) < 5 {
				lost[o.Name] = true
				return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "ipaddresses"}, o.Name)
			}
			return nil
		}
		if got := c.create(t, corev1Service("a")); got.IP == "" || lost[got.IP] {
			t.Errorf("the answer is %+v, want one that others do not have (%v)", got, lost)
		}
	})
	t.Run("somebody deletes the claim", func(t *testing.T) {
		c := unsure(newCluster(t, blue(nil)))
		c.deleting = func(o *networkingv1.IPAddress) error {
			c.drop(c.addresses[o.Name])
			return apierrors.NewNotFound(schema.GroupResource{Resource: "ipaddresses"}, o.Name)
		}
		if got := c.create(t, corev1Service("a")); got.IPs != nil || !got.Allowed {
			t.Errorf("the answer is %+v: whoever deleted it may have handed it out", got)
		}
	})
	t.Run("the claim cannot be deleted", func(t *testing.T) {
		c := unsure(newCluster(t, blue(nil)))
		c.deleting = func(*networkingv1.IPAddress) error { return errDown }
		if got := c.create(t, corev1Service("a")); got.IPs != nil || !got.Allowed {
			t.Errorf("the answer is %+v: the API server could not write its own", got)
		}
	})
	t.Run("a claim of another one came and went", func(t *testing.T) {
		c := unsure(newCluster(t, blue(nil)))
		taken := map[string]bool{}
		c.creating = func(o *networkingv1.IPAddress) error {
			if len(taken) < 3 { // just before ours
				taken[o.Name] = true
				theirs := ourAddress(o.Name, v1alpha1.PurposeClaim, nil)
				c.put(theirs)
				c.drop(c.addresses[o.Name])
			}
			return nil
		}
		got := c.create(t, corev1Service("a"))
		if got.IP == "" || taken[got.IP] {
			t.Errorf("the answer is %+v, want one that nobody else was given (%v)", got, taken)
		}
		if left := c.purposes(); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
	})
	t.Run("the watch is behind", func(t *testing.T) {
		c := unsure(newCluster(t, blue(nil)))
		c.deaf = true
		if got := c.create(t, corev1Service("a")); got.IPs != nil || !got.Allowed {
			t.Errorf("the answer is %+v: nobody knows what others did", got)
		}
		if left := c.purposes(); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
	})
	t.Run("the request ends while the claim waits", func(t *testing.T) {
		c := unsure(newCluster(t, blue(nil)))
		c.deaf = true
		ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
		defer cancel()
		c.steerer.Handle(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: "ns", Operation: admissionv1.Create, Object: rawOf(t, corev1Service("a")),
		}})
		if left := c.purposes(); len(left) != 0 {
			t.Errorf("left are %v, where nobody gets an address until the claims are found", left)
		}
	})
	t.Run("everybody is always first", func(t *testing.T) {
		c := unsure(newCluster(t, blue(func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceCIDRs = []string{"kubernetes"} })))
		tries := 0
		c.creating = func(o *networkingv1.IPAddress) error {
			tries++
			return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "ipaddresses"}, o.Name)
		}
		if diff := cmp.Diff(answer{Allowed: true}, c.create(t, corev1Service("a"))); diff != "" || tries != attempts+lastAttempts {
			t.Errorf("after %d tries (-want +got):\n%s", tries, diff)
		}
	})
}

// Addresses of another replica are borrowed; one that does not answer is left alone, and its addresses with it.
func TestBorrowing(t *testing.T) {
	members := []string{"me", "other"}
	mine := allocator.NewShard(members, "me")
	split := func() (own, others []string) {
		for _, ip := range usableOf("10.0.1.0/29") {
			if mine.Owns(netip.MustParseAddr(ip)) {
				own = append(own, ip)
			} else {
				others = append(others, ip)
			}
		}
		return own, others
	}
	own, others := split()
	if len(own) == 0 || len(others) == 0 {
		t.Fatalf("own are %v, others' %v", own, others)
	}
	drain := func(t *testing.T, borrow func(*cluster, netip.Addr) (replicas.Grant, error)) (handed []string, c *cluster) {
		c = newCluster(t, blue(nil))
		c.rights = replicas.Rights{Shard: mine, Own: mine, Sure: true}
		var mu sync.Mutex
		c.borrow = func(a netip.Addr) (replicas.Grant, error) {
			mu.Lock()
			defer mu.Unlock()
			return borrow(c, a)
		}
		for i := range 7 {
			got := c.create(t, corev1Service("a"+string(rune('a'+i))))
			if got.IP != "" {
				handed = append(handed, got.IP)
				if err := c.accept("a"+string(rune('a'+i)), got.IP); err != nil {
					t.Error(err)
				}
			}
		}
		slices.Sort(handed)
		return handed, c
	}
	t.Run("lent", func(t *testing.T) {
		var asked []string
		handed, _ := drain(t, func(_ *cluster, a netip.Addr) (replicas.Grant, error) {
			asked = append(asked, a.String())
			return replicas.Outright, nil
		})
		if !slices.Equal(handed, usableOf("10.0.1.0/29")) {
			t.Errorf("handed out were %v, want all", handed)
		}
		slices.Sort(asked)
		if diff := cmp.Diff(others, asked); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
	})
	claims := func(c *cluster) (n int) {
		for _, write := range c.writes {
			if write == "create "+v1alpha1.PurposeClaim {
				n++
			}
		}
		return n
	}
	t.Run("inherited by who was asked", func(t *testing.T) {
		handed, c := drain(t, func(*cluster, netip.Addr) (replicas.Grant, error) { return replicas.Claimable, nil })
		if !slices.Equal(handed, usableOf("10.0.1.0/29")) || claims(c) != len(others) {
			t.Errorf("handed out were %v by %q, want all, those of others by claims", handed, c.writes)
		}
	})
	t.Run("inherited", func(t *testing.T) {
		c := newCluster(t, blue(nil))
		c.rights.Own = mine // and the Shard is everything
		for i := range 6 {
			name := "a" + string(rune('a'+i))
			if got := c.create(t, corev1Service(name)); c.accept(name, got.IP) != nil {
				t.Errorf("the answer is %+v", got)
			}
		}
		if got := claims(c); got != len(others) {
			t.Errorf("%q were written: %d claims, want one for each of %v", c.writes, got, others)
		}
	})
	t.Run("refused", func(t *testing.T) {
		if handed, _ := drain(t, func(*cluster, netip.Addr) (replicas.Grant, error) { return replicas.Refused, nil }); !slices.Equal(handed, own) {
			t.Errorf("handed out were %v, want the own ones %v", handed, own)
		}
	})
	t.Run("of two minds", func(t *testing.T) {
		handed, c := drain(t, func(*cluster, netip.Addr) (replicas.Grant, error) { return replicas.Elsewhere, nil })
		if !slices.Equal(handed, own) || claims(c) > 0 {
			t.Errorf("handed out were %v by %q, want the own ones %v", handed, c.writes, own)
		}
		await(t, "nothing is assumed any more", func() bool { return c.steerer.Ledger.Assumed() == 0 })
	})
	t.Run("no answer", func(t *testing.T) {
		handed, c := drain(t, func(c *cluster, _ netip.Addr) (replicas.Grant, error) {
			c.rights.Shard = allocator.Shard{} // by its silence we are its heir
			return replicas.Refused, replicas.ErrNoAnswer
		})
		if all := usableOf("10.0.1.0/29"); !slices.Equal(handed, all) {
			t.Errorf("handed out were %v, want all %v: the own ones, and those of the silent one by claims", handed, all)
		}
		await(t, "nothing is assumed any more", func() bool { return c.steerer.Ledger.Assumed() == 0 })
	})
}

// A replica that was asked before about the same request gave it an address that rested: our own watch is a moment behind.
func TestYieldedByAnotherReplica(t *testing.T) {
	s := blue(func(s *v1alpha1.ServiceCIDRPolicySpec) { s.CoolDown = &metav1.Duration{Duration: time.Hour} })
	s.addresses = append(s.addresses, ourAddress("10.0.1.3", v1alpha1.PurposeCooling, map[string]string{
		v1alpha1.AnnotationLastService: "ns/a", v1alpha1.AnnotationReleased: time.Now().UTC().Format(time.RFC3339Nano),
	}))
	c := newCluster(t, s)
	if got := c.create(t, corev1Service("b", "10.0.1.3")); got.Allowed {
		t.Error("it rests, and was allowed")
	}
	c.mu.Lock()
	delete(c.addresses, "10.0.1.3")
	c.mu.Unlock()
	if got := c.create(t, corev1Service("b", "10.0.1.3")); !got.Allowed {
		t.Errorf("its IPAddress is gone: %s", got.Message)
	}
}

// Many Services at once: each gets an address of its own, sure or not. Where it has to be claimed, and the watch is too far behind on a busy
// machine, the client asks again.
func TestManyAtOnce(t *testing.T) {
	for name, sure := range map[string]bool{"drawn": true, "claimed": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.0.0/24", "fd00::/120")}})
			c.rights.Sure = sure
			var mu sync.Mutex
			var all []string
			var atOnce atomic.Int32
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() {
					ask := func() answer { return c.create(t, dualStack(corev1Service("s"+string(rune('a'+i))))) }
					got := ask()
					if len(got.IPs) == 2 {
						atOnce.Add(1)
					}
					for end := time.Now().Add(10 * time.Second); !sure && len(got.IPs) < 2 && time.Now().Before(end); {
						got = ask()
					}
					mu.Lock()
					defer mu.Unlock()
					all = append(all, got.IPs...)
				})
			}
			wg.Wait()
			slices.Sort(all)
			if n := len(all); len(slices.Compact(all)) != n || n != 80 {
				t.Errorf("%d addresses were handed out, %d different ones; want 80", n, len(slices.Compact(all)))
			}
			if n := atOnce.Load(); n < 20 {
				t.Errorf("%d of 40 had theirs at the first try", n)
			}
		})
	}
}

// Replicas that are not sure settle every address by claims. None is handed out twice, whoever is asked. The API server finds nearly every address
// free that it is given: a replica whose watch is behind may claim one that was just handed out, and loses, but its claim stands there for a
// moment. Here all three settle the same addresses, which their Rights keep them from where they are not replaced by a test's.
func TestReplicasSideBySide(t *testing.T) {
	s := setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.0.0/25", "fd00::/121")}}
	c := newCluster(t, s)
	s.namespaces = namespaceReader{"ns": nil}
	c.rights.Sure = false
	steerers := []*ServiceSteerer{c.steerer, c.replica(t, s), c.replica(t, s)}
	var wg sync.WaitGroup
	var handed, claimed atomic.Int32
	var accepted sync.Map // IPv6 by IPv4
	for i, steerer := range steerers {
		for j := range 4 {
			wg.Go(func() {
				for k := range 8 {
					name := fmt.Sprintf("s%d-%d-%d", i, j, k)
					got := askOf(t, steerer, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
						Operation: admissionv1.Create, Object: rawOf(t, dualStack(corev1Service(name))),
					}})
					if len(got.IPs) == 2 {
						handed.Add(1)
						switch err := c.accept(name, got.IPs...); {
						case errors.Is(err, errClaimed):
							claimed.Add(1)
						case err != nil:
							t.Error(err)
						default:
							accepted.Store(got.IPs[0], got.IPs[1])
						}
					}
				}
			})
		}
	}
	wg.Wait()
	if n := handed.Load(); n < 48 { // on a slow machine some are left to the API server
		t.Errorf("%d of 96 Services got their addresses", n)
	}
	if n := claimed.Load(); n > handed.Load()/10 {
		t.Errorf("of %d Services %d met a claim", handed.Load(), n)
	}
	for i, steerer := range steerers {
		accepted.Range(func(four, six any) bool {
			for _, ip := range []any{four, six} {
				a := netip.MustParseAddr(ip.(string))
				await(t, fmt.Sprintf("replica %d has seen %s", i, a), func() bool { return steerer.Ledger.State(a) == allocator.Allocated })
			}
			return true
		})
		await(t, fmt.Sprintf("replica %d has seen everything", i), func() bool {
			steerer.Ledger.Sweep() // what was given in one family only, and is not used
			return steerer.Ledger.Assumed() == 0
		})
	}
	c.expectAtRest(t, nil)
}
