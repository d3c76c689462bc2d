package growth

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// growsFrom is a policy with growth on the ServiceCIDRs of a pool, from supernets of both families.
func growsFrom(name, pool string, from ...string) *v1alpha1.ServiceCIDRPolicy {
	o := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
	o.Spec.ServiceCIDRSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
	o.Spec.Growth = &v1alpha1.Growth{}
	for _, cidr := range from {
		o.Spec.Growth.From = append(o.Spec.Growth.From, v1alpha1.Supernet{CIDR: cidr, PrefixLength: 120})
	}
	return o
}

// servicecidr is a ready ServiceCIDR of a pool.
func servicecidr(name, pool string, cidrs ...string) addressindex.ServiceCIDR {
	c := addressindex.ServiceCIDR{Name: name, Labels: map[string]string{"pool": pool}, Ready: true}
	for _, text := range cidrs {
		r, err := allocator.ParseRange(text)
		if err != nil {
			panic(err)
		}
		c.Ranges = append(c.Ranges, r)
	}
	return c
}

// world is red and blue, which grow in supernets of their own, and green, which does not grow.
func world() steering.Inputs {
	green := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "green", UID: "green", Generation: 1}}
	green.Spec.ServiceCIDRs = []string{"green"}
	return steering.Inputs{
		Policies: []*v1alpha1.ServiceCIDRPolicy{
			growsFrom("red", "red", "10.1.0.0/16", "fd00:1::/96"), growsFrom("blue", "blue", "10.2.0.0/16", "fd00:2::/96"), green,
		},
		ServiceCIDRs: []addressindex.ServiceCIDR{
			servicecidr("kubernetes", "", "10.96.0.0/16", "fd00:96::/112"), servicecidr("red", "red", "10.1.0.0/24", "fd00:1::/112"),
			servicecidr("blue", "blue", "172.16.0.0/24", "fd00:172::/112"), servicecidr("green", "green", "172.17.0.0/24"),
		},
	}
}

func TestOnlyWhatMayDecideOtherwiseIsLookedAt(t *testing.T) {
	replaced := func(in *steering.Inputs, c addressindex.ServiceCIDR) {
		i := slices.IndexFunc(in.ServiceCIDRs, func(other addressindex.ServiceCIDR) bool { return other.Name == c.Name })
		in.ServiceCIDRs[i] = c
	}
	exclusive := func(in *steering.Inputs, cidr string) {
		o := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "new", UID: "new", Generation: 1}}
		o.Spec.ServiceCIDRs, o.Spec.Exclusive, o.Spec.Priority = []string{cidr}, true, 9
		in.Policies = append(in.Policies, o)
	}
	for name, tc := range map[string]struct {
		change func(*steering.Inputs)
		want   []string
	}{
		"nothing": {func(*steering.Inputs) {}, nil},
		"a ServiceCIDR elsewhere comes": {func(in *steering.Inputs) {
			in.ServiceCIDRs = append(in.ServiceCIDRs, servicecidr("new", "", "192.168.0.0/24", "fd00:9::/112"))
		}, nil},
		"one in a supernet comes": {func(in *steering.Inputs) {
			in.ServiceCIDRs = append(in.ServiceCIDRs, servicecidr("new", "", "10.1.7.0/24"))
		}, []string{"red"}},
		"one in an IPv6 supernet comes": {func(in *steering.Inputs) {
			in.ServiceCIDRs = append(in.ServiceCIDRs, servicecidr("new", "", "fd00:2::7:0/112"))
		}, []string{"blue"}},
		"one around a supernet comes": {func(in *steering.Inputs) {
			in.ServiceCIDRs = append(in.ServiceCIDRs, servicecidr("new", "", "10.0.0.0/12"))
		}, []string{"blue", "red"}},
		"one that is selected comes, far away": {func(in *steering.Inputs) {
			in.ServiceCIDRs = append(in.ServiceCIDRs, servicecidr("new", "blue", "192.168.0.0/24"))
		}, []string{"blue"}},
		"one that was created for it comes, far away": {func(in *steering.Inputs) {
			c := servicecidr("new", "", "192.168.0.0/24")
			c.CreatedFor = "blue"
			in.ServiceCIDRs = append(in.ServiceCIDRs, c)
		}, []string{"blue"}},
		"a selected one goes":                     {func(in *steering.Inputs) { in.ServiceCIDRs = slices.Delete(in.ServiceCIDRs, 2, 3) }, []string{"blue"}},
		"a selected one loses its label":          {func(in *steering.Inputs) { replaced(in, servicecidr("blue", "", "172.16.0.0/24", "fd00:172::/112")) }, []string{"blue"}},
		"a selected one is not ready":             {func(in *steering.Inputs) { in.ServiceCIDRs[2].Ready = false }, []string{"blue"}},
		"one of another policy is not ready":      {func(in *steering.Inputs) { in.ServiceCIDRs[3].Ready = false }, nil},
		"a selected one is being deleted":         {func(in *steering.Inputs) { in.ServiceCIDRs[1].Terminating = true }, []string{"red"}},
		"the policy changes":                      {func(in *steering.Inputs) { in.Policies[0] = changed(in.Policies[0]) }, []string{"red"}},
		"one that does not grow changes":          {func(in *steering.Inputs) { in.Policies[2] = changed(in.Policies[2]) }, nil},
		"another policy takes its range":          {func(in *steering.Inputs) { exclusive(in, "blue") }, []string{"blue"}},
		"another policy takes what concerns none": {func(in *steering.Inputs) { exclusive(in, "green") }, nil},
		"the cluster has a family less":           {func(in *steering.Inputs) { replaced(in, servicecidr("kubernetes", "", "10.96.0.0/16")) }, []string{"blue", "red"}},
		"one that selects nothing is there, and a ServiceCIDR elsewhere comes": {func(in *steering.Inputs) {
			odd := growsFrom("odd", "", "10.9.0.0/16")
			odd.Spec.ServiceCIDRSelector = nil
			in.Policies, in.ServiceCIDRs = append(in.Policies, odd), append(in.ServiceCIDRs, servicecidr("new", "", "192.168.0.0/24"))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before, after, g := steering.Compile(world()), world(), growers{}
			tc.change(&after)
			now := steering.Compile(after)
			if got := g.concerned(steering.Compile(steering.Inputs{}), before); !slices.Equal(got, []string{"blue", "red"}) {
				t.Errorf("at the start %v", got)
			}
			if d := cmp.Diff(tc.want, g.concerned(before, now)); d != "" {
				t.Errorf("forth (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tc.want, g.concerned(now, before)); d != "" {
				t.Errorf("and back (-want +got):\n%s", d)
			}
		})
	}
}

func TestAPolicyThatGrowsNoMoreIsForgotten(t *testing.T) {
	for name, end := range map[string]func(*steering.Inputs){
		"it goes":             func(in *steering.Inputs) { in.Policies = in.Policies[1:] },
		"it loses its growth": func(in *steering.Inputs) { in.Policies[0] = changed(in.Policies[0]); in.Policies[0].Spec.Growth = nil },
	} {
		in, g := world(), growers{}
		first := steering.Compile(in)
		g.concerned(steering.Compile(steering.Inputs{}), first)
		end(&in)
		second := first.Recompile(in)
		g.concerned(first, second)
		in.ServiceCIDRs = append(in.ServiceCIDRs, servicecidr("new", "red", "10.1.7.0/24"))
		if got := g.concerned(second, second.Recompile(in)); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func changed(o *v1alpha1.ServiceCIDRPolicy) *v1alpha1.ServiceCIDRPolicy {
	o = o.DeepCopy()
	o.Generation++
	return o
}

// BenchmarkConcerned is a change of a ServiceCIDR among thousands, where a tenth of policies grow.
func BenchmarkConcerned(b *testing.B) {
	for _, n := range []int{10, 1000} {
		var in steering.Inputs
		for i := range n {
			pool := fmt.Sprint("pool-", i)
			in.ServiceCIDRs = append(in.ServiceCIDRs, servicecidr(pool, pool, fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), fmt.Sprintf("fd00:%x::/112", i+1)))
			o := growsFrom(pool, pool, fmt.Sprintf("172.%d.%d.0/24", i/256, i%256))
			if i%10 > 0 {
				o.Spec.Growth = nil
			}
			in.Policies = append(in.Policies, o)
		}
		before, g := steering.Compile(in), growers{}
		g.concerned(steering.Compile(steering.Inputs{}), before)
		in.ServiceCIDRs = append(slices.Clone(in.ServiceCIDRs), servicecidr("new", "", "192.168.0.0/24"))
		after := before.Recompile(in)
		b.Run(fmt.Sprintf("ranges=%d", n), func(b *testing.B) {
			for b.Loop() {
				if len(g.concerned(before, after)) > 0 {
					b.Fatal("it concerns none")
				}
			}
		})
	}
}
