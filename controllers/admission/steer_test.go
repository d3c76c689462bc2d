package admission

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
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
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// blue is a cluster whose namespace ns has 10.0.1.0/29 and fd00:1::/125 exclusively.
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
	if !c.steerer.Index.Holds(netip.MustParseAddr(first.IP), addressindex.Holder{Service: types.NamespacedName{Namespace: "ns", Name: "a"}}) {
		t.Error("it is not the Service's any more")
	}
	other := c.create(t, corev1Service("b", first.IPs...))
	if other.Allowed {
		t.Error("another Service may have the reserved address")
	}
}

// What an earlier request of the same name was given says nothing about what this one may have: a
// tenant may send the first with labels, and the second without them.
func TestAskedAgainWithoutTheLabels(t *testing.T) {
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		c := newCluster(t, blue(func(s *v1alpha1.ServiceCIDRPolicySpec) {
			s.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}
		}))
		service := labelled(corev1Service("a"))
		service.Spec.IPFamilies = []corev1.IPFamily{family}
		first := c.create(t, service)
		if !slices.Contains(slices.Concat(usableOf("10.0.1.0/29"), usableOf("fd00:1::/125")), first.IP) {
			t.Fatalf("the answer is %+v", first)
		}
		if again := c.create(t, corev1Service("a", first.IPs...)); again.Allowed {
			t.Errorf("without labels it may have %s, which is for those with labels", first.IP)
		}
		if again := c.create(t, labelled(corev1Service("a", first.IPs...))); !again.Allowed {
			t.Errorf("with labels: %+v", again)
		}
	}
}

// A later review of a Service has what an earlier one was given, also when the earlier one gives
// up; and gives it back if it is refused.
func TestALaterReviewTakesOver(t *testing.T) {
	s := blue(nil)
	for _, ip := range usableOf("fd00:1::/125") {
		s.services = append(s.services, corev1Service("s"+strings.ReplaceAll(ip, ":", "-"), ip))
	}
	c := newCluster(t, s)
	review := func(uid string, service *corev1.Service) answer {
		return c.ask(t, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: types.UID(uid), Operation: admissionv1.Create, Namespace: "ns", Object: rawOf(t, service),
		}})
	}
	by := func(uid string) addressindex.Holder {
		return addressindex.Holder{Service: types.NamespacedName{Namespace: "ns", Name: "a"}, Review: types.UID(uid)}
	}
	first := review("1", corev1Service("a"))
	a := netip.MustParseAddr(first.IP)
	if !c.steerer.Index.Holds(a, by("1")) || !review("2", corev1Service("a", first.IP)).Allowed {
		t.Fatalf("the answer is %+v", first)
	}
	if !c.steerer.Index.Holds(a, by("2")) {
		t.Error("the later review has not taken over")
	}
	if got := review("3", dualStack(corev1Service("a", first.IP))); got.Allowed {
		t.Errorf("the other family is full, and the answer is %+v", got)
	}
	if n := c.steerer.Index.InFlight(); n != 0 {
		t.Errorf("%d are in flight after a refusal", n)
	}
}

// A request may wait for an address for a second. It is given none of a range that is cordoned
// meanwhile, and holds none.
func TestCordonedWhileARequestWaits(t *testing.T) {
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		c := newCluster(t, blue(nil))
		service := corev1Service("a")
		service.Spec.IPFamilies = []corev1.IPFamily{family}
		r, err := decode(admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "ns", Object: rawOf(t, service)}})
		if err != nil {
			t.Fatal(err)
		}
		in, err := c.steerer.gather(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		d, now := decide(in), in.policies.Inputs()
		now.Policies = blue(func(s *v1alpha1.ServiceCIDRPolicySpec) { s.Allocation = v1alpha1.AllocationCordoned }).policies
		c.steerer.Policies.Set(now)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		response, result := c.steerer.fill(ctx, in, d)
		cancel()
		if result != refused || !strings.Contains(response.Result.Message, `ServiceCIDRPolicy "blue": the range in which an `+string(family)+` address was found`) {
			t.Errorf("%s: the answer is %s, %+v", family, result, response)
		}
		if n := c.steerer.Index.InFlight(); n != 0 {
			t.Errorf("%s: %d are in flight", family, n)
		}
	}
}

// A full range: a Service falls back or is refused, and a dual-stack one leaves nothing behind.
func TestFullRange(t *testing.T) {
	full := func(s setting) setting {
		for _, ip := range usableOf("10.0.1.0/29") {
			s.services = append(s.services, corev1Service("s"+strings.ReplaceAll(ip, ".", "-"), ip))
		}
		return s
	}
	t.Run("Fail", func(t *testing.T) {
		c := newCluster(t, full(blue(nil)))
		want := answer{Message: `ServiceCIDRPolicy "blue": no IPv4 address is left for this Service: range is full; delete Services that are not needed, or ask an administrator`}
		six := dualStack(corev1Service("a"))
		six.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		for _, s := range []*corev1.Service{corev1Service("a"), dualStack(corev1Service("a")), six} {
			if diff := cmp.Diff(want, c.create(t, s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		c.expectAtRest(t, nil)
		got := c.steerer.Refusals.pending["blue"]
		why := "no IPv4 address is left in its ranges (10.0.1.0/29); delete Services there, add a ServiceCIDR to the policy, or set onFull: Fallback"
		if len(got) != 1 || got[0].Service != "ns/a" || got[0].Count != 3 || got[0].Message != why {
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
		want := answer{Message: "no IPv4 address is left for this Service: range is full; delete Services that are not needed, or ask an administrator"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("everything is full, and nobody has anything for himself", func(t *testing.T) {
		s := full(setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.1.0/29")}})
		for _, service := range s.services {
			a := netip.MustParseAddr(service.Spec.ClusterIP)
			s.addresses = append(s.addresses, upstream.NewIPAddress(a, types.NamespacedName{Namespace: "ns", Name: service.Name}))
		}
		c := newCluster(t, s)
		if diff := cmp.Diff(answer{Allowed: true}, c.create(t, corev1Service("a"))); diff != "" {
			t.Errorf("it is left to the API server (-want +got):\n%s", diff)
		}
		s.addresses = s.addresses[1:]
		got := newCluster(t, s).create(t, corev1Service("a"))
		if diff := cmp.Diff(answer{Message: "no address is left for this Service: range is full; try again in a moment"}, got); diff != "" {
			t.Errorf("an IPAddress is missing, and its address would be given to a second Service: %+v", got)
		}
	})
}

// The Service of a reservation gets it unasked, and by asking; our IPAddress makes room first.
func TestReservedForTheService(t *testing.T) {
	reserved := func() setting {
		s := blue(func(s *v1alpha1.ServiceCIDRPolicySpec) {
			keeping("four", "10.0.1.2-10.0.1.3", "ns/a")(s)
			keeping("six", "fd00:1::4", "ns/a")(s)
			keeping("nobody", "10.0.1.4", "")(s)
		})
		for _, ip := range []string{"10.0.1.2", "10.0.1.3", "10.0.1.4", "fd00:1::4"} {
			s.addresses = append(s.addresses, reservation(ip))
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
		await(t, "nothing is in flight any more", func() bool { return c.steerer.Index.InFlight() == 0 })
		c.expectAtRest(t, map[string]string{"10.0.1.3": v1alpha1.PurposeReservation, "10.0.1.4": v1alpha1.PurposeReservation})
	})
	t.Run("while the watch shows the one of its name that was deleted", func(t *testing.T) {
		c := newCluster(t, reserved())
		first := c.create(t, corev1Service("a"))
		if err := c.accept("a", first.IPs...); err != nil {
			t.Fatal(err)
		}
		held := netip.MustParseAddr(first.IP)
		await(t, "the Service is there", func() bool {
			return c.steerer.Index.HeldBy(held, types.NamespacedName{Namespace: "ns", Name: "a"}) && c.steerer.Index.InFlight() == 0
		})
		time.AfterFunc(50*time.Millisecond, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.source(c.services["a"]).Delete(c.services["a"])
			c.drop(c.addresses[first.IP])
		})
		if got := c.create(t, corev1Service("a")); got.IP != first.IP {
			t.Errorf("the answer is %+v, want %s again", got, first.IP)
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
		if state := c.steerer.Index.State(netip.MustParseAddr("10.0.1.2")); state != allocator.Assumed {
			t.Errorf("what the other one has is %s", state)
		}
	})
	t.Run("the API server is away", func(t *testing.T) {
		c := newCluster(t, reserved())
		c.deleting = func(*networkingv1.IPAddress) error { return errDown }
		got := c.create(t, corev1Service("a"))
		if !got.Allowed || !slices.Contains([]string{"10.0.1.1", "10.0.1.5", "10.0.1.6"}, got.IP) {
			t.Errorf("the answer is %+v, want another address of the range", got)
		}
		c.steerer.Index.Forget(netip.MustParseAddr(got.IP), addressindex.Holder{Service: types.NamespacedName{Namespace: "ns", Name: "a"}})
		c.expectAtRest(t, map[string]string{
			"10.0.1.2": v1alpha1.PurposeReservation, "10.0.1.3": v1alpha1.PurposeReservation,
			"10.0.1.4": v1alpha1.PurposeReservation, "fd00:1::4": v1alpha1.PurposeReservation,
		})
	})
}

// What goes wrong here lets the request pass.
func TestFailsOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		setting setting
		request func(*admission.Request)
	}{
		"the namespace cannot be read":      {func() setting { s := blue(nil); s.namespaces = downReader{}; return s }(), nil},
		"the Service cannot be read":        {blue(nil), func(r *admission.Request) { r.Object.Raw = []byte("{") }},
		"the Service before cannot be read": {blue(nil), func(r *admission.Request) { r.Operation = admissionv1.Update }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, tc.setting)
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

// A leader that was started a moment ago, or that cannot read what it needs, is not taken for one
// that lets a Service pass: the replica that asks has read everything long ago.
func TestWhatALeaderCannotDecideIsHandedBack(t *testing.T) {
	unreadable := blue(nil)
	unreadable.namespaces = downReader{}
	for name, change := range map[string]func(*ServiceSteerer){
		"no address is read yet": func(s *ServiceSteerer) {
			s.Namespaces, s.Index = namespaceReader{"ns": {"team": "ns"}}, addressindex.New()
			if err := s.Index.Watch(t.Context(), unlisted{}); err != nil {
				t.Fatal(err)
			}
		},
		"no policy is read yet": func(s *ServiceSteerer) {
			s.Namespaces, s.Policies = namespaceReader{"ns": {"team": "ns"}}, steering.NewCache()
		},
		"the namespace cannot be read": func(*ServiceSteerer) {},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, unreadable)
			c.steerer.ForReplicas = true
			change(c.steerer)
			r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "ns", Object: rawOf(t, dualStack(corev1Service("a")))}}
			if got := c.steerer.Handle(t.Context(), r); !got.Allowed || got.Result.Code != http.StatusServiceUnavailable {
				t.Errorf("a replica gets the answer %+v", got)
			}
			c.steerer.ForReplicas = false
			if got := c.create(t, dualStack(corev1Service("a"))); !got.Allowed {
				t.Errorf("an API server gets the answer %+v", got)
			}
		})
	}
}

// unlisted are informers that have listed nothing.
type unlisted struct{ cache.Informers }

// GetInformer implements cache.Informers.
func (unlisted) GetInformer(_ context.Context, of client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return toolscache.NewSharedIndexInformer(nil, of, 0, toolscache.Indexers{}), nil
}

// The API server of a replica may be away while another one asks it. The one that asks refuses what
// has an IPAddress; one whose IPAddress is lost it takes for free.
func TestAnAddressWithoutItsIPAddressStaysItsService(t *testing.T) {
	for _, ip := range []string{"10.0.0.9", "fd00::9"} {
		s := blue(nil)
		s.services = []*corev1.Service{corev1Service("web", ip)}
		lost := newCluster(t, s)
		s.addresses = []*networkingv1.IPAddress{upstream.NewIPAddress(netip.MustParseAddr(ip), types.NamespacedName{Namespace: "ns", Name: "web"})}
		covered := newCluster(t, s)
		lost.down, covered.down = true, true

		refused := answer{Message: "failed to allocate IP " + ip + ": provided IP is already allocated; choose another address, leave the choice to the cluster, or ask an administrator"}
		if diff := cmp.Diff(refused, lost.create(t, corev1Service("db", ip))); diff != "" {
			t.Errorf("%s has no IPAddress, and another Service may have it (-want +got):\n%s", ip, diff)
		}
		if diff := cmp.Diff(answer{Allowed: true}, lost.create(t, corev1Service("web", ip))); diff != "" {
			t.Errorf("%s, for its own Service (-want +got):\n%s", ip, diff)
		}
		if diff := cmp.Diff(answer{Allowed: true}, covered.create(t, corev1Service("db", ip))); diff != "" {
			t.Errorf("%s has an IPAddress, and it is not left to the API server (-want +got):\n%s", ip, diff)
		}
	}
}

// A Service that waits for a finalizer, as those of load balancers do for minutes, has its address
// until that is gone, whether or not its IPAddress is lost meanwhile.
func TestAnAddressIsThatOfAServiceThatWaitsForItsFinalizers(t *testing.T) {
	for _, ip := range []string{"10.0.0.9", "fd00::9"} {
		s, web := blue(nil), corev1Service("web", ip)
		web.DeletionTimestamp, web.Finalizers = new(metav1.Now()), []string{"service.kubernetes.io/load-balancer-cleanup"}
		s.services = []*corev1.Service{web}
		c := newCluster(t, s)
		if got := c.create(t, corev1Service("db", ip)); got.Allowed || !strings.Contains(got.Message, "already allocated") {
			t.Errorf("%s goes to a second Service: %+v", ip, got)
		}
	}
}

// All creations come here. What needs no address is answered without a look at anything.
func TestLeftToTheAPIServer(t *testing.T) {
	headless, named := corev1Service("a", corev1.ClusterIPNone), corev1Service("a")
	named.Spec.Type, named.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	for name, service := range map[string]*corev1.Service{"headless": headless, "an external name": named} {
		t.Run(name, func(t *testing.T) {
			s := blue(nil)
			s.namespaces = downReader{}
			r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "ns", Object: rawOf(t, service)}}
			response, result := newCluster(t, s).steerer.answer(t.Context(), r)
			if !response.Allowed || len(response.Patches) > 0 || result != left {
				t.Errorf("the answer is %+v, %q", response, result)
			}
		})
	}
}

type downReader struct{ client.Reader }

// Get implements client.Reader.
func (downReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errDown
}

// A Service in a namespace that the cache lacks is steered by what the API server says of it.
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

// leaderFunc is a Leader.
type leaderFunc func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, bool)

// Review implements Leader.
func (f leaderFunc) Review(ctx context.Context, r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, bool) {
	return f(ctx, r)
}

// A follower itself answers what needs no address, and all when the leader does not answer.
func TestHandingOn(t *testing.T) {
	headless := corev1Service("a", corev1.ClusterIPNone)
	for name, tc := range map[string]struct {
		service *corev1.Service
		old     *corev1.Service
		asks    bool
	}{
		"an address is needed":     {service: corev1Service("a"), asks: true},
		"an address is named":      {service: corev1Service("a", "10.0.0.9"), asks: true},
		"an address is added":      {service: dualStack(corev1Service("a", "10.0.0.9")), old: corev1Service("a", "10.0.0.9"), asks: true},
		"none is needed":           {service: headless},
		"nothing changes about it": {service: corev1Service("a", "10.0.0.9"), old: corev1Service("a", "10.0.0.9")},
	} {
		for _, answers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the leader answers: %t", name, answers), func(t *testing.T) {
				c := newCluster(t, setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.0.0/24", "fd00::/120")}})
				asked := 0
				c.steerer.Leader = leaderFunc(func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, bool) {
					asked++
					return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"by the leader"}}, answers
				})
				r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: rawOf(t, tc.service)}}
				if tc.old != nil {
					r.Operation, r.OldObject = admissionv1.Update, rawOf(t, tc.old)
				}
				got := c.ask(t, r)
				if (asked == 1) != tc.asks || asked > 1 {
					t.Errorf("the leader was asked %d times", asked)
				}
				byLeader := tc.asks && answers
				if !got.Allowed || slices.Contains(got.Warnings, "by the leader") != byLeader || byLeader && c.steerer.Index.InFlight() > 0 {
					t.Errorf("the answer is %+v", got)
				}
				if wants := len(requestOf(t, tc.service, nil).missing(allocator.Families)) > 0; wants && tc.old == nil && !byLeader && got.IP == "" {
					t.Error("it passed unsteered")
				}
			})
		}
	}
}

// What a request has drawn may yield to another Service while it waits for an address of the other
// family. It is drawn anew then, and not given to both.
func TestYieldedWhileWaiting(t *testing.T) {
	for wait, first := range map[string]string{"fd00:1::/125": "10.0.1.0/29", "10.0.1.0/29": "fd00:1::/125"} {
		t.Run("waiting for "+wait, func(t *testing.T) {
			c := newCluster(t, blue(nil))
			index := c.steerer.Index
			other := addressindex.Holder{Service: types.NamespacedName{Namespace: "other", Name: "s"}}
			for _, ip := range usableOf(wait) {
				index.Take(netip.MustParseAddr(ip), other)
			}
			service := dualStack(corev1Service("a"))
			if netip.MustParsePrefix(first).Addr().Is6() {
				service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			}
			answers := make(chan answer)
			go func() { answers <- c.create(t, service) }()
			mine := addressindex.Holder{Service: types.NamespacedName{Namespace: "ns", Name: "a"}}
			var drawn netip.Addr
			await(t, "the first address is drawn", func() bool {
				for _, ip := range usableOf(first) {
					if a := netip.MustParseAddr(ip); index.Holds(a, mine) {
						drawn = a
					}
				}
				return drawn.IsValid()
			})
			index.Forget(drawn, mine)
			index.Take(drawn, other)
			index.Forget(netip.MustParseAddr(usableOf(wait)[0]), other)
			got := <-answers
			if len(got.IPs) != 2 || got.IP == drawn.String() {
				t.Fatalf("the answer is %+v, want another address than %s, and one of %s", got, drawn, wait)
			}
			for _, ip := range got.IPs {
				if !index.Holds(netip.MustParseAddr(ip), mine) {
					t.Errorf("%s is not in flight for the Service", ip)
				}
			}
		})
	}
}

// A request whose sender has given up takes no address: the sender draws one by itself, and this
// one would be kept for no Service.
func TestNobodyWaitsForTheAnswer(t *testing.T) {
	for name, service := range map[string]*corev1.Service{"drawn": corev1Service("a"), "chosen": corev1Service("a", "10.0.0.9"), "chosen and drawn": dualStack(corev1Service("a", "10.0.0.9"))} {
		c := newCluster(t, setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.0.0/24", "fd00::/120")}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "ns", Object: rawOf(t, service)}}
		if response := c.steerer.Handle(ctx, r); !response.Allowed || len(response.Patches) > 0 || c.steerer.Index.InFlight() > 0 {
			t.Errorf("%s: %d are in flight, the answer is %+v", name, c.steerer.Index.InFlight(), response)
		}
	}
}

// An address that a living Service has is refused to other Services, even without its IPAddress.
func TestAddressOfALivingService(t *testing.T) {
	for _, ip := range []string{"10.0.0.9", "fd00::9"} {
		s := setting{
			cidrs:    []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.0.0/24", "fd00::/120")},
			services: []*corev1.Service{corev1Service("lives", ip)},
		}
		c := newCluster(t, s)
		want := answer{Message: "failed to allocate IP " + ip + ": provided IP is already allocated; choose another address, leave the choice to the cluster, or ask an administrator"}
		if diff := cmp.Diff(want, c.create(t, corev1Service("b", ip))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		delete(c.services, "lives") // and the watch does not show it yet
		if got := c.create(t, corev1Service("b", ip)); !got.Allowed {
			t.Errorf("the Service is gone: %s", got.Message)
		}
	}
}

// What was taken for a request that is refused in the end is given back at once.
func TestRefusedGivesBack(t *testing.T) {
	s := blue(keeping("r", "10.0.1.2", "ns/a"))
	s.addresses = append(s.addresses, reservation("10.0.1.2"))
	for _, ip := range usableOf("fd00:1::/125") {
		s.services = append(s.services, corev1Service("s"+strings.ReplaceAll(ip, ":", "-"), ip))
	}
	for name, service := range map[string]*corev1.Service{"reserved": corev1Service("a"), "chosen": corev1Service("b", "10.0.1.3")} {
		c := newCluster(t, s)
		if got := c.create(t, dualStack(service)); got.Allowed {
			t.Errorf("%s: there is no IPv6 address, and the answer is %+v", name, got)
		}
		begin := time.Now()
		await(t, name+": nothing is in flight after a refusal", func() bool { c.steerer.Index.Sweep(); return c.steerer.Index.InFlight() == 0 })
		// The deletion of the reservation's IPAddress may be seen later, and keeps it for 2 s more.
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
	}
}

// Services whose names the API server has yet to generate are not taken for one another.
func TestGeneratedNames(t *testing.T) {
	c := newCluster(t, setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.0.0/24", "fd00::/120")}})
	nameless := func(ips ...string) *corev1.Service {
		s := corev1Service("", ips...)
		s.GenerateName = "web-"
		return s
	}
	first, second := c.create(t, nameless()), c.create(t, nameless())
	if first.IP == "" || first.IP == second.IP {
		t.Fatalf("the answers are %+v and %+v", first, second)
	}
	if got := c.create(t, nameless(first.IPs...)); !got.Allowed || got.IPs != nil {
		t.Errorf("asked again about the first: %+v", got)
	}
	// What one of them got is not taken for the other one's: each has its own in flight.
	if n := c.steerer.Index.InFlight(); n != 2 {
		t.Errorf("%d are in flight", n)
	}
}
