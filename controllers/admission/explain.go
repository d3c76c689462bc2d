package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// Explanation is what the webhook would answer to a new Service, and why; decide makes it.
type Explanation struct {
	// NoAddress: the Service is headless or of type ExternalName.
	NoAddress bool `json:"noAddress,omitempty"`
	// Refused is what the user is told, empty if the Service passes. Policy is the policy that
	// refuses, empty if no policy does.
	Refused string `json:"refused,omitempty"`
	Policy  string `json:"policy,omitempty"`
	// Reason is why, for admins: with names that the user is not told.
	Reason string `json:"reason,omitempty"`
	// Warnings are what the user is told although the Service passes.
	Warnings []string `json:"warnings,omitempty"`
	// Chosen are the addresses that the Service names.
	Chosen []netip.Addr `json:"chosen,omitempty"`
	// Drawn say where each address that the Service does not name comes from, as in spec.clusterIPs.
	Drawn []Source `json:"drawn,omitempty"`
}

// Source is where an address would come from.
type Source struct {
	Family corev1.IPFamily `json:"family"`
	// Reserved are the unused addresses kept for the Service: the first is taken before a draw.
	Reserved []netip.Addr `json:"reserved,omitempty"`
	// Order are the sources that are drawn from, the first that has an address free.
	Order []Step `json:"order,omitempty"`
	// Policies say of each policy whether it steers the Service, the best first.
	Policies []PolicySelection `json:"policies,omitempty"`
	// Full says, for admins, why nothing is free; empty if the API server may still look by itself.
	Full string `json:"full,omitempty"`
}

// Step is one source: a band of the ranges of a policy, or of those that no policy has for itself.
type Step struct {
	Policy string   `json:"policy,omitempty"`
	Band   string   `json:"band"`
	Ranges []string `json:"ranges"`
	// Free is how many addresses can be drawn just now, without those that are in flight.
	Free uint64 `json:"free"`
	tier *allocator.Tier
}

// Contains reports whether an address is one of those that the step draws from, free or not.
func (s Step) Contains(a netip.Addr) bool { return s.tier.Contains(a) }

// PolicySelection is whether a policy steers a Service, and why not.
type PolicySelection struct {
	Policy string `json:"policy"`
	Steers bool   `json:"steers"`
	Why    string `json:"why,omitempty"`
}

// Explain says what the webhook would answer to the creation of a Service, and hands out nothing.
// It fails when the namespace of the Service does not exist or cannot be read.
func (h *ServiceSteerer) Explain(ctx context.Context, o *corev1.Service) (Explanation, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return Explanation{}, err
	}
	r, err := decode(admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: o.Namespace, Object: runtime.RawExtension{Raw: raw},
	}})
	if err != nil {
		return Explanation{}, err
	}
	if !r.service.needsAddress() {
		return Explanation{NoAddress: true}, nil
	}
	in, err := h.gather(ctx, r)
	if errors.Is(err, errNoNamespace) {
		return Explanation{}, fmt.Errorf("namespace %q: %w", o.Namespace, err)
	} else if err != nil {
		return Explanation{}, fmt.Errorf("reading namespace %q: %w", o.Namespace, err)
	}
	d := decide(in)
	out := Explanation{Warnings: d.warnings, Chosen: r.named}
	for _, s := range d.fill {
		source, full := h.source(in, s)
		out.Drawn = append(out.Drawn, source)
		d.refusal = cmp.Or(d.refusal, full)
	}
	if d.refusal != nil {
		out.Refused, out.Policy, out.Reason = d.refusal.Message, d.refusal.Policy, d.refusal.Why()
	}
	return out, nil
}

// source explains one slot, and returns the refusal if there is no address for it.
func (h *ServiceSteerer) source(in inputs, s slot) (out Source, full *steering.Refusal) {
	out = Source{Family: corev1.IPFamily(s.family.String())}
	for _, r := range s.reserved {
		for a := range r.Addresses() {
			if h.Index.State(a) != allocator.Allocated && in.policies.Offers(a) {
				out.Reserved = append(out.Reserved, a)
			}
		}
	}
	for i, t := range s.route.Tiers {
		out.Order = append(out.Order, h.step(in.policies, s, s.route.Origins[i], t))
	}
	for _, v := range in.policies.Selections(in.subject, s.family) {
		out.Policies = append(out.Policies, PolicySelection{v.Policy.Name, v.Steers, v.Why})
	}
	if len(out.Reserved) == 0 && h.Index.Full(s.route.Tiers) {
		if full = cmp.Or(in.policies.Full(s.route, s.family), h.uncovered()); full != nil {
			out.Full = full.Why()
		}
	}
	return out, full
}

func (h *ServiceSteerer) step(policies *steering.Compiled, s slot, from steering.Origin, t *allocator.Tier) Step {
	out := Step{Band: from.Band.String(), Ranges: policies.RangesOf(from, s.family, t), tier: t}
	if from.Policy != nil {
		out.Policy = from.Policy.Name
	}
	for _, run := range t.Spans() {
		use := h.Index.Usage(run)
		out.Free += use.Free - use.Assumed // which counts as free until a Service comes for it
	}
	return out
}
