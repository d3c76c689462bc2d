package renumber

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

func TestPlanOfDefaultRange(t *testing.T) {
	ofThem := serviceAt("kubernetes", "10.96.0.1")
	for name, test := range map[string]struct {
		services    []corev1.Service
		taken       []string
		named       bool
		want        map[string]string // addresses by names, empty for those that are left out
		wantProblem bool
	}{
		"asked for by name": {
			services: []corev1.Service{ofThem, serviceAt("web", "10.96.0.2")}, named: true,
			want: map[string]string{"kubernetes": "10.200.0.1", "web": "10.200.0.2"},
		},
		"not asked for": {
			services: []corev1.Service{ofThem, serviceAt("web", "10.96.0.2")},
			want:     map[string]string{"kubernetes": "", "web": "10.200.0.2"},
		},
		"nobody else gets its address": {
			services: []corev1.Service{ofThem, serviceAt("far", "10.96.0.200")}, taken: []string{"10.200.0.2", "10.200.0.3", "10.200.0.4", "10.200.0.5", "10.200.0.6"},
			want: map[string]string{"kubernetes": "", "far": ""}, wantProblem: true,
		},
		"somebody else has its address": {
			services: []corev1.Service{ofThem, serviceAt("web", "10.96.0.2")}, taken: []string{"10.200.0.1"}, named: true,
			want: map[string]string{"kubernetes": "", "web": "10.200.0.2"},
		},
		"it has another range": {
			services: []corev1.Service{serviceAt("kubernetes", "10.97.0.1"), serviceAt("web", "10.96.0.1")},
			want:     map[string]string{"web": "10.200.0.1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := Inputs{
				From: []allocator.Range{allocator.MustParseRange("10.96.0.0/24")}, To: []Target{{Range: allocator.MustParseRange("10.200.0.0/29"), Ready: true}}, Keep: KeepAgent,
				Services: test.services, Taken: sets.New[netip.Addr](),
			}
			for _, text := range test.taken {
				in.Taken.Insert(netip.MustParseAddr(text))
			}
			if test.named {
				in.Rules.Named = sets.New(apiServers)
			}
			p := NewPlan(in)
			got := map[string]string{}
			for _, i := range p.Services {
				got[i.Name] = texts(i.New)
			}
			for _, l := range p.LeftOut {
				got[l.Name] = ""
			}
			if diff := cmp.Diff(test.want, got); diff != "" || test.wantProblem != (len(p.Problems) > 0) {
				t.Errorf("(-want +got), problems %q:\n%s", p.Problems, diff)
			}
		})
	}
}

// serviceAt is a Service in namespace default.
func serviceAt(name, address string) corev1.Service {
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, UID: types.UID(name)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: address, ClusterIPs: []string{address}},
	}
}
