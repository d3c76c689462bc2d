package steering_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

// rotation is what is expected of a range whose addresses are used one at a time: each once, the dynamic ones first, and then again in
// the same order.
type rotation struct {
	cidr    string
	resting []string // the oldest first
}

func newRotation(cidr string) *rotation { return &rotation{cidr: cidr} }

// turn notes that an address was taken and freed again, and says what is wrong with that.
func (r *rotation) turn(address string) (wrong string) {
	if !netip.MustParsePrefix(r.cidr).Contains(netip.MustParseAddr(address)) {
		return fmt.Sprintf("%s is not of %s", address, r.cidr)
	}
	at := slices.Index(r.resting, address)
	switch fresh := r.fresh(); {
	case at >= 0 && len(r.resting) < size(r.cidr):
		wrong = fmt.Sprintf("%s returns when %d of %d were used", address, len(r.resting), size(r.cidr))
	case at > 0:
		wrong = fmt.Sprintf("%s returns, and %d others rest longer", address, at)
	case at < 0 && fresh > 0 && !isDynamic(r.cidr, address):
		wrong = fmt.Sprintf("%s is static, and %d dynamic ones were not used yet", address, fresh)
	}
	if at >= 0 {
		r.resting = slices.Delete(r.resting, at, at+1)
	}
	r.resting = append(r.resting, address)
	return wrong
}

// fresh is how many dynamic addresses nobody has had yet.
func (r *rotation) fresh() int {
	fresh := dynamics(r.cidr)
	for _, address := range r.resting {
		if isDynamic(r.cidr, address) {
			fresh--
		}
	}
	return fresh
}

func TestRotation(t *testing.T) {
	r := newRotation("10.0.0.0/27") // of 30 addresses the upper 14 are dynamic
	for i := 17; i <= 30; i++ {
		if wrong := r.turn(fmt.Sprintf("10.0.0.%d", i)); wrong != "" {
			t.Error(wrong)
		}
		if i == 20 && (r.turn("10.0.0.1") == "" || r.turn("10.0.0.17") == "" || r.turn("10.0.1.5") == "") {
			t.Error("a static one, an early one and a foreign one are in order")
		}
	}
	for i := 2; i <= 16; i++ {
		if wrong := r.turn(fmt.Sprintf("10.0.0.%d", i)); wrong != "" {
			t.Error(wrong)
		}
	}
	if wrong := r.turn("10.0.0.18"); wrong != "" { // 17 came back early
		t.Error(wrong)
	}
	if wrong := r.turn("10.0.0.20"); wrong == "" {
		t.Error("19 has rested longer")
	}
}

// round creates and deletes a Service. It tells when the API server had created it, and when nobody had asked for its deletion yet.
func round(ctx context.Context, service *corev1.Service) (begun, end time.Time, addresses []string) {
	GinkgoHelper()
	created := bed.Create(ctx, service)
	begun = time.Now()
	end = time.Now()
	bed.DeleteServices(ctx, created)
	return begun, end, created.Spec.ClusterIPs
}

var _ = inOrder("An address that cools down", func() {
	const range4, range6 = "10.108.0.0/25", "fd00:108::/121"
	program := func(ctx context.Context, d time.Duration) {
		GinkgoHelper()
		bed.Program(ctx, "cool", steering.From("cool"), steering.ForNamespaces("tenant", "blue"), steering.Exclusive(), steering.OrFail(), steering.CoolsDown(d))
	}
	summary := func(ctx context.Context) func() v1alpha1.BandStatus {
		return func() v1alpha1.BandStatus { return bed.Policy(ctx, "cool").Status.Summary.BandStatus }
	}
	const total = 126 + 127

	BeforeAll(func(ctx SpecContext) {
		bed.OfferRange(ctx, "cool", nil, range4, range6)
		program(ctx, time.Hour)
	})

	// Rounds, in each of which a Service comes and goes. As long as an address is left that nobody had, nobody has one twice.
	// From then on each gets the one that has rested longest, though none has rested for its hour.
	It("does not return until the range is full, and then the oldest does", func(ctx SpecContext) {
		const rounds = 300 // more than twice as many as there are addresses
		rotations := map[corev1.IPFamily]*rotation{
			corev1.IPv4Protocol: newRotation(range4), corev1.IPv6Protocol: newRotation(range6),
		}
		for i := range rounds {
			_, _, addresses := round(ctx, dual("blue", fmt.Sprintf("round-%d", i)))
			for _, address := range addresses {
				Expect(rotations[familyOf(address)].turn(address)).To(BeEmpty(), "round %d", i)
			}
		}
		bed.ExpectNothingLeaked(ctx)
	})

	It("counts apart from what is free", func(ctx SpecContext) {
		Eventually(summary(ctx)).WithTimeout(cluster.Patience).Should(Equal(v1alpha1.BandStatus{Size: total, Cooling: total}))
		Eventually(func() []v1alpha1.PolicyRange { return bed.Policy(ctx, "cool").Status.Ranges }).WithTimeout(soon).Should(ConsistOf(
			And(HaveField("CIDR", range4), HaveField("Dynamic.Cooling", BeEquivalentTo(110)), HaveField("Static.Cooling", BeEquivalentTo(16))),
			And(HaveField("CIDR", range6), HaveField("Dynamic.Cooling", BeEquivalentTo(111)), HaveField("Static.Cooling", BeEquivalentTo(16))),
		))
		services := bed.CreateServices(ctx, 20, func(i int) *corev1.Service { return dual("blue", fmt.Sprintf("among-cooling-%d", i)) })
		Eventually(summary(ctx)).WithTimeout(cluster.Patience).Should(Equal(v1alpha1.BandStatus{Size: total, Used: 40, Cooling: total - 40}))
		bed.ExpectConsistent(ctx)
		bed.DeleteServices(ctx, services...)
	})

	// The API server knows of it by IPAddresses of the policy.
	It("is kept for others to see", func(ctx SpecContext) {
		Eventually(func() []string { return bed.Kept(ctx, steering.Cooling) }).WithTimeout(cluster.Patience).Should(HaveLen(total))
		for _, ip := range bed.Ours(ctx) {
			Expect(ip.Spec.ParentRef).To(HaveField("Name", "cool"))
			Expect(ip.OwnerReferences).To(HaveLen(1))
			Expect(ip.Finalizers).To(BeEmpty())
			Expect(ip.Annotations["clusterip-operator.io/last-service"]).To(HavePrefix("blue/"))
			released, err := time.Parse(time.RFC3339Nano, ip.Annotations["clusterip-operator.io/released-at"])
			Expect(err).NotTo(HaveOccurred())
			Expect(released).To(BeTemporally("~", time.Now(), 5*time.Minute))
		}
		Expect(bed.KeptBy(ctx, "cool")).To(HaveLen(total))
	})

	It("is free when nobody wants it to cool any more", func(ctx SpecContext) {
		program(ctx, 0)
		Eventually(func() []string { return bed.Kept(ctx, steering.Cooling) }).WithTimeout(cluster.Patience).Should(BeEmpty())
		Eventually(summary(ctx)).WithTimeout(cluster.Patience).Should(Equal(v1alpha1.BandStatus{Size: total, Free: total}))
	})

	// With three seconds of rest and more addresses than a client can use up in this time.
	It("does return, after its time and not before", Label("all"), func(ctx SpecContext) {
		const rest = 3 * time.Second
		bed.OfferRange(ctx, "brief", nil, "10.108.1.0/26", "fd00:108:1::/122")
		bed.Program(ctx, "brief", steering.From("brief"), steering.ForNamespaces("tenant", "red"), steering.Exclusive(), steering.OrFail(), steering.CoolsDown(rest))
		last := map[string]time.Time{}
		returned := 0
		for i := range 120 {
			next := time.Now().Add(80 * time.Millisecond) // 38 of 62 in three seconds, some of which the clean-up takes
			begun, end, addresses := round(ctx, dual("red", fmt.Sprintf("brief-%d", i)))
			for _, address := range addresses {
				if before, had := last[address]; had {
					returned++
					Expect(begun.Sub(before)).To(BeNumerically(">=", rest), "%s in round %d", address, i)
				}
				last[address] = end
			}
			time.Sleep(time.Until(next))
		}
		Expect(returned).To(BeNumerically(">", 0), "so that this shows something")
		Eventually(func() []string { return bed.KeptBy(ctx, "brief") }).WithTimeout(rest + soon).Should(BeEmpty())
		bed.DeletePolicies(ctx, "brief")
	})

	It("is given back to its Service alone, if that asks", func(ctx SpecContext) {
		program(ctx, time.Hour)
		service := dual("blue", "regular")
		_, _, addresses := round(ctx, service)
		time.Sleep(patient) // as long as the index show it in use, the API server decides
		for range 2 {       // before and after the leader has written it down
			Expect(bed.ExpectRefused(ctx, "cool", asking("blue", "other", addresses...))).To(ContainSubstring("blue/regular"))
			Expect(bed.ExpectRefused(ctx, "cool", asking("blue", "other", addresses[1]))).To(ContainSubstring(addresses[1]))
			again := bed.Create(ctx, asking("blue", "regular", addresses...))
			Expect(again.Spec.ClusterIPs).To(Equal(addresses))
			bed.ExpectConsistent(ctx)
			bed.DeleteServices(ctx, again)
			Eventually(func() string { return bed.Purpose(ctx, addresses[0]) }).WithTimeout(soon).Should(Equal(steering.Cooling))
		}
		Expect(bed.Create(ctx, dual("blue", "regular")).Spec.ClusterIPs).NotTo(ContainElement(BeElementOf(addresses)), "without asking")
	})

	// The API server has allocated an address before it finds that there is a Service of this name, and gives it back.
	It("has been a Service's", func(ctx SpecContext) {
		bed.Create(ctx, dual("blue", "there"))
		before := bed.KeptBy(ctx, "cool")
		for range 20 {
			_, err := bed.Try(ctx, dual("blue", "there"))
			Expect(apierrors.IsAlreadyExists(err)).To(BeTrue(), "%v", err)
		}
		bed.ExpectNothingLeaked(ctx)
		Consistently(func() []string { return bed.KeptBy(ctx, "cool") }).WithTimeout(3 * time.Second).Should(Equal(before))
	})

	It("rests on while the operator is started again", Label("all"), func(ctx SpecContext) {
		_, _, addresses := round(ctx, dual("blue", "before-the-break"))
		for _, address := range addresses {
			Eventually(func() string { return bed.Purpose(ctx, address) }).WithTimeout(soon).Should(Equal(steering.Cooling), address)
		}
		whileDown(ctx, func() {
			_, err := bed.Try(ctx, asking("plain", "meanwhile", addresses[0]))
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		})
		bed.ExpectRefused(ctx, "cool", asking("blue", "other", addresses[0]))
		services := bed.CreateServices(ctx, 90, func(i int) *corev1.Service { return dual("blue", fmt.Sprintf("after-the-break-%d", i)) })
		for _, address := range addresses {
			Expect(services).To(HaveEach(HaveField("Spec.ClusterIPs", Not(ContainElement(address)))))
		}
		bed.DeletePolicies(ctx, "cool")
		Expect(bed.Kept(ctx, steering.Cooling)).To(BeEmpty())
	})
})
