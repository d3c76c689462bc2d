package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// Range is one range of one ServiceCIDR, as `ranges` prints it.
type Range struct {
	ServiceCIDR string             `json:"serviceCIDR"`
	CIDR        string             `json:"cidr"`
	Family      string             `json:"family"`
	Ready       bool               `json:"ready"`
	Static      v1alpha1.BandUsage `json:"static"`
	Dynamic     v1alpha1.BandUsage `json:"dynamic"`
	// FullInSeconds is the forecast; nil where the range does not grow, or growth is unknown.
	FullInSeconds *int64 `json:"fullInSeconds,omitempty"`
	// Policies have the range; Exclusive are those of them that keep other Services out, ByRequest and
	// Cordoned those with that allocation.
	Policies  []string `json:"policies,omitempty"`
	Exclusive []string `json:"exclusivePolicies,omitempty"`
	ByRequest []string `json:"byRequestPolicies,omitempty"`
	Cordoned  []string `json:"cordoningPolicies,omitempty"`
	// Terminating, and what holds the ServiceCIDR then.
	Terminating bool        `json:"terminating,omitempty"`
	BlockedBy   string      `json:"blockedBy,omitempty"`
	Created     metav1.Time `json:"created"`
}

// rangeInfos joins what is known of ranges. It lists IPAddresses if a ServiceCIDR has no counts.
func rangeInfos(ctx context.Context, s *cli.Cluster, cidrs []networkingv1.ServiceCIDR, policies []v1alpha1.ServiceCIDRPolicy) (all []Range, err error) {
	var v *view.View
	for i := range cidrs {
		usage, told := ToldUsage(&cidrs[i])
		if !told {
			if v == nil {
				if v, err = s.View(ctx); err != nil {
					return nil, err
				}
			}
			usage = CountedUsage(&cidrs[i], v)
		}
		for _, u := range usage.Ranges {
			all = append(all, NewRange(&cidrs[i], u, policies))
		}
	}
	slices.SortStableFunc(all, BySoonestFull)
	return all, nil
}

// BySoonestFull orders ranges by when they are full, and then by how full they are.
func BySoonestFull(a, b Range) int {
	return cmp.Or(cmp.Compare(a.fullIn(), b.fullIn()), cmp.Compare(b.share(), a.share()), cmp.Compare(a.ServiceCIDR, b.ServiceCIDR))
}

// ToldUsage reads the operator's counts. Counts of other ranges, or unreadable ones, tell nothing.
func ToldUsage(o *networkingv1.ServiceCIDR) (u v1alpha1.ServiceCIDRUsage, ok bool) {
	if json.Unmarshal([]byte(o.Annotations[v1alpha1.AnnotationUsage]), &u) != nil {
		return u, false
	}
	return u, slices.EqualFunc(u.Ranges, o.Spec.CIDRs, func(r v1alpha1.RangeUsage, text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Masked().String() == r.CIDR
	})
}

// CountedUsage counts by what the view has, for a cluster without the operator.
func CountedUsage(o *networkingv1.ServiceCIDR, v *view.View) (out v1alpha1.ServiceCIDRUsage) {
	for _, text := range o.Spec.CIDRs {
		if r, err := allocator.ParseRange(text); err == nil {
			out.Ranges = append(out.Ranges, v.RangeUsage(r))
		}
	}
	return out
}

// NewRange joins what is known of one range: its ServiceCIDR, its counts and the policies that draw
// from it.
func NewRange(o *networkingv1.ServiceCIDR, u v1alpha1.RangeUsage, policies []v1alpha1.ServiceCIDRPolicy) Range {
	r := Range{
		ServiceCIDR: o.Name, CIDR: u.CIDR, Family: "IPv4", Static: u.Static, Dynamic: u.Dynamic, Created: o.CreationTimestamp,
		Ready: !meta.IsStatusConditionFalse(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady), Terminating: !o.DeletionTimestamp.IsZero(),
	}
	if strings.Contains(u.CIDR, ":") {
		r.Family = "IPv6"
	}
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionDeletionBlocked); c != nil && c.Status == metav1.ConditionTrue {
		r.BlockedBy = c.Message
	}
	if days := growth(u); days > 0 {
		r.FullInSeconds = new(int64(min(r.left()/days*24*3600, 10*365*24*3600)))
	}
	for _, p := range policies {
		if slices.ContainsFunc(p.Status.Ranges, func(has v1alpha1.PolicyRange) bool { return has.ServiceCIDR == o.Name && has.CIDR == u.CIDR }) {
			r.Policies = append(r.Policies, p.Name)
			if p.Spec.Exclusive {
				r.Exclusive = append(r.Exclusive, p.Name)
			}
			switch p.Spec.Allocation {
			case v1alpha1.AllocationByRequest:
				r.ByRequest = append(r.ByRequest, p.Name)
			case v1alpha1.AllocationCordoned:
				r.Cordoned = append(r.Cordoned, p.Name)
			}
		}
	}
	return r
}

// growth is by how many addresses a day a range grows.
func growth(u v1alpha1.RangeUsage) (perDay float64) {
	for _, b := range []v1alpha1.BandUsage{u.Static, u.Dynamic} {
		if b.GrowthPerDay != nil {
			perDay += float64(*b.GrowthPerDay)
		}
	}
	return perDay
}

func (r Range) fullIn() int64 {
	if r.left() == 0 {
		return 0
	}
	if r.FullInSeconds == nil {
		return math.MaxInt64
	}
	return *r.FullInSeconds
}

// left counts what new Services can get. Cooling addresses, drawn last, are not counted as growth.
func (r Range) left() float64 {
	return float64(r.Static.Free) + float64(r.Static.Cooling) + float64(r.Dynamic.Free) + float64(r.Dynamic.Cooling)
}

// size is added up in floating point: two bands of a /64 are more than an int64 holds.
func (r Range) size() float64 { return float64(r.Static.Size) + float64(r.Dynamic.Size) }

// share is how much of the range Services use. What is reserved or cools down is counted by itself.
func (r Range) share() float64 {
	return percent(float64(r.Static.Allocated)+float64(r.Dynamic.Allocated), r.size())
}

func percent(part, whole float64) float64 {
	if whole == 0 {
		return 100
	}
	return math.Floor(part / whole * 100)
}
