package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
)

func TestRangesOf(t *testing.T) {
	leaving := newCIDR("leaving", "10.99.0.0/16")
	leaving.DeletionTimestamp = &longAgo
	var all []*serviceCIDR
	for _, in := range []apiObject{
		newCIDR("b", "10.97.0.0/16", "fd00::/112"), newCIDR("a", "10.96.0.0/16"), newCIDR("again", "10.96.0.0/16"),
		newCIDR("inside", "10.96.0.0/24"), newCIDR("odd", "10.98.0.7/16", "x", "010.0.0.0/8"), leaving,
	} {
		c, _ := convertBetaServiceCIDR(as(in, "v1beta1").(*networkingv1beta1.ServiceCIDR))
		all = append(all, c)
	}
	want := wantRanges("10.96.0.0/16", "10.96.0.0/24", "10.97.0.0/16", "10.98.0.0/16", "fd00::/112")
	if diff := cmp.Diff(*want, rangesOf(all), comparers); diff != "" {
		t.Errorf("rangesOf (-want +got):\n%s", diff)
	}
	if got := rangesOf(nil); got == nil || len(got) > 0 {
		t.Errorf("rangesOf nothing: %#v, want an empty slice", got)
	}
}
