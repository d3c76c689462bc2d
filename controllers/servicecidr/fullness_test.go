package servicecidr

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// allUsed has every address in use but some in each span, and those cool down.
type allUsed struct{ free, cooling uint64 }

func (u allUsed) Usage(s allocator.Span) allocator.Usage {
	n := s.Size()
	free, cooling := min(n, u.free), min(n, u.cooling)
	return allocator.Usage{Size: n, Allocated: n - free - cooling, Free: free, Cooling: cooling}
}

// Who looks once is told what the Reconciler would write.
func TestFullness(t *testing.T) {
	const nearly, dynamic, static = v1alpha1.ConditionNearlyFull, v1alpha1.ConditionDynamicBandFull, v1alpha1.ConditionStaticBandFull
	for name, tc := range map[string]struct {
		used      allUsed
		unsteered bool
		deleted   bool
		percent   int
		want      []string
	}{
		"room":                         {used: allUsed{free: 100}, percent: 10},
		"full":                         {used: allUsed{}, percent: 10, want: []string{nearly, dynamic, static}},
		"nearly":                       {used: allUsed{free: 2}, percent: 10, want: []string{nearly}},
		"nearly, and no share is set":  {used: allUsed{free: 2}},
		"what cools down can be drawn": {used: allUsed{cooling: 100}, percent: 10},
		"but not by the API server":    {used: allUsed{cooling: 100}, percent: 10, unsteered: true, want: []string{nearly, dynamic, static}},
		"it is being deleted":          {used: allUsed{}, percent: 10, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24"}}}
			if tc.deleted {
				o.DeletionTimestamp = &metav1.Time{Time: now}
			}
			var got []string
			all := Fullness(tc.used, o, nil, tc.unsteered, Limits{FreePercent: tc.percent})
			for _, c := range all {
				if c.Status == metav1.ConditionTrue {
					got = append(got, c.Type)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(all) != 3 {
				t.Errorf("of %d conditions (-want +got):\n%s", len(all), diff)
			}
		})
	}
}
