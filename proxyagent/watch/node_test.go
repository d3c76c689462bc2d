package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func TestConvertNode(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Node)
		want   func(*model.Node)
		junk   int
	}{
		"plain": {func(*corev1.Node) {}, func(*model.Node) {}, 0},
		"without zone and addresses yet": {
			func(n *corev1.Node) { n.Labels, n.Status, n.Spec = nil, corev1.NodeStatus{}, corev1.NodeSpec{} },
			func(n *model.Node) { *n = model.Node{Name: "here"} }, 0,
		},
		"internal addresses come first, each kind in its order": {
			func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{
					{Type: corev1.NodeExternalIP, Address: "203.0.113.2"}, {Type: corev1.NodeInternalIP, Address: "fd00::2"},
					{Type: corev1.NodeExternalIP, Address: "203.0.113.1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.2"},
					{Type: corev1.NodeExternalDNS, Address: "198.51.100.1"},
				}
			},
			func(n *model.Node) { n.IPs = addrs("fd00::2", "192.0.2.2", "203.0.113.2", "203.0.113.1") }, 0,
		},
		"an address that is none": {
			func(n *corev1.Node) { n.Status.Addresses[1].Address = "here.example.com" },
			func(n *model.Node) { n.IPs = addrs("192.0.2.1") }, 1,
		},
		"podCIDRs of two families": {
			func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.244.1.0/24", "x", "fd00:1::/64"} },
			func(n *model.Node) { n.PodCIDRs = prefixes("10.244.1.0/24", "fd00:1::/64") }, 1,
		},
		"one podCIDR, the old way": {
			func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.244.2.0/24", nil },
			func(n *model.Node) { n.PodCIDRs = prefixes("10.244.2.0/24") }, 0,
		},
		"being deleted":     {func(n *corev1.Node) { n.DeletionTimestamp = &longAgo }, func(n *model.Node) { n.Leaving = true }, 0},
		"tainted otherwise": {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} }, func(*model.Node) {}, 0},
		"tainted by the autoscaler": {
			func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "x"}, {Key: "ToBeDeletedByClusterAutoscaler", Value: "1"}}
			},
			func(n *model.Node) { n.Leaving = true }, 0,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := wantNode(false)
			tc.want(want)
			got, j := convertNode(newNode("here", tc.change))
			if diff := cmp.Diff(want, &got.model, comparers); diff != "" {
				t.Errorf("convertNode (-want +got):\n%s", diff)
			}
			if j.count != tc.junk {
				t.Errorf("%d pieces of junk, want %d: %s", j.count, tc.junk, &j)
			}
		})
	}
}

// Every part of a Node that is handed out has to count as a difference.
func TestSameNode(t *testing.T) {
	tests := map[string]func(*model.Node){
		"name":     func(n *model.Node) { n.Name = "x" },
		"zone":     func(n *model.Node) { n.Zone = "x" },
		"IPs":      func(n *model.Node) { n.IPs = addrs("192.0.2.9") },
		"podCIDRs": func(n *model.Node) { n.PodCIDRs = nil },
		"leaving":  func(n *model.Node) { n.Leaving = true },
	}
	if want := fieldsOf[model.Node](); len(tests) != want {
		t.Errorf("%d rows for %d fields", len(tests), want)
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := &node{model: *wantNode(false)}, &node{model: *wantNode(false)}
			if !a.same(b) {
				t.Fatal("two of a kind differ")
			}
			if change(&b.model); a.same(b) || a.same(nil) {
				t.Error("no difference")
			}
		})
	}
}
