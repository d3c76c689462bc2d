package nodeports

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func mustParse(t *testing.T, text string) Range {
	t.Helper()
	r, err := ParseRange(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRange has the bands that KEP-3668 has, and kube-apiserver's ways to write a range.
func TestRange(t *testing.T) {
	for text, want := range map[string]string{
		v1alpha1.DefaultNodePortRange: "30000-32767: 30000-30085, 30086-32767", "30000+767": "30000-30767: 30000-30023, 30024-30767", "30000-30015": "30000-30015: , 30000-30015",
		"30000-30016": "30000-30016: 30000-30015, 30016-30016", "1-65535": "1-65535: 1-128, 129-65535", "8080": "8080-8080: , 8080-8080",
	} {
		r := mustParse(t, text)
		if got := fmt.Sprintf("%s: %s, %s", r, r.Band(allocator.Static), r.Band(allocator.Dynamic)); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
		for port := range 1 << 16 {
			band, ok := r.BandOf(uint16(port))
			if ok != r.Contains(uint16(port)) || ok && !r.Band(band).Contains(uint16(port)) {
				t.Fatalf("%s: %d is in the band %s: %t", text, port, band, ok)
			}
		}
	}
	for _, text := range []string{"", "0-9", "0", "9-5", "1-65536", "65536", "-1", "a-b", "1-2-3", "30000/10", strings.Repeat("9", 1<<20)} {
		if r, err := ParseRange(text); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.20q is %s, error %v", text, r, err)
		}
	}
}

func service(health int32, ports ...int32) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{HealthCheckNodePort: health}}
	for i, port := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint(i), Port: 80, NodePort: port})
	}
	return s
}

func TestOf(t *testing.T) {
	for want, s := range map[string]*corev1.Service{
		"[]": service(0, 0, 0), "[30001 30002]": service(30001, 30002, 0, 30002), "[9]": service(0, -1, 9, 70000),
	} {
		if got := fmt.Sprint(Of(s)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		kept := &corev1.Service{Spec: corev1.ServiceSpec{Ports: Remembered(s)}}
		if !slices.Equal(Of(s), Of(kept)) || len(kept.Spec.Ports) != len(Of(s)) {
			t.Errorf("of %v %v is remembered", Of(s), kept.Spec.Ports)
		}
	}
}

// TestIndex changes Services at random and counts anew what there is.
func TestIndex(t *testing.T) {
	r := mustParse(t, "30000-30039")
	ix := NewIndex(r)
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]*corev1.Service, 12)
	for step := range 5000 {
		var now *corev1.Service
		if random.IntN(3) > 0 {
			port := func() int32 { return 29995 + random.Int32N(50) }
			now = service(port(), port(), port(), 0)
		}
		at := random.IntN(len(all))
		ix.Change(all[at], now)
		all[at] = now
		if diff := cmp.Diff(counted(r, all), ix.Usage()); diff != "" {
			t.Fatalf("after %d steps (-want +got):\n%s", step+1, diff)
		}
	}
}

// counted is the slow way to Usage.
func counted(r Range, all []*corev1.Service) Usage {
	u := Usage{Static: BandUsage{Size: r.Band(allocator.Static).Size()}, Dynamic: BandUsage{Size: r.Band(allocator.Dynamic).Size()}}
	for port := uint16(29990); port < 30050; port++ {
		used := slices.ContainsFunc(all, func(s *corev1.Service) bool { return s != nil && slices.Contains(Of(s), port) })
		band, inside := r.BandOf(port)
		switch {
		case !used:
		case !inside:
			u.Outside++
		case band == allocator.Static:
			u.Static.Allocated++
		default:
			u.Dynamic.Allocated++
		}
	}
	return u
}
