package upgrade_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// migrated is the default ServiceCIDR's condition for progress, ourManager the IPAddresses' writer.
const (
	migrated   = "clusterip-operator.io/Migrated"
	ourManager = "clusterip-operator-migration"
)

// The same cluster is upgraded twice, with three thousand Services on the bitmap and holes between:
//
//  1. As it is. The new API server writes every IPAddress at its start, and an event for each
//     Service: the proof that the rest of the suite can see a repair.
//  2. After a migration. `check` finds what is missing, `plan` and `run` write it, `verify` agrees.
//  3. The new API server writes and says nothing. What it found is what it would have written.
//  4. Life goes on.
var _ = Describe("A cluster that leaves the bitmap", Ordered, Label("soak"), func() {
	var (
		s      *environment
		before snapshot
		plan   string

		addresses, services int            // how many there are
		byUpstream          storage.Values // the IPAddresses that the new API server writes itself
	)

	BeforeAll(func(ctx SpecContext) {
		s = manyServices.open(ctx, old)
		before = s.snapshot(ctx)
		addresses, services = len(before.owners()), len(before.services)
	})

	It("makes the API server repair everything", func(ctx SpecContext) {
		without := manyServices.open(ctx, old)
		before := without.snapshot(ctx)
		Expect(before.addresses).To(BeEmpty())
		Expect(before.services).To(HaveLen(services))
		without.restart(ctx, newer)
		Eventually(func(g Gomega) { // events and words of the log come after the work that they tell
			now := without.snapshot(ctx)
			g.Expect(now.addresses).To(HaveLen(addresses))
			g.Expect(len(now.repairsSince(before))).To(BeNumerically(">=", 3000))
			g.Expect(len(without.complaintsSince(before.log))).To(BeNumerically(">=", addresses))
		}).WithTimeout(cluster.Timeout).WithPolling(time.Second).Should(Succeed())
		byUpstream = without.snapshot(ctx).addresses
	})

	It("is checked, and told what it lacks", func(ctx SpecContext) {
		report := s.check(ctx, findings)
		Expect(report.Kind).To(Equal("MigrationReport"))
		Expect(report.Allocator).To(Equal("Bitmap"))
		Expect(report.Ranges).To(Equal(strings.Split(twoFamilies, ",")))
		Expect(migrate.Count(report.Words())).To(Equal(map[string]int{"IPAddressMissing": addresses, "DefaultServiceCIDRMissing": 1}))
		Expect(report.Counts.Services).To(Equal(services))
		Expect(report.Counts.ClusterIPs).To(Equal(addresses))
		Expect(report.Counts.IPAddresses).To(BeZero())
		Expect(report.Used()).To(Equal(before.addressesByRange()))
		s.migrate(ctx, findings, "verify")
		Expect(before.changes(s.snapshot(ctx))).To(BeEmpty(), "somebody wrote")
	})

	It("is migrated by a plan", func(ctx SpecContext) {
		plan = filepath.Join(GinkgoT().TempDir(), "plan.yaml")
		s.migrate(ctx, findings, "plan", "-o", plan)
		text, err := os.ReadFile(plan)
		Expect(err).NotTo(HaveOccurred())
		report := migrate.Decode(string(text))
		Expect(report.Kind).To(Equal("MigrationPlan"))
		Expect(migrate.Count(report.Todo())).To(Equal(map[string]int{"CreateIPAddress": addresses, "CreateServiceCIDR": 1}))
		Expect(before.changes(s.snapshot(ctx))).To(BeEmpty(), "a plan is only a plan")

		s.migrate(ctx, done, "run", "--from", plan)
		Expect(s.check(ctx, done).Findings).To(BeEmpty())
		s.migrate(ctx, done, "verify")
		Expect(s.Condition(ctx, "kubernetes", migrated)).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "ReadyToFlip")))
	})

	It("has what the new API server would have written itself", func(ctx SpecContext) {
		now := s.snapshot(ctx)
		Expect(cmp.Diff(alike(byUpstream), alike(now.addresses))).To(BeEmpty())
		for key, stored := range now.addresses {
			Expect(addressOf(stored).managers()).To(ConsistOf(ourManager), key)
		}
		Expect(cmp.Diff(before.bitmaps, now.bitmaps)).To(BeEmpty(), "the bitmaps are still in use")
	})

	It("is run once more, and nothing is written", func(ctx SpecContext) {
		before := s.snapshot(ctx)
		s.migrate(ctx, done, "run")
		Expect(before.changes(s.snapshot(ctx))).To(BeEmpty())
	})

	It("needs no repair", func(ctx SpecContext) {
		before = s.snapshot(ctx)
		s.restart(ctx, newer)
		s.expectCalm(ctx, before)
		s.expectWhole(ctx)
		s.migrate(ctx, done, "verify")
	})

	It("allocates in every family", func(ctx SpecContext) {
		for _, service := range s.expectNew(ctx, "fresh", 20) {
			for _, ip := range service.Spec.ClusterIPs {
				Expect(s.IPAddress(ctx, ip).ManagedFields).To(ConsistOf(HaveField("Manager", "kube-apiserver")))
			}
		}
		s.expectWhole(ctx)
		Expect(s.ServiceCIDR(ctx, "kubernetes").Spec.CIDRs).To(Equal(strings.Split(twoFamilies, ",")))
	})
})

// addressesByRange counts the ClusterIPs in each range of the usual two.
func (p snapshot) addressesByRange() map[string]int {
	GinkgoHelper()
	counts := map[string]int{}
	for address := range p.owners() {
		for text := range strings.SplitSeq(twoFamilies, ",") {
			if netip.MustParsePrefix(text).Contains(netip.MustParseAddr(address)) {
				counts[text]++
			}
		}
	}
	return counts
}

// changes are the writes to anything that the command looks at, but for events.
func (p snapshot) changes(later snapshot) []string {
	var all []string
	for _, pair := range [][2]storage.Values{{p.addresses, later.addresses}, {p.cidrs, later.cidrs}, {p.bitmaps, later.bitmaps}, {p.services, later.services}} {
		all = append(all, pair[0].Changes(pair[1])...)
	}
	return all
}

// Services come and go all the while:
//
//  1. The cluster is migrated under way.
//  2. `verify --watch` keeps IPAddresses in step with Services.
//  3. The API server stops in the middle, then the watch, which misses the last milliseconds.
//  4. `seed --offline` makes up for it, and `verify --offline` confirms it.
//  5. The new API server finds nothing to repair, and every Service that was promised.
var _ = Describe("A cluster in which Services come and go", func() {
	DescribeTable("is migrated without a repair", Label("soak"),
		func(ctx SpecContext, y *stoppedCluster, server framework.Options, migrate func(context.Context, *environment), watchArgs []string, signal syscall.Signal) {
			s := y.open(ctx, server)
			work := s.startChurn(ctx)

			By("migrating")
			began := work.acts.Load()
			migrate(ctx, s)
			Expect(work.acts.Load()).To(BeNumerically(">", began+10), "it was not under way")

			By("keeping in step")
			watch := s.watch(ctx, watchArgs...)
			work.waitFor(60)
			Expect(watch.Running()).To(BeTrue(), func() string { return watch.LogTail(60) })

			By("stopping the API server in the middle of the work")
			Expect(s.API.Kill()).To(Succeed()) // asked politely, it would wait a minute for the watches to end
			work.end()
			Expect(syscall.Kill(watch.Pid(), signal)).To(Succeed())
			Expect(watch.Wait(ctx)).To(Equal(done), func() string { return watch.LogTail(60) })
			s.offline(ctx, done, "seed", "--etcd")
			s.offline(ctx, done, "verify")

			By("starting the new API server")
			before := s.snapshot(ctx)
			work.expectKept(before)
			s.expectNoDuplicate(ctx)
			s.restart(ctx, newer)
			s.expectCalm(ctx, before)
			s.expectWhole(ctx)
			s.expectNew(ctx, "fresh", 20)
			work.expectKept(s.snapshot(ctx))
		},
		Entry("through the API", manyServices, old, run, nil, syscall.SIGTERM),
		Entry("through etcd", manyServices, oldest, seed, []string{"--etcd"}, syscall.SIGINT),
	)
})

func run(ctx context.Context, s *environment) { s.migrate(ctx, done, "run") }

func seed(ctx context.Context, s *environment) { s.migrate(ctx, done, "seed", "--etcd") }
