package inspect

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// policyAnswer is a ServiceCIDRPolicy with what is wrong with it.
type policyAnswer struct {
	Exclusive  bool                             `json:"exclusive,omitempty"`
	Allocation v1alpha1.Allocation              `json:"allocation,omitempty"`
	Status     v1alpha1.ServiceCIDRPolicyStatus `json:"status"`
	// Wrong are the findings of `check` about it.
	Wrong        []check.Item `json:"wrong"`
	reservations int
}

func whyPolicy(ctx context.Context, s *cli.Cluster, name string) (out Answer, err error) {
	if !s.Policies {
		return out, fmt.Errorf("ServiceCIDRPolicy %q: %w; the API server serves no ServiceCIDRPolicies", name, ErrNothing)
	}
	p := &v1alpha1.ServiceCIDRPolicy{}
	if err := get(ctx, s, name, p, &v1alpha1.ServiceCIDRPolicyList{}, "ServiceCIDRPolicy", "kubectl get servicecidrpolicies"); err != nil {
		return out, err
	}
	for _, r := range p.Status.Refusals {
		out.Refusals = append(out.Refusals, pastRefusal{p.Name, r})
	}
	p.Status.Refusals = nil // they are told above
	out.Policy = &policyAnswer{
		Exclusive: p.Spec.Exclusive, Allocation: p.Spec.Allocation, Status: p.Status, reservations: len(p.Spec.Reservations),
		Wrong: append([]check.Item{}, check.Conditions(s.Clock.Now(), nil, []v1alpha1.ServiceCIDRPolicy{*p})...),
	}
	return out, nil
}

// describePolicy tells of a policy's ranges, and what is wrong with it.
func describePolicy(w io.Writer, p policyAnswer) {
	for _, r := range p.Status.Ranges {
		cli.Write(w, "it has %s of ServiceCIDR %s: %d used, %d reserved, %d cooling, %s free\n", r.CIDR, r.ServiceCIDR, r.Static.Used+r.Dynamic.Used,
			r.Static.Reserved+r.Dynamic.Reserved, r.Static.Cooling+r.Dynamic.Cooling, number(float64(r.Static.Free)+float64(r.Dynamic.Free)))
	}
	switch {
	case len(p.Status.Ranges) == 0 && p.reservations > 0:
		cli.Write(w, "it has no range of its own, and %d reservations in other ranges; `kubectl clusterip addresses --state=reserved` lists what they keep\n", p.reservations)
	case len(p.Status.Ranges) == 0:
		cli.Write(w, "it has no range\n")
	}
	if p.Exclusive {
		cli.Write(w, "it keeps Services out of them that it does not select\n")
	}
	switch p.Allocation {
	case v1alpha1.AllocationByRequest:
		cli.Write(w, "it gives their addresses by request only: none is drawn\n")
	case v1alpha1.AllocationCordoned:
		cli.Write(w, "it has cordoned them: no Service is given an address that it does not have\n")
	}
	for _, i := range p.Wrong {
		cli.Write(w, "problem: %s: %s\n", i.Check, plain.Text(i.Message))
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.PolicyProgrammed {
			cli.Write(w, "Programmed is %s since %s: %s\n", c.Status, c.LastTransitionTime.UTC().Format(time.RFC3339), plain.Text(c.Message))
		}
	}
	if len(p.Wrong) == 0 {
		cli.Write(w, "Nothing is wrong with it.\n")
	}
}
