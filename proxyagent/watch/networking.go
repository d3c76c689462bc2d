package watch

import (
	"cmp"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// allocation is what we keep of an IPAddress. A name that is none (the API refuses it) has no Addr.
type allocation struct {
	head
	model model.Allocation
}

// same reports whether two IPAddresses say the same; nil is one that does not exist.
func (a *allocation) same(o *allocation) bool {
	if a == nil || o == nil {
		return a == o
	}
	return a.model == o.model
}

func (s *Source) addressChanged(c change[*allocation]) {
	if c.old.same(c.new) {
		return
	}
	s.formers.see(c)
	if addr, err := netip.ParseAddr(cmp.Or(c.new, c.old).name); err == nil {
		s.pending.mark(func(b *batch) { b.allocations[addr] = struct{}{} })
	}
}

func convertIPAddress(in *networkingv1.IPAddress) (*allocation, malformed) {
	var bad malformed
	out := &allocation{head: headOf(in)}
	addr, ok := parseAddr(out.name)
	if !ok || addr.String() != out.name {
		bad.add("name", out.name)
		return out, bad
	}
	out.model.Addr = addr
	if parent := in.Spec.ParentRef; parent != nil && parent.Group == "" && parent.Resource == "services" {
		out.model.Service = model.ServiceName{Namespace: wordOf(parent.Namespace).Value(), Name: parent.Name}
		// Renumbering labels a former address as the operator's only once the API server let go of it.
		kept := slices.Contains(in.Finalizers, v1alpha1.FinalizerFormer)
		out.model.Former = kept || in.Labels[v1alpha1.LabelPurpose] == v1alpha1.PurposeSecond
		out.model.Additional = kept || in.Labels[networkingv1.LabelManagedBy] == v1alpha1.ManagedByOperator
	}
	return out, bad
}

// serviceCIDR is what is kept of a ServiceCIDR.
type serviceCIDR struct {
	head
	// cidrs is empty once it is being deleted. Services with addresses in it are served as before, but
	// its other addresses are not dropped any more: they may be in other use by then.
	cidrs []netip.Prefix
}

// same reports whether two ServiceCIDRs contribute the same ranges; nil is one that does not exist.
func (c *serviceCIDR) same(o *serviceCIDR) bool { return slices.Equal(c.ranges(), o.ranges()) }

func (c *serviceCIDR) ranges() []netip.Prefix {
	if c == nil {
		return nil
	}
	return c.cidrs
}

func (s *Source) cidrChanged(c change[*serviceCIDR]) {
	if !c.old.same(c.new) {
		s.pending.mark(func(b *batch) { b.ranges = true })
	}
}

func convertServiceCIDR(in *networkingv1.ServiceCIDR) (*serviceCIDR, malformed) {
	var bad malformed
	out := &serviceCIDR{head: headOf(in)}
	if in.DeletionTimestamp == nil {
		out.cidrs = parse("cidr", in.Spec.CIDRs, parsePrefix, &bad)
	}
	return out, bad
}

// rangesOf are the ranges of several ServiceCIDRs, sorted and each once. It is never nil.
func rangesOf(all []any) []netip.Prefix {
	out := []netip.Prefix{}
	for _, obj := range all {
		out = append(out, obj.(*serviceCIDR).cidrs...)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}
