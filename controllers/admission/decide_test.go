package admission

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

var four = []allocator.Family{allocator.IPv4}

// decided is a decision in short.
type decided struct {
	Policy, Message string
	Why             string // for admins; empty where it is the message
	Take, Have      []string
	// Fill are the drawn families, Kept the reservations, Steered the policies for them.
	Fill          []allocator.Family
	Kept, Steered []string
	Warnings      []string
}

func inShort(from decision) decided {
	d := decided{Have: from.have, Warnings: from.warnings}
	if from.refusal != nil {
		return decided{Policy: from.refusal.Policy, Message: from.refusal.Message, Why: from.refusal.Reason}
	}
	for _, a := range from.take {
		d.Take = append(d.Take, a.String())
	}
	for _, s := range from.fill {
		d.Fill = append(d.Fill, s.family)
		for _, r := range s.reserved {
			d.Kept = append(d.Kept, r.Name)
		}
		for _, p := range s.route.Policies {
			d.Steered = append(d.Steered, p.Name)
		}
	}
	return d
}

// decideCase is a case of the table below.
type decideCase struct {
	service, old *corev1.Service
	// more: the namespace is one whose Services may have additional addresses.
	more   bool
	chosen map[string]choice
	want   decided
}

func notAllowed(serviceCIDR string) string {
	return "annotation clusterip-operator.io/additional-ips-from: no ServiceCIDRPolicy allows this Service additional addresses of ServiceCIDR " + serviceCIDR +
		"; an administrator allows it by additionalAddresses: true in a policy that selects the Service and has the ServiceCIDR"
}

func annotated(s *corev1.Service, from string) *corev1.Service {
	s.Annotations = map[string]string{v1alpha1.AnnotationAdditionalFrom: from}
	return s
}

func labelled(s *corev1.Service) *corev1.Service {
	s.Labels = map[string]string{"team": "blue"}
	return s
}

// The cluster of TestDecide: blue Services have the ranges blue exclusively, where addresses cool
// down; ns/dns has a reserved address of each family; all other Services have the default range.
func decidePolicies() *steering.Compiled {
	w := steering.Inputs{}
	for name, cidrs := range map[string][]string{"kubernetes": {"10.0.0.0/24", "fd00::/120"}, "blue": {"10.0.1.0/24", "fd00:1::/120"}} {
		w.ServiceCIDRs = append(w.ServiceCIDRs, addressindex.NewServiceCIDR(rangeOf(name, cidrs...)))
	}
	w.Policies = append(w.Policies, policyOfRanges("blue", func(s *v1alpha1.ServiceCIDRPolicySpec) {
		s.Exclusive, s.CoolDown = true, &metav1.Duration{Duration: time.Hour}
		s.ServiceSelector, s.AdditionalAddresses = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}, true
	}, "blue"), policyOfRanges("more", func(s *v1alpha1.ServiceCIDRPolicySpec) {
		s.AdditionalAddresses, s.Priority, s.NamespaceSelector = true, -1, &metav1.LabelSelector{MatchLabels: map[string]string{"more": "yes"}}
	}, "kubernetes", "blue", "green", "grey"), policyOfRanges("reserving", func(s *v1alpha1.ServiceCIDRPolicySpec) {
		keeping("four", "10.0.0.10", "ns/dns")(s)
		keeping("six", "fd00::10", "ns/dns")(s)
		keeping("nobody", "10.0.0.11", "")(s)
		keeping("cool", "10.0.1.10", "ns/dns")(s)
	}))
	return steering.Compile(w)
}

func TestDecide(t *testing.T) {
	released := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	after := func(name string) *addressindex.CoolDown {
		return &addressindex.CoolDown{Service: types.NamespacedName{Namespace: "ns", Name: name}, Released: released}
	}
	const elsewhere = "; choose another address, leave the choice to the cluster, or ask an administrator"
	taken := func(a string) string {
		return "failed to allocate IP " + a + ": provided IP is already allocated" + elsewhere
	}
	cools := func(a, last string) string {
		return "the address " + a + " cools down until 2026-11-21T13:00:00Z after Service " + last + " had it; before that it is for a Service of that name, for one that a reservation names, " +
			"or for all when coolDown is shorter"
	}
	for name, tc := range map[string]decideCase{
		"nobody steers it": {service: corev1Service("a"), want: decided{Fill: four}},
		"two families":     {service: dualStack(corev1Service("a")), want: decided{Fill: allocator.Families}},
		"steered":          {service: labelled(corev1Service("a")), want: decided{Fill: four, Steered: []string{"blue"}}},
		"reserved for it":  {service: dualStack(corev1Service("dns")), want: decided{Fill: allocator.Families, Kept: []string{"four", "cool", "six"}}},
		"a static address": {service: corev1Service("a", "10.0.0.77"), want: decided{Take: []string{"10.0.0.77"}, Have: []string{"10.0.0.77"}}},
		"a static address of one family, the other drawn": {service: dualStack(corev1Service("a", "fd00::77")),
			want: decided{Take: []string{"fd00::77"}, Have: []string{"fd00::77"}, Fill: four}},
		"outside of all ranges": {service: corev1Service("a", "192.0.2.1"), want: decided{Take: []string{"192.0.2.1"}, Have: []string{"192.0.2.1"}}},
		"no address at all":     {service: corev1Service("a", "ten"), want: decided{Have: []string{"ten"}}},
		"headless":              {service: corev1Service("a", corev1.ClusterIPNone), want: decided{Have: []string{corev1.ClusterIPNone}}},
		"an update of something else": {service: dualStack(corev1Service("a", "10.0.0.77", "fd00::77")), old: dualStack(corev1Service("a", "10.0.0.77", "fd00::77")),
			want: decided{Have: []string{"10.0.0.77", "fd00::77"}}},
		"an update of a Service in a range that was closed since": {service: corev1Service("a", "10.0.1.77"), old: corev1Service("a", "10.0.1.77"),
			want: decided{Have: []string{"10.0.1.77"}}},
		"an old client that knows one address": {service: func() *corev1.Service { s := dualStack(corev1Service("a")); s.Spec.ClusterIP = "10.0.0.77"; return s }(),
			old: dualStack(corev1Service("a", "10.0.0.77", "fd00::77")), want: decided{Have: []string{"10.0.0.77", "fd00::77"}}},
		"a second family": {service: dualStack(corev1Service("a", "fd00::77")), old: corev1Service("a", "fd00::77"),
			want: decided{Have: []string{"fd00::77"}, Fill: four}},
		"a closed range": {service: corev1Service("a", "10.0.1.77"), want: decided{Policy: "blue",
			Message: `ServiceCIDRPolicy "blue": the address 10.0.1.77 is not open to this Service` + elsewhere, Why: "the address 10.0.1.77 lies in a range that the policy keeps for the Services that it selects"}},
		"a closed range, as second address": {service: dualStack(corev1Service("a", "10.0.0.77", "fd00:1::77")), want: decided{Policy: "blue",
			Message: `ServiceCIDRPolicy "blue": the address fd00:1::77 is not open to this Service` + elsewhere, Why: "the address fd00:1::77 lies in a range that the policy keeps for the Services that it selects"}},
		"a closed range, by an update that adds a family": {service: dualStack(corev1Service("a", "10.0.0.77", "fd00:1::77")), old: corev1Service("a", "10.0.0.77"),
			want: decided{Policy: "blue", Message: `ServiceCIDRPolicy "blue": the address fd00:1::77 is not open to this Service` + elsewhere, Why: "the address fd00:1::77 lies in a range that the policy keeps for the Services that it selects"}},
		"a closed range, written as IPv4 in IPv6": {service: corev1Service("a", "::ffff:10.0.1.77"), want: decided{
			Message: "spec.clusterIPs: write the address in its shortest form, in lower case: 10.0.1.77 instead of ::ffff:10.0.1.77"}},
		"its own closed range": {service: labelled(corev1Service("a", "10.0.1.77")), want: decided{Take: []string{"10.0.1.77"}, Have: []string{"10.0.1.77"}}},
		"its own reservation":  {service: corev1Service("dns", "10.0.0.10"), want: decided{Take: []string{"10.0.0.10"}, Have: []string{"10.0.0.10"}}},
		"another's reservation": {service: corev1Service("a", "fd00::10"), want: decided{Policy: "reserving",
			Message: taken("fd00::10"), Why: `the address fd00::10 is kept for Service ns/dns by the reservation "six"`}},
		"nobody's reservation": {service: corev1Service("dns", "10.0.0.11"), want: decided{Policy: "reserving",
			Message: taken("10.0.0.11"), Why: `the address 10.0.0.11 is kept from all by the reservation "nobody"`}},
		"it cools after another one of its namespace": {service: labelled(corev1Service("a", "10.0.1.9")),
			chosen: map[string]choice{"10.0.1.9": {state: allocator.Cooling, coolDown: after("b")}}, want: decided{Policy: "blue",
				Message: "failed to allocate IP 10.0.1.9: provided IP is already allocated: it cools down until 2026-11-21T13:00:00Z after Service ns/b had it, which alone may have it back before that" + elsewhere +
					` (ServiceCIDRPolicy "blue": coolDown, or a reservation for this Service)`,
				Why: cools("10.0.1.9", "ns/b")}},
		"it cools after one of another namespace": {service: labelled(corev1Service("a", "fd00:1::9")),
			chosen: map[string]choice{"fd00:1::9": {state: allocator.Cooling, coolDown: &addressindex.CoolDown{Service: types.NamespacedName{Namespace: "other", Name: "a"}, Released: released}}},
			want:   decided{Policy: "blue", Message: taken("fd00:1::9"), Why: cools("fd00:1::9", "other/a")}},
		"it cools after this one": {service: labelled(corev1Service("a", "10.0.1.9")), chosen: map[string]choice{"10.0.1.9": {state: allocator.Cooling, coolDown: after("a")}},
			want: decided{Take: []string{"10.0.1.9"}, Have: []string{"10.0.1.9"}}},
		"it cools, and its policy has no cool-down any more": {service: corev1Service("a", "10.0.0.9"),
			chosen: map[string]choice{"10.0.0.9": {state: allocator.Cooling, coolDown: after("b")}}, want: decided{Take: []string{"10.0.0.9"}, Have: []string{"10.0.0.9"}}},
		"it cools no more: somebody has it": {service: labelled(corev1Service("a", "10.0.1.9")),
			chosen: map[string]choice{"10.0.1.9": {state: allocator.Allocated, coolDown: after("b")}}, want: decided{Take: []string{"10.0.1.9"}, Have: []string{"10.0.1.9"}}},
		"a living Service has it": {service: corev1Service("a", "10.0.0.9"),
			chosen: map[string]choice{"10.0.0.9": {state: allocator.Allocated, holder: types.NamespacedName{Namespace: "ns", Name: "b"}}}, want: decided{
				Message: taken("10.0.0.9"), Why: "Service ns/b has the address 10.0.0.9"}},
		"it cools, and is reserved for this one": {service: corev1Service("dns", "10.0.1.10"),
			chosen: map[string]choice{"10.0.1.10": {state: allocator.Cooling, coolDown: after("b")}}, want: decided{Take: []string{"10.0.1.10"}, Have: []string{"10.0.1.10"}}},
		"additional addresses of its own":             {service: labelled(annotated(corev1Service("a"), "blue")), want: decided{Fill: four, Steered: []string{"blue"}}},
		"additional addresses that no policy allows":  {service: labelled(annotated(corev1Service("a"), "blue,kubernetes")), want: decided{Message: notAllowed("kubernetes")}},
		"additional addresses of what does not exist": {service: annotated(corev1Service("a"), "nowhere"), want: decided{Message: notAllowed("nowhere")}},
		"additional addresses of others": {service: annotated(corev1Service("a"), "kubernetes,blue"), more: true, want: decided{Policy: "blue",
			Message: `ServiceCIDRPolicy "blue": ServiceCIDR blue is not open to this Service`, Why: "the policy keeps 10.0.1.0/24 for the Services that it selects"}},
		"additional addresses of others, which it has had": {service: annotated(corev1Service("a", "10.0.0.77"), "blue"),
			old: annotated(corev1Service("a", "10.0.0.77"), "blue"), want: decided{Have: []string{"10.0.0.77"}}},
		"additional addresses, and others that no policy allows any more": {service: labelled(annotated(corev1Service("a", "10.0.0.77"), "kubernetes,blue")),
			old: labelled(annotated(corev1Service("a", "10.0.0.77"), "kubernetes")), want: decided{Have: []string{"10.0.0.77"}}},
		"additional addresses of nothing": {service: annotated(corev1Service("a"), "green,grey"), more: true, want: decided{Fill: four, Steered: []string{"more"}, Warnings: []string{
			"annotation clusterip-operator.io/additional-ips-from: there is no ServiceCIDR green, grey yet; the Service gets its address when there is"}}},
		"additional junk": {service: annotated(corev1Service("a"), "kubernetes;blue"), want: decided{
			Message: `annotation clusterip-operator.io/additional-ips-from: "kubernetes;blue" is no name of a ServiceCIDR; write names of ServiceCIDRs, separated by commas`}},
		"additional junk that was there before": {service: annotated(corev1Service("a", "10.0.0.77"), ";"), old: annotated(corev1Service("a", "10.0.0.77"), ";"),
			want: decided{Have: []string{"10.0.0.77"}}},
		"additional junk taken away": {service: corev1Service("a", "10.0.0.77"), old: annotated(corev1Service("a", "10.0.0.77"), ";"), want: decided{Have: []string{"10.0.0.77"}}},
		"an ExternalName becomes a ClusterIP": {service: corev1Service("a"), old: &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}},
			want: decided{Fill: four}},
	} {
		t.Run(name, func(t *testing.T) {
			w := inputs{request: requestOf(t, tc.service, tc.old), policies: decidePolicies()}
			w.subject = steering.Service{NamespacedName: w.service.key(), Labels: w.service.Metadata.Labels}
			if tc.more {
				w.subject.NamespaceLabels = map[string]string{"more": "yes"}
			}
			for _, a := range w.named {
				c := tc.chosen[a.String()]
				c.address = a
				w.chosen = append(w.chosen, c)
			}
			if diff := cmp.Diff(tc.want, inShort(decide(w)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// requestOf reads a creation of a Service in the namespace ns, or an update, as the webhook does.
func requestOf(t *testing.T, s, old *corev1.Service) request {
	t.Helper()
	asked := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "ns", Object: rawOf(t, s)}}
	if old != nil {
		asked.Operation, asked.OldObject = admissionv1.Update, rawOf(t, old)
	}
	r, err := decode(asked)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What is no plain address in the index' eyes is one text all the same: look-ups unmap.
func TestNamedUnmaps(t *testing.T) {
	got := requestOf(t, corev1Service("a", "::ffff:10.0.0.9", "FD00::9"), nil).named
	if len(got) != 2 || got[0] != netip.MustParseAddr("10.0.0.9") || got[1] != netip.MustParseAddr("fd00::9") {
		t.Errorf("named are %v", got)
	}
}
