package apiserver_test

import (
	"net/netip"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/replicas"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

var _ = Describe("Replicas at a real API server", Ordered, func() {
	var (
		cp      *framework.ControlPlane
		crew    crew
		look    func() map[string]coordinationv1.Lease
		auditor *auditor
		a, b, c *replica
	)

	BeforeAll(func(ctx SpecContext) {
		cp = suite.ControlPlane(ctx, framework.Options{})
		crew.config = installed(ctx, cp)
		DeferCleanup(crew.dismiss)
		look = leases(cp)
		auditor = audit()
		DeferCleanup(auditor.stop)
	})

	It("lets the first one own everything, when it has waited for others' addresses to settle", func() {
		a = crew.start("a", auditor)
		Expect(a.Joined()).To(BeFalse())
		Eventually(owned(a)).WithTimeout(patience).Should(Equal(len(some)))
		Expect(a.Joined()).To(BeTrue())
		lease := look()[a.ID()]
		Expect(lease.Name).To(Equal("clusterip-operator-replica-" + a.ID()))
		Expect(*lease.Spec.LeaseDurationSeconds).To(BeEquivalentTo(7))
		auditor.found(a)
	})

	It("divides the addresses when others join, and whoever was sure stays so", func() {
		b, c = crew.start("b", auditor), crew.start("c", auditor)
		for _, r := range []*replica{a, b, c} {
			Eventually(r.Living).WithTimeout(patience).Should(ConsistOf(a.ID(), b.ID(), c.ID()))
			Eventually(r.Joined).WithTimeout(patience).Should(BeTrue())
		}
		Eventually(owned(a, b, c)).WithTimeout(patience).Should(Equal(len(some)))
		Expect(owned(b)()).To(BeNumerically(">", len(some)/6))
		doubles, unsure := auditor.found(a)
		Expect(doubles).To(BeZero())
		Expect(unsure).To(BeZero())
	})

	// Nobody waits longer for an answer than a request may take. Where the machine was too busy for that, other addresses are asked for; but even
	// then none is lent twice.
	It("lends addresses, each once", func(ctx SpecContext) {
		var asked []netip.Addr
		Eventually(func(g Gomega) {
			fresh := slices.DeleteFunc(ownedBy(b), func(address netip.Addr) bool { return slices.Contains(asked, address) })
			g.Expect(len(fresh)).To(BeNumerically(">=", 20))
			fresh = fresh[:20]
			asked = append(asked, fresh...)
			answers := borrowed(ctx, fresh, a, c)
			for address, grants := range answers {
				grants = slices.DeleteFunc(slices.Clone(grants), func(grant replicas.Grant) bool { return grant != replicas.Outright })
				Expect(len(grants)).To(BeNumerically("<=", 1), "%s was lent twice", address)
				Expect(len(grants) == 0 || slices.Contains(b.lentOut(), address)).To(BeTrue(), "somebody else has lent %s", address)
			}
			g.Expect(answers).To(And(HaveLen(20), HaveEach(ConsistOf(replicas.Outright, replicas.Refused))))
			g.Expect(b.lentOut()).To(ContainElements(fresh))
		}).WithTimeout(patience).WithPolling(3 * time.Second).Should(Succeed()) // as often as it owns enough
		Expect(asked).To(ContainElements(b.lentOut()), "nobody asked for some")
	})

	It("counts a replica out that is cut off, when that one is not sure any more, and takes it in again", func() {
		before := look()[c.ID()].UID
		auditor.found(a)
		c.line.cut()
		Eventually(c.sure).WithTimeout(duration).Should(BeFalse())
		Expect(look()).To(HaveKey(c.ID()), "it has to give up long before the others count it out")
		Eventually(look).WithTimeout(patience).ShouldNot(HaveKey(c.ID()))
		Eventually(owned(a, b)).WithTimeout(patience).Should(Equal(len(some)))
		Expect(c.Joined()).To(BeTrue(), "it goes on as well as it can")

		c.line.mend()
		Eventually(c.sure).WithTimeout(patience).Should(BeTrue())
		Eventually(owned(a, b, c)).WithTimeout(patience).Should(Equal(len(some)))
		Expect(look()[c.ID()].UID).NotTo(Equal(before))
		doubles, unsure := auditor.found(a)
		Expect(doubles).To(BeZero())
		Expect(unsure).To(BeZero(), "others may go without making anybody unsure")
	})

	It("divides the addresses of one that was killed", func() {
		auditor.found(a)
		b.kill()
		Expect(look()).To(HaveKey(b.ID()))
		Eventually(owned(a, c)).WithTimeout(patience).Should(Equal(len(some)))
		Expect(look()).NotTo(HaveKey(b.ID()))
		_, unsure := auditor.found(a)
		Expect(unsure).To(BeZero())
	})

	It("lets all be unsure while the API server is away, and recovers by itself", func() {
		before := look()
		anyIsSure := func() bool { return a.sure() || c.sure() }
		Expect(cp.API.Pause()).To(Succeed())
		Eventually(anyIsSure).WithTimeout(duration).Should(BeFalse())
		Consistently(anyIsSure).WithTimeout(duration).Should(BeFalse())
		Expect(a.Joined()).To(BeTrue())
		Expect(cp.API.Resume()).To(Succeed())
		Eventually(owned(a, c)).WithTimeout(patience).Should(Equal(len(some)))
		for _, r := range []*replica{a, c} {
			Expect(look()[r.ID()].UID).To(Equal(before[r.ID()].UID), "nobody is counted out who could not be heard")
		}
	})

	It("does not wait for one that leaves", func() {
		c.stop()
		Expect(c.sure()).To(BeFalse())
		Expect(look()).NotTo(HaveKey(c.ID()))
		Eventually(a.Living).WithTimeout(duration / 2).Should(ConsistOf(a.ID()))
		Eventually(owned(a)).WithTimeout(duration).Should(Equal(len(some)))
	})

	AfterAll(func() {
		doubles, _ := auditor.found(a)
		Expect(doubles).To(BeZero())
	})
})
