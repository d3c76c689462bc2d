package steering

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Standing says by which form of it a policy is followed. The schema and the webhook refuse
// unreadable selectors; one is stored if no webhook answers or another schema version took it.
type Standing int

const (
	// AsWritten says that the policy is followed as it is, without what is wrong with it.
	AsWritten Standing = iota
	// AsBefore says that selectors cannot be read. All is followed as when they last could be.
	AsBefore
	// Closed is AsBefore, but no earlier form is known, for this process has not seen one. The
	// policy selects no Service, and if it is exclusive its ranges are closed to all.
	Closed
	// ClosedUnknown is Closed, but its selector of ServiceCIDRs is unreadable too: no range is closed.
	ClosedUnknown
)

// read reads all policies, the best first: of the highest priority, and of equals the first by
// name. Their ages do not count: a restore from a backup creates all policies anew, in any order.
// It also returns the earlier forms that are followed.
func (in Inputs) read() (all []*Policy, earlier map[types.UID]*v1alpha1.ServiceCIDRPolicy) {
	for _, o := range in.Policies {
		p := newPolicy(o)
		if last := in.LastReadable[o.UID]; p.form == nil && last != nil {
			p = p.asIn(last)
		}
		if p.form != nil && p.form != o {
			if earlier == nil {
				earlier = map[types.UID]*v1alpha1.ServiceCIDRPolicy{}
			}
			earlier[o.UID] = p.form
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(b.spec().Priority, a.spec().Priority), cmp.Compare(a.Name, b.Name))
	})
	for rank, p := range all {
		p.rank = rank
		if p.form != nil {
			p.FollowedGeneration = p.form.Generation
		}
	}
	return all, earlier
}

// asIn is a policy that cannot be read, as it was in an earlier form: all of it, for halves of two
// forms are none that an admin has written.
func (p *Policy) asIn(earlier *v1alpha1.ServiceCIDRPolicy) *Policy {
	was := newPolicy(earlier)
	was.Generation, was.Invalid, was.object, was.Standing = p.Generation, p.Invalid, p.object, AsBefore
	return was
}

// closeToAll has a policy select no Service.
func (p *Policy) closeToAll() {
	p.form, p.Standing = nil, Closed
	if _, known := p.selector.cidrs.Requirements(); !known && len(p.object.Spec.ServiceCIDRs) == 0 {
		p.Standing = ClosedUnknown
	}
	p.selector.namespaces, p.selector.services = labels.Nothing(), labels.Nothing()
}

// selectsNone: no form of the policy can be read.
func (p *Policy) selectsNone() bool { return p.form == nil }

// spec is what is followed.
func (p *Policy) spec() *v1alpha1.ServiceCIDRPolicySpec { return &cmp.Or(p.form, p.object).Spec }

// forms are the followed forms of the policies, by UID, without those that have none.
func (s *Compiled) forms() map[types.UID]*v1alpha1.ServiceCIDRPolicy {
	out := make(map[types.UID]*v1alpha1.ServiceCIDRPolicy, len(s.policies))
	for _, p := range s.policies {
		if p.form != nil {
			out[p.UID] = p.form
		}
	}
	return out
}
