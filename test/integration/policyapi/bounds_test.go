package policyapi_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// most is how many reservations a policy may have.
const most = 1024

// drafted is a policy of n reservations.
func drafted(n int, address func(i int) string) *v1alpha1.ServiceCIDRPolicy {
	policy := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "large"}}
	for i := range n {
		policy.Spec.Reservations = append(policy.Spec.Reservations, v1alpha1.Reservation{
			Name: fmt.Sprintf("reservation-%d", i), Address: address(i), For: fmt.Sprintf("shop/cart-%d", i),
		})
	}
	return policy
}

// The API server stops evaluating rules when they cost too much, and refuses the object. A policy
// as large as the schema allows has to stay below.
var _ = Describe("As much as fits into a policy", func() {
	It("is accepted, created and changed", func(ctx SpecContext) {
		policy := drafted(most, func(i int) string {
			address := fmt.Sprintf("fd00:1111:2222:3333:4444:5555:6666:%x", 0xf000+i) // as long as an address gets
			return address + "-" + address
		})
		for i := range 64 {
			policy.Spec.ServiceCIDRs = append(policy.Spec.ServiceCIDRs, fmt.Sprintf("%0250d.%02d", 0, i))
		}
		policy.Spec.CoolDown = &metav1.Duration{Duration: time.Hour}
		began := time.Now()
		Expect(admin.Create(ctx, policy)).To(Succeed())
		AddReportEntry("created in", time.Since(began))
		DeferCleanup(admin.Delete, policy)
		policy.Spec.Priority = 1
		Expect(admin.Update(ctx, policy)).To(Succeed())
		policy.Spec.Reservations = policy.Spec.Reservations[1:]
		Expect(admin.Update(ctx, policy)).To(Succeed())
	})

	It("is accepted with growth", func(ctx SpecContext) {
		policy := drafted(0, nil)
		policy.Spec.ServiceCIDRSelector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
		growth := &v1alpha1.Growth{WhenFullWithin: &metav1.Duration{Duration: time.Hour}}
		for i := range 64 {
			policy.Spec.ServiceCIDRSelector.MatchLabels[fmt.Sprint("label-", i)] = "value"
			growth.ReservedNetworks = append(growth.ReservedNetworks, fmt.Sprintf("fd00:1111:2222:3333:4444:5555:6666:%x/128", 0xf000+i))
		}
		for i := range 16 {
			growth.From = append(growth.From, v1alpha1.Supernet{CIDR: fmt.Sprintf("fd00:1111:2222:3333:4444:5555:%x:0/112", 0xf000+i), PrefixLength: 126})
		}
		policy.Spec.Growth = growth
		Expect(admin.Create(ctx, policy, client.DryRunAll)).To(Succeed())
	})

	It("is 1,024 reservations", func(ctx SpecContext) {
		policy := drafted(most+1, func(i int) string { return netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}).String() })
		Expect(complaints(admin.Create(ctx, policy, client.DryRunAll))).To(ConsistOf(HaveField("Field", "spec.reservations")))
	})

	It("is 64 ServiceCIDRs", func(ctx SpecContext) {
		policy := drafted(0, nil)
		for i := range 65 {
			policy.Spec.ServiceCIDRs = append(policy.Spec.ServiceCIDRs, fmt.Sprintf("c%d", i))
		}
		Expect(complaints(admin.Create(ctx, policy, client.DryRunAll))).To(ConsistOf(HaveField("Field", "spec.serviceCIDRs")))
	})
})

// pair draws two addresses of a family, the lower one first. They share a prefix of random length,
// so that every byte may decide, and have many zero bytes, which IPv6's short form leaves out.
func pair(random *rand.Rand, size int) (low, high netip.Addr) {
	draw := func() byte { return byte(random.IntN(256)) * byte(random.IntN(2)) }
	first, second := make([]byte, size), make([]byte, size)
	shared := random.IntN(size)
	for i := range size {
		first[i] = draw()
		second[i] = first[i]
		if i >= shared {
			second[i] = draw()
		}
	}
	low, _ = netip.AddrFromSlice(first)
	high, _ = netip.AddrFromSlice(second)
	if high.Less(low) {
		low, high = high, low
	}
	return low, high
}

// CEL cannot compare addresses, so the rule about a range's ends does its own way. netip checks it.
var _ = DescribeTable("The order of the ends of a range",
	func(ctx SpecContext, size int) {
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(size)))
		var lows, highs []netip.Addr
		for len(lows) < most {
			if low, high := pair(random, size); low != high && !low.Is4In6() && !high.Is4In6() {
				lows, highs = append(lows, low), append(highs, high)
			}
		}
		right := drafted(most, func(i int) string { return fmt.Sprintf("%s-%s", lows[i], highs[i]) })
		Expect(admin.Create(ctx, right, client.DryRunAll)).To(Succeed())
		wrong := drafted(most, func(i int) string { return fmt.Sprintf("%s-%s", highs[i], lows[i]) })
		Expect(complaints(admin.Create(ctx, wrong, client.DryRunAll))).To(And(HaveLen(most), HaveEach(HaveField("Message", ContainSubstring(sayLower)))))
	},
	Entry("of IPv4 is that of numbers", 4),
	Entry("of IPv6 is that of numbers", 16),
)
