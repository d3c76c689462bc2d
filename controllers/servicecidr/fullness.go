package servicecidr

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// counter counts the addresses of a span by state, as the address index does.
type counter interface {
	Usage(s allocator.Span) allocator.Usage
}

// Fullness are the conditions NearlyFull, DynamicBandFull and StaticBandFull as the Reconciler
// writes them, for a program that looks once: without a forecast, which takes half an hour of
// history. policies may be nil; unsteered is as in Reconciler.
func Fullness(of counter, o *networkingv1.ServiceCIDR, policies *steering.Compiled, unsteered bool, limits Limits) []metav1.Condition {
	in := inputs{bands: uses(of, addressindex.NewServiceCIDR(o).Ranges, policies, unsteered), limits: limits}
	if o.DeletionTimestamp != nil {
		in.deleted = o.DeletionTimestamp.Time
	}
	return fullness(in)
}

// uses are those of the bands of all ranges, in pairs: static, dynamic. Their growth is not known.
func uses(of counter, ranges []allocator.Range, policies *steering.Compiled, unsteered bool) (all []bandUse) {
	for _, rg := range ranges {
		for _, b := range []allocator.Band{allocator.Static, allocator.Dynamic} {
			all = append(all, bandUse{cidr: rg.Prefix(), band: b, usage: of.Usage(rg.Band(b)), unsteered: unsteered, cordoned: cordonedBy(policies, rg)})
		}
	}
	return all
}
