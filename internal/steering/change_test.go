package steering

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// TestWithSaysWhatEverythingSays changes or adds a policy, and compares what compiles of its part
// with what compiles of everything. What is left out must be as it was before.
func TestWithSaysWhatEverythingSays(t *testing.T) {
	same := []gocmp.Option{cmpopts.IgnoreUnexported(Policy{}), cmpopts.EquateComparable(PolicyRange{}, Reservation{}, netip.Prefix{})}
	leftOut := 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 9))
		in := randomInputs(random)
		in.Policies = append(in.Policies, randomInputs(random).Policies...)
		for i, p := range in.Policies {
			p.Name = fmt.Sprint("policy-", i)
			p.Spec.ServiceCIDRs = p.Spec.ServiceCIDRs[:min(2, len(p.Spec.ServiceCIDRs))] // so that there are several parts
			if seed%4 > 0 {
				p.Spec.Reservations = nil
			}
		}
		if len(in.Policies) == 0 {
			continue
		}
		last := len(in.Policies) - 1
		o, before := in.Policies[last], Compile(Inputs{Policies: in.Policies[:last], ServiceCIDRs: in.ServiceCIDRs})
		if random.IntN(2) == 0 && last > 0 {
			o.Name = "policy-0"
		}
		all, part := Compile(before.withAll(o)), Compile(before.With(o))
		leftOut += len(all.Policies()) - len(part.Policies())
		for _, want := range all.Policies() {
			got := part.Policy(want.Name)
			if got == nil {
				got = before.Policy(want.Name)
			}
			if d := gocmp.Diff(want, got, same...); d != "" {
				t.Fatalf("inputs %d: %s changed: %s (-everything +part):\n%s", seed, o.Name, want.Name, d)
			}
		}
		for _, c := range in.ServiceCIDRs {
			for _, r := range c.Ranges {
				anybody := func(*Policy) bool { return true }
				others := func(p *Policy) bool { return part.Policy(p.Name) == nil }
				want := all.Closed(r.Prefix(), anybody)
				if got := part.Closed(r.Prefix(), anybody) || before.Closed(r.Prefix(), others); got != want {
					t.Fatalf("inputs %d: %s changed: %s is closed: %v, want %v", seed, o.Name, r, got, want)
				}
			}
		}
	}
	if leftOut < 400 {
		t.Errorf("only %d policies were left out", leftOut)
	}
}

// TestWithCostsWhatOverlaps adds a policy to a thousand that have a range each.
func TestWithCostsWhatOverlaps(t *testing.T) {
	in := Inputs{}
	for i := range 1000 {
		c := ready(fmt.Sprint("cidr-", i), fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), fmt.Sprintf("fd00:%x::/112", i+1))
		p := policy(fmt.Sprint("policy-", i), 0)
		p.Spec.ServiceCIDRs, p.Spec.Exclusive = []string{c.Name}, true
		in.ServiceCIDRs, in.Policies = append(in.ServiceCIDRs, c), append(in.Policies, p)
	}
	more := policy("more", 1)
	more.Spec.ServiceCIDRs = []string{"cidr-7", "cidr-9"}
	part := Compile(in).With(more)
	if len(part.Policies) != 3 || len(part.ServiceCIDRs) != 2 {
		t.Errorf("%d policies and %d ServiceCIDRs are compiled, want 3 and 2", len(part.Policies), len(part.ServiceCIDRs))
	}
	more.Spec.Reservations = []v1alpha1.Reservation{{Name: "a", Address: "10.9.9.9"}}
	if part = Compile(in).With(more); len(part.Policies) != 1001 {
		t.Errorf("%d policies are compiled beside a reservation, want all", len(part.Policies))
	}
}
