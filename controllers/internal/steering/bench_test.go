package steering

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tenants is a world of many policies, each with a range of both families for its own namespaces. shared: each has all ranges, and none
// for itself.
func tenants(policies int, shared bool) Inputs {
	var w Inputs
	for i := range policies {
		name := fmt.Sprint("tenant-", i)
		w.ServiceCIDRs = append(w.ServiceCIDRs, ready(name, fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), fmt.Sprintf("fd00::%x:0/112", i)))
		p := with(policy(name, 0), of(name), exclusive, rests(time.Hour), reserves("r", fmt.Sprintf("10.%d.%d.9", i/256, i%256), "ns/a"))
		if shared {
			p.Spec.ServiceCIDRs, p.Spec.ServiceCIDRSelector, p.Spec.Exclusive = nil, &metav1.LabelSelector{}, false
		}
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": name}}
		w.Policies = append(w.Policies, p)
	}
	w.ServiceCIDRs = append(w.ServiceCIDRs, ready("kubernetes", "10.96.0.0/12", "fd01::/112"))
	return w
}

func tenant(i int) Service {
	name := fmt.Sprint("tenant-", i)
	return Service{NamespacedName: types.NamespacedName{Namespace: name, Name: "a"}, NamespaceLabels: map[string]string{"tenant": name}}
}

// BenchmarkCompile is what a change of policies or ranges costs each replica, and B/policy what a policy costs it for good.
func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{100, 1000} {
		for _, shared := range []bool{false, true} {
			if shared && n > 100 {
				continue // 1,000 policies that all have 1,000 ranges are nobody's world
			}
			b.Run(fmt.Sprintf("policies=%d/shared=%v", n, shared), func(b *testing.B) {
				w := tenants(n, shared)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				s := Compile(w)
				runtime.GC()
				runtime.ReadMemStats(&after)
				for b.Loop() {
					Compile(w)
				}
				b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(n), "B/policy")
				runtime.KeepAlive(s)
			})
		}
	}
}

// BenchmarkQuestions is what a request asks a Compiled, with 1,000 policies and 1,000 ranges of each family.
func BenchmarkQuestions(b *testing.B) {
	w := tenants(1000, false)
	s := Compile(w)
	a := w.ServiceCIDRs[500].Ranges[0].Span().First
	for name, ask := range map[string]func(i int){
		"Route": func(i int) { s.Route(tenant(i%1000), i%2 == 0) },
		"Route/known": func(int) {
			s.Route(Service{NamespacedName: known.NamespacedName, NamespaceLabels: known.NamespaceLabels}, true)
		},
		"MayHold":     func(int) { s.MayHold(a, known) },
		"CoolDown":    func(int) { s.CoolDown(a) },
		"Reservation": func(int) { s.Reservation(a) },
		"Offers":      func(int) { s.Offers(a) },
		"Additional":  func(int) { s.Additional(known, "tenant-500", true) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				ask(i)
				i++
			}
		})
	}
}

var known = tenant(500)
