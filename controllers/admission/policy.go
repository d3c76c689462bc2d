package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// PolicyGuard refuses ServiceCIDRPolicies that cannot be followed and reservations of what others have reserved, and warns of what a
// policy will have to wait for, or lose to others, and of whom it may hurt. All fields are required; it is safe for concurrent use. Where it lacks information
// it lets the request pass: the conditions of the policy will tell.
type PolicyGuard struct {
	// Client lists policies and ServiceCIDRs from the cache.
	Client   client.Reader
	Policies *steering.Cache
	Clock    clock.PassiveClock
}

var _ admission.Handler = (*PolicyGuard)(nil)

// To foresee what a policy will do, the whole cluster is compiled as it would be with it. That is left out where it may cost more than there
// is time for, for a request that is late passes unseen, with its mistakes: in a cluster with more than policiesForeseen policies, and when
// less than timeForeseeing is left. What is wrong with a policy, and whose addresses it takes, is found without it.
const (
	policiesForeseen = 200
	timeForeseeing   = time.Second
)

// Handle implements admission.Handler.
func (g *PolicyGuard) Handle(ctx context.Context, req admission.Request) admission.Response {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	before, now, err := policiesOf(req.AdmissionRequest)
	if err != nil {
		log.FromContext(ctx).Error(err, "Letting a ServiceCIDRPolicy pass unseen", "policy", req.Name, "user", req.UserInfo.Username)
		return admission.Allowed("")
	}
	if now == nil || before != nil && equality.Semantic.DeepEqual(before.Spec, now.Spec) {
		return admission.Allowed("")
	}
	if mistakes := steering.Validate(now); len(mistakes) > 0 {
		return g.denied(now, mistakes)
	}
	if !g.Policies.Synced() {
		return admission.Allowed("")
	}
	if stolen := overlappingReservations(before, now, g.Policies.Current()); len(stolen) > 0 {
		return g.denied(now, stolen)
	}
	warnings := careless(now.Spec)
	if foreseeable(ctx, g.Policies.Current()) {
		more, err := g.warnings(ctx, now)
		if err != nil {
			log.FromContext(ctx).Error(err, "Saying little about a ServiceCIDRPolicy", "policy", req.Name)
		}
		warnings = append(warnings, more...)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// foreseeable reports whether there is time to compile the cluster.
func foreseeable(ctx context.Context, s *steering.Compiled) bool {
	deadline, ok := ctx.Deadline()
	return len(s.Policies()) <= policiesForeseen && (!ok || time.Until(deadline) >= timeForeseeing)
}

func (g *PolicyGuard) denied(p *v1alpha1.ServiceCIDRPolicy, why []string) admission.Response {
	return admission.Denied(fmt.Sprintf("ServiceCIDRPolicy %q: %s", p.Name, strings.Join(why, "; ")))
}

// policiesOf reads the policy before and after a request: none before a creation, none after anything but a creation or a change.
func policiesOf(req admissionv1.AdmissionRequest) (before, now *v1alpha1.ServiceCIDRPolicy, err error) {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return nil, nil, nil
	}
	now = &v1alpha1.ServiceCIDRPolicy{}
	if err := json.Unmarshal(req.Object.Raw, now); err != nil {
		return nil, nil, fmt.Errorf("reading the policy of the request: %w", err)
	}
	if req.Operation == admissionv1.Create {
		return nil, now, nil
	}
	before = &v1alpha1.ServiceCIDRPolicy{}
	if err := json.Unmarshal(req.OldObject.Raw, before); err != nil {
		return nil, nil, fmt.Errorf("reading the policy before the request: %w", err)
	}
	return before, now, nil
}

// overlappingReservations says which reservations take what another policy has reserved. Those that were there before the change are left
// alone: a policy that lost its part must still be changed freely. The policy has passed Validate, so there are few addresses.
func overlappingReservations(before, now *v1alpha1.ServiceCIDRPolicy, s *steering.Compiled) []string {
	var out []string
	for _, mine := range now.Spec.Reservations {
		if before != nil && slices.ContainsFunc(before.Spec.Reservations, func(r v1alpha1.Reservation) bool { return r.Address == mine.Address }) {
			continue
		}
		span, err := steering.ParseReservation(mine.Address)
		if err != nil {
			continue
		}
		var last steering.Reservation
		for a := span.First; span.Contains(a); a = a.Next() {
			theirs, ok := s.Reservation(a)
			if !ok || theirs.Policy == now.Name || theirs.Policy == last.Policy && theirs.Name == last.Name {
				continue
			}
			out = append(out, fmt.Sprintf("reservations[%s]: ServiceCIDRPolicy %q has reserved %s already, by its reservation %q",
				mine.Name, theirs.Policy, a, theirs.Name))
			last = theirs
		}
	}
	return out
}

// warnings compiles the cluster as it would be with the policy, and reads off what would come of it.
func (g *PolicyGuard) warnings(ctx context.Context, p *v1alpha1.ServiceCIDRPolicy) ([]string, error) {
	var policies v1alpha1.ServiceCIDRPolicyList
	if err := g.Client.List(ctx, &policies); err != nil {
		return nil, fmt.Errorf("listing policies: %w", err)
	}
	var cidrs networkingv1.ServiceCIDRList
	if err := g.Client.List(ctx, &cidrs); err != nil {
		return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	if p.CreationTimestamp.IsZero() {
		p.CreationTimestamp = metav1.NewTime(g.Clock.Now())
	}
	w := steering.Inputs{Policies: []*v1alpha1.ServiceCIDRPolicy{p}}
	for i := range policies.Items {
		if policies.Items[i].Name != p.Name {
			w.Policies = append(w.Policies, &policies.Items[i])
		}
	}
	for i := range cidrs.Items {
		w.ServiceCIDRs = append(w.ServiceCIDRs, steering.NewServiceCIDR(&cidrs.Items[i]))
	}
	after := steering.Compile(w)
	return append(closing(p.Spec, after.Policy(p.Name), after, w.ServiceCIDRs), prospects(p.Name, g.Policies.Current(), after)...), nil
}

// prospects says what would not be as the author of a policy may expect: what it has to wait for, what it loses, and what others lose to it.
func prospects(name string, before, after *steering.Compiled) []string {
	p := after.Policy(name)
	var out []string
	for _, cidr := range p.Missing {
		out = append(out, fmt.Sprintf("ServiceCIDR %s does not exist; the policy has its ranges when it does", cidr))
	}
	for _, cidr := range p.Deleting {
		out = append(out, fmt.Sprintf("ServiceCIDR %s is being deleted; the policy gets no addresses from it", cidr))
	}
	out = append(out, p.Conflicts...)
	for _, other := range after.Policies() {
		if other.Name == name {
			continue
		}
		for _, conflict := range other.Conflicts {
			if old := before.Policy(other.Name); old == nil || !slices.Contains(old.Conflicts, conflict) {
				out = append(out, fmt.Sprintf("ServiceCIDRPolicy %s: %s", other.Name, conflict))
			}
		}
	}
	return out
}
