package upgrade_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// The API server of the cluster does not know IPAddresses, so they are written past it:
//
//  1. On one copy of the cluster the new API server writes them itself. These are the pattern.
//  2. On the other, `seed` writes the same bytes, but for time, UID and name of the writer.
//  3. The new API server finds nothing to repair.
var _ = Describe("A cluster that does not serve IPAddresses", func() {
	DescribeTable("is seeded",
		func(ctx SpecContext, y *stoppedCluster) {
			pattern := y.repaired(ctx)
			s := y.open(ctx, oldest)
			before := s.snapshot(ctx)
			Expect(migrate.Count(s.check(ctx, findings).Words())).To(HaveKeyWithValue("IPAddressMissing", len(before.owners())))
			s.migrate(ctx, findings, "verify")
			s.migrate(ctx, refused, "seed")
			s.preview(ctx, "seed", "--etcd", "--dry-run")

			s.migrate(ctx, done, "seed", "--etcd")
			now := s.snapshot(ctx)
			Expect(cmp.Diff(exact(pattern), exact(now.addresses))).To(BeEmpty())
			Expect(uids(now.addresses)).To(HaveLen(len(pattern)))
			Expect(cmp.Diff(before.others(), now.others())).To(BeEmpty(), "nothing else is seeded")

			s.migrate(ctx, done, "verify")
			s.offline(ctx, done, "verify")
			s.migrate(ctx, done, "seed", "--etcd")
			Expect(now.changes(s.snapshot(ctx))).To(BeEmpty(), "a second time")

			before = s.snapshot(ctx)
			s.restart(ctx, newer)
			s.expectCalm(ctx, before)
			s.expectWhole(ctx)
			Expect(s.ServiceCIDR(ctx, "kubernetes").Spec.CIDRs).To(Equal(strings.Split(y.ranges, ",")))
			s.expectNew(ctx, "fresh", 20)
		},
		Entry("with three thousand Services", manyServices, Label("soak")),
		Entry("with IPv4 alone", Label("soak"), fewIPv4),
		Entry("with IPv6 before IPv4", fewIPv6First),
	)

	// Seed leaves notes in etcd about what it has written. They go, too.
	It("is left as it was by unseed", func(ctx SpecContext) {
		s := fewServices.open(ctx, oldest)
		before, keys := s.snapshot(ctx), s.keys(ctx)
		s.migrate(ctx, done, "seed", "--etcd")
		late := s.expectNew(ctx, "late", 3)
		s.migrate(ctx, done, "seed", "--etcd")
		s.DeleteServices(ctx, late...)
		Expect(s.snapshot(ctx).addresses).To(HaveLen(len(before.owners()) + 6))
		s.preview(ctx, "unseed", "--etcd", "--dry-run")
		s.migrate(ctx, refused, "unseed")
		s.migrate(ctx, done, "unseed", "--etcd")
		now := s.snapshot(ctx)
		Expect(now.addresses).To(BeEmpty())
		Expect(before.services.Changes(now.services)).To(BeEmpty())
		Expect(cmp.Diff(keys, s.keys(ctx))).To(BeEmpty())
	})

	It("is not unseeded once API servers allocate, and keeps no note of it after finalize", func(ctx SpecContext) {
		s := fewIPv4.open(ctx, oldest)
		s.migrate(ctx, done, "seed", "--etcd")
		Expect(s.keys(ctx)).To(ContainElement(HavePrefix(noteKeys)))
		s.restart(ctx, newer)
		before := s.snapshot(ctx)
		s.migrate(ctx, refused, "unseed", "--etcd")
		Expect(s.API.Stop()).To(Succeed())
		s.offline(ctx, refused, "unseed", "--etcd")

		s.restart(ctx, newer)
		migrate.Publish(ctx, s.Cluster, s.etcd, s.URL())
		s.migrate(ctx, done, "finalize", "--yes", "--archive="+filepath.Join(GinkgoT().TempDir(), "archive.yaml"))
		Expect(s.keys(ctx)).NotTo(ContainElement(HavePrefix(noteKeys)))
		Expect(before.addresses.Changes(s.snapshot(ctx).addresses)).To(BeEmpty())
	})

	// Before seed there are a Service's IPAddress by another writer and a reservation. Afterwards
	// another writer labels one that seed wrote, and replaces one.
	It("keeps by unseed what somebody else wrote or changed", func(ctx SpecContext) {
		s := fewServices.open(ctx, oldest)
		owners := s.snapshot(ctx).owners()
		addresses := slices.Sorted(maps.Keys(owners))
		written, labelled, replaced := addressKeys+addresses[50], addressKeys+addresses[100], addressKeys+addresses[150]
		const reserved = "10.96.0.200" // of the static band, where no Service is by chance
		reservation := addressKeys + reserved
		namespace, name, _ := strings.Cut(owners[addresses[50]][0], "/")
		s.etcd.Put(ctx, written, storage.Encode(framework.NewIPAddress(addresses[50], namespace, name)))
		s.etcd.Put(ctx, reservation, storage.Encode(framework.NewIPAddress(reserved, cluster.Namespace, "nobody", framework.ManagedBy("somebody"))))
		before := s.snapshot(ctx)
		s.migrate(ctx, done, "seed", "--etcd")
		seeded := s.snapshot(ctx)
		Expect(seeded.addresses).To(HaveLen(len(owners) + 1))
		Expect(before.addresses.Changes(seeded.addresses)).To(HaveLen(len(owners)-1), "those that were there are not touched")

		changed := storage.Decode[*networkingv1.IPAddress](seeded.addresses[labelled])
		changed.Labels["team"] = "mine"
		s.etcd.Put(ctx, labelled, storage.Encode(changed))
		s.etcd.Remove(ctx, replaced)
		s.etcd.Put(ctx, replaced, seeded.addresses[replaced].Raw)

		before = s.snapshot(ctx)
		s.migrate(ctx, done, "unseed", "--etcd")
		now := s.snapshot(ctx)
		Expect(slices.Collect(maps.Keys(now.addresses))).To(ConsistOf(written, reservation, labelled, replaced))
		Expect(now.addresses.Changes(before.addresses)).To(HaveEach(HaveSuffix("is new")), "what is kept is not written")
		Expect(cmp.Diff(before.others(), now.others())).To(BeEmpty())
	})
})

// noteKeys are where seed writes down what it has written.
const noteKeys = "/registry/clusterip-operator.io/"

// repaired are the IPAddresses that the new API server itself writes on the stopped cluster.
func (y *stoppedCluster) repaired(ctx context.Context) storage.Values {
	GinkgoHelper()
	s := y.open(ctx, newer)
	s.expectWhole(ctx)
	all := s.snapshot(ctx).addresses
	Expect(s.API.Stop()).To(Succeed())
	return all
}

// preview wants that a command with something to do writes nothing.
func (s *environment) preview(ctx context.Context, args ...string) {
	GinkgoHelper()
	before := s.snapshot(ctx)
	s.migrate(ctx, findings, args...)
	Expect(before.changes(s.snapshot(ctx))).To(BeEmpty(), "a preview")
}

// uids are those of IPAddresses, each once.
func uids(all storage.Values) map[string]bool {
	GinkgoHelper()
	found := map[string]bool{}
	for key, stored := range all {
		ip := storage.Decode[*networkingv1.IPAddress](stored)
		Expect(ip.CreationTimestamp.IsZero()).To(BeFalse(), key)
		found[string(ip.UID)] = true
	}
	return found
}

// others are the snapshot's values but IPAddresses and events.
func (p snapshot) others() []storage.Values { return []storage.Values{p.cidrs, p.bitmaps, p.services} }
