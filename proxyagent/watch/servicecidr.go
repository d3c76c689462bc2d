package watch

import (
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serviceCIDR is what is kept of a ServiceCIDR.
type serviceCIDR struct {
	head
	// cidrs is empty once it is being deleted. Addresses in it may live on, and are served as before; but nobody can promise any more
	// that an address without a Service is nobody's, and dropping its traffic is all that ranges are for.
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

func convertServiceCIDR(in *networkingv1.ServiceCIDR) (*serviceCIDR, junk) {
	return newServiceCIDR(in, in.Spec.CIDRs)
}

// convertBetaServiceCIDR is convertServiceCIDR for Kubernetes 1.31 and 1.32.
func convertBetaServiceCIDR(in *networkingv1beta1.ServiceCIDR) (*serviceCIDR, junk) {
	return newServiceCIDR(in, in.Spec.CIDRs)
}

func newServiceCIDR(in metav1.Object, cidrs []string) (*serviceCIDR, junk) {
	var j junk
	out := &serviceCIDR{head: headOf(in)}
	if in.GetDeletionTimestamp() == nil {
		out.cidrs = parsePrefixes("cidr", cidrs, &j)
	}
	return out, j
}

// rangesOf are the ranges of several ServiceCIDRs, sorted and each once. It is never nil.
func rangesOf(all []*serviceCIDR) []netip.Prefix {
	out := []netip.Prefix{}
	for _, c := range all {
		out = append(out, c.cidrs...)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}
