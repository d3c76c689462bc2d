package renumber

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// leave holds all of a Service's addresses, even those it gets back, or has second Services keep
// those that it gives up, and makes it an ExternalName.
func (m Mover) leave(ctx context.Context, i Item, s *corev1.Service) (*corev1.Service, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := m.ready(ctx, i, s); err != nil {
		return nil, err
	}
	kept, err := m.kept(ctx, s)
	if err != nil {
		return nil, err
	}
	before, gives := len(kept), i.Old
	if m.Keep == KeepService {
		gives = without(i.Old, i.leaves())
	}
	if kept = append(kept, without(gives, kept)...); len(kept) > steering.MaxFormer {
		return nil, left("%d former addresses are kept for it already, which is all that can be: wait until they are unused, with the plans that moved it", before)
	}
	text, err := newRecord(s)
	if err != nil {
		return nil, err
	}
	ctx = finishing(ctx)
	if m.Keep == KeepService {
		if err := m.giveAll(ctx, i, s); err != nil {
			return nil, err
		}
	}
	for _, a := range gives {
		if err := m.hold(ctx, i, a); err != nil {
			return nil, err
		}
	}
	// The first update has to find the version that the record is of.
	if s, err = m.updateStatus(ctx, proves(s, text)); err != nil {
		return nil, err
	}
	next, err := m.update(ctx, leaving(s, text, kept))
	if refusal(err) {
		return nil, left("the API server refuses the first of the two updates: %v", err)
	}
	return next, err
}

// kept returns the former addresses that a Service lists and whose IPAddresses are kept for it. The
// owner of the Service may write that list, and what comes of it ends in spec.externalIPs.
func (m Mover) kept(ctx context.Context, s *corev1.Service) (out []netip.Addr, err error) {
	for _, a := range former(s) {
		ip, err := m.ipAddress(ctx, a)
		if err != nil {
			return nil, err
		}
		if keptFor(ip, s) && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out, nil
}

// ready asks everything that could refuse the second update, before the first.
func (m Mover) ready(ctx context.Context, i Item, s *corev1.Service) error {
	why := Rules{Awaited: m.Awaited}.awaited(s)
	if m.Rules != nil {
		why = m.Rules.judge(s, i.Named)
	}
	if why != "" {
		return left("%s", why)
	}
	if !equality.Semantic.DeepEqual(s.Status.LoadBalancer, i.Balancer) {
		return left("its load balancer has another status than when the plan was made: make a new one")
	}
	kept := m.Keep == KeepService // by second Services, which give them back
	for _, a := range i.takes() {
		ip, second, err := m.pair(ctx, i, a)
		if err != nil {
			return err
		}
		own := m.Keep == KeepService && vouches(i, ip, second)
		kept = kept && own
		if ip != nil && !ofService(ip, i.Key()) && !upstream.ManagedByOperator(ip) && !own {
			return left("%s is taken by %s: make a new plan for it", a, upstream.Describe(ip))
		}
	}
	if m.Refusal != nil {
		switch why, err := m.Refusal(ctx, s, i.New, kept); {
		case err != nil:
			return err
		case why != "":
			return left("%s", why)
		}
	}
	if m.Keep != KeepExternalIPs {
		return nil
	}
	try := s.DeepCopy()
	addExternal(&try.Spec, i.leaves())
	_, err := m.update(ctx, try, client.DryRunAll)
	if refusal(err) {
		return left("the old address cannot be kept as an external IP: %v", err)
	}
	return err
}
