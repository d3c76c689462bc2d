package steering

import (
	"cmp"

	"k8s.io/apimachinery/pkg/labels"

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

// read reads a policy, and what it asks for. One that cannot be read is as it was in the
// compilation, if it could be then: that is in memory only, and a new process knows no earlier
// form.
func (s *Compiled) read(o *v1alpha1.ServiceCIDRPolicy, in *space) *Policy {
	p := newPolicy(o)
	if was := s.byName[o.Name]; p.form == nil && was != nil && was.UID == o.UID && was.form != nil {
		p = p.asIn(was.form)
	}
	in.want(p)
	return p
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
	p.form, p.FollowedGeneration, p.Standing = nil, 0, Closed
	if _, known := p.selector.cidrs.Requirements(); !known && len(p.object.Spec.ServiceCIDRs) == 0 {
		p.Standing = ClosedUnknown
	}
	p.selector.namespaces, p.selector.services = labels.Nothing(), labels.Nothing()
}

// selectsNone: no form of the policy can be read.
func (p *Policy) selectsNone() bool { return p.form == nil }

// spec is what is followed.
func (p *Policy) spec() *v1alpha1.ServiceCIDRPolicySpec { return &cmp.Or(p.form, p.object).Spec }
