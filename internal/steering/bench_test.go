package steering

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// thousands are n ServiceCIDRs of both families, a policy for each, and ten reservations of each
// policy. Every tenth policy selects its ServiceCIDR by a label, every fifth has it exclusively.
func thousands(n int) (in Inputs) {
	for i := range n {
		c := ready(fmt.Sprint("cidr-", i), fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), fmt.Sprintf("fd00:%x::/112", i+1))
		c.Labels = map[string]string{"pool": c.Name}
		p := policy(fmt.Sprint("policy-", i), int32(i%7))
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": p.Name}}
		p.Spec.Exclusive = i%5 == 0
		if i%10 == 0 {
			p.Spec.ServiceCIDRSelector = &metav1.LabelSelector{MatchLabels: c.Labels}
		} else {
			p.Spec.ServiceCIDRs = []string{c.Name}
		}
		for j := range 10 {
			p.Spec.Reservations = append(p.Spec.Reservations, v1alpha1.Reservation{Name: fmt.Sprint("r", j), Address: fmt.Sprintf("10.%d.%d.%d", i/256, i%256, 2+j)})
		}
		in.ServiceCIDRs, in.Policies = append(in.ServiceCIDRs, c), append(in.Policies, p)
	}
	return in
}

// BenchmarkCompile is what a change of a policy costs a replica, in the background.
func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		in := thousands(n)
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Compile(in)
			}
		})
	}
}

// BenchmarkCompileUnready is the same before any range is ready, as after a restore.
func BenchmarkCompileUnready(b *testing.B) {
	in := thousands(1000)
	for i := range in.ServiceCIDRs {
		in.ServiceCIDRs[i].Ready = false
	}
	for b.Loop() {
		Compile(in)
	}
}

// BenchmarkRecompile is what a change of one policy, of one ServiceCIDR that no policy asks for, or
// of all ServiceCIDRs at once costs a replica.
func BenchmarkRecompile(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		in := thousands(n)
		before := Compile(in)
		o := in.Policies[n/2].DeepCopy()
		o.Generation++
		b.Run(fmt.Sprintf("change=policy/policies=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				before.With(o)
			}
		})
		unready := slices.Clone(in.ServiceCIDRs)
		for i := range unready {
			unready[i].Ready = false
		}
		for what, moved := range map[string]movement{
			"ServiceCIDR":  {are: []addressindex.ServiceCIDR{ready("elsewhere", "10.240.0.0/24", "fd00:ffff::/112")}},
			"ServiceCIDRs": {were: in.ServiceCIDRs, are: unready},
		} {
			b.Run(fmt.Sprintf("change=%s/policies=%d", what, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					before.after(change{moved: moved})
				}
			})
		}
	}
}

// BenchmarkCompileForOneService is four policies that reserve all that they may for one Service.
func BenchmarkCompileForOneService(b *testing.B) {
	var in Inputs
	for i := range 4 {
		p := policy(fmt.Sprint("policy-", i), 0)
		for j := range MaxReserved {
			p.Spec.Reservations = append(p.Spec.Reservations, v1alpha1.Reservation{
				Name: fmt.Sprint("r", j), Address: fmt.Sprintf("10.%d.%d.%d", i, j/128, 1+j%128), For: "ns/one",
			})
		}
		in.Policies = append(in.Policies, p)
	}
	before := Compile(in)
	for b.Loop() {
		before.With(in.Policies[1].DeepCopy()).With(policy("policy-1", 1))
	}
}
