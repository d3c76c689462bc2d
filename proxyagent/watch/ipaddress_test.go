package watch

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func managedBy(who string) func(*networkingv1.IPAddress) {
	return func(a *networkingv1.IPAddress) { a.Labels[networkingv1.LabelManagedBy] = who }
}

func parent(p *networkingv1.ParentReference) func(*networkingv1.IPAddress) {
	return func(a *networkingv1.IPAddress) { a.Spec.ParentRef = p }
}

func TestConvertIPAddress(t *testing.T) {
	web := model.ServiceName{Namespace: "ns", Name: "web"}
	v4, v6 := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")
	tests := map[string]struct {
		in   *networkingv1.IPAddress
		want model.Allocation
		junk int
	}{
		"of a Service":      {newIPAddress("10.96.0.1", "web"), model.Allocation{Addr: v4, Service: web}, 0},
		"of the other kind": {newIPAddress("fd00::1", "web"), model.Allocation{Addr: v6, Service: web}, 0},
		"additional": {
			newIPAddress("10.96.0.1", "web", managedBy(v1alpha1.ManagedByOperator)),
			model.Allocation{Addr: v4, Service: web, Additional: true}, 0,
		},
		"managed by somebody else": {newIPAddress("10.96.0.1", "web", managedBy("x")), model.Allocation{Addr: v4, Service: web}, 0},
		"without labels": {
			newIPAddress("10.96.0.1", "web", func(a *networkingv1.IPAddress) { a.Labels = nil }), model.Allocation{Addr: v4, Service: web}, 0,
		},
		"without parent": {newIPAddress("10.96.0.1", "web", parent(nil)), model.Allocation{Addr: v4}, 0},
		"of ours for something else": {
			newIPAddress("10.96.0.1", "web", managedBy(v1alpha1.ManagedByOperator),
				parent(&networkingv1.ParentReference{Group: "gateway.networking.k8s.io", Resource: "gateways", Namespace: "ns", Name: "web"})),
			model.Allocation{Addr: v4}, 0,
		},
		"of services of another group": {
			newIPAddress("10.96.0.1", "web", parent(&networkingv1.ParentReference{Group: "x", Resource: "services", Namespace: "ns", Name: "web"})),
			model.Allocation{Addr: v4}, 0,
		},
		"of another kind of the same group": {
			newIPAddress("10.96.0.1", "web", parent(&networkingv1.ParentReference{Resource: "pods", Namespace: "ns", Name: "web"})),
			model.Allocation{Addr: v4}, 0,
		},
		"a name that is no address":   {newIPAddress("web", "web"), model.Allocation{}, 1},
		"a second name of an address": {newIPAddress("fd00::0001", "web"), model.Allocation{}, 1},
		"an address in disguise":      {newIPAddress("::ffff:10.96.0.1", "web"), model.Allocation{}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			beta, betaJunk := convertBetaIPAddress(as(tc.in, "v1beta1").(*networkingv1beta1.IPAddress))
			got, j := convertIPAddress(tc.in)
			if diff := cmp.Diff(tc.want, got.model, comparers); diff != "" {
				t.Errorf("convertIPAddress (-want +got):\n%s", diff)
			}
			if got.model != beta.model {
				t.Errorf("v1beta1 becomes %v", beta.model)
			}
			if j.count != tc.junk || betaJunk.count != tc.junk {
				t.Errorf("%d and %d pieces of junk, want %d: %s", j.count, betaJunk.count, tc.junk, &j)
			}
		})
	}
}
