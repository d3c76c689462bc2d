package upgrade_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// The same way without our operator and without a migration. The API servers write all IPAddresses
// and report each. The commands look for the first time under 1.34:
//
//  1. Nothing is wrong but a bitmap that no API server keeps any more.
//  2. IPAddresses are deleted. 1.34 looks only every three minutes: `check` and `run` are faster.
//  3. It is killed at work: IPAddresses lack a Service or name another one, Services lack theirs.
//     `check --offline` finds each; `run` mends what the restarted server has not; `check` agrees.
var _ = Describe("A cluster that goes the way without a migration", Ordered, Label("soak"), func() {
	var r *rolling
	leftovers := map[string]int{"StaleBitmap": 2}

	BeforeAll(func(ctx SpecContext) { r = fiveThousand.open(ctx, old).startRolling(ctx) })

	It("loses no address on the way to 1.34", func(ctx SpecContext) {
		for _, to := range []framework.Options{minor33, minor34} {
			before := r.snapshot(ctx)
			r.roll(ctx, to, func(_, _ *framework.APIServer) {})
			r.expectHeld(ctx, before)
			repaired := map[string]int{}
			for _, event := range r.snapshot(ctx).repairEvents(before) {
				repaired[event.Reason]++
			}
			AddReportEntry("step to "+to.Version.Name, ReportEntryVisibilityAlways, fmt.Sprintf("reported: %v; refused: %d", repaired, len(r.work.taken)))
		}
		r.work.end()
		Expect(migrate.Count(r.check(ctx, done).Words())).To(Equal(leftovers))
	})

	It("is checked and mended while it serves", func(ctx SpecContext) {
		before := r.snapshot(ctx)
		lost := r.some(before, 20)
		for _, address := range lost {
			r.DeleteIPAddress(ctx, address)
		}
		found := r.check(ctx, findings)
		Expect(found.Words("IPAddressMissing", "IPAddressWrongParent", "IPAddressOrphan")).To(ConsistOf(words("IPAddressMissing", lost)))
		r.migrate(ctx, done, "run")
		Expect(migrate.Count(r.check(ctx, done).Words())).To(Equal(leftovers))
		now := r.snapshot(ctx)
		Expect(now.repairsSince(before)).To(BeEmpty(), "the API server was faster")
		Expect(now.clusterIPs()).To(Equal(before.clusterIPs()))
		r.expectWhole(ctx)
	})

	It("is checked and mended after an accident", func(ctx SpecContext) {
		before := r.snapshot(ctx)
		lost, strayed := r.some(before, 30)[:15], r.some(before, 30)[15:]
		orphans := []string{"10.96.0.201", "fd00:10:96::c9"} // of the static band, where no Service is by chance
		Expect(r.API.Kill()).To(Succeed())
		for _, address := range lost {
			r.etcd.Remove(ctx, addressKeys+address)
		}
		for _, address := range strayed {
			r.putAddress(ctx, address, "somebody-else")
		}
		for _, address := range orphans {
			r.putAddress(ctx, address, "never-created")
		}
		found := migrate.Decode(r.offline(ctx, findings, "check", "-o", "json").Stdout)
		Expect(found.Words("IPAddressMissing", "IPAddressWrongParent", "IPAddressOrphan")).To(ConsistOf(slices.Concat(
			words("IPAddressMissing", lost), words("IPAddressWrongParent", strayed), words("IPAddressOrphan", orphans))))

		Expect(r.API.Start(ctx)).To(Succeed())
		r.migrate(ctx, done, "run")
		Expect(migrate.Count(r.check(ctx, done).Words())).To(Equal(leftovers))
		r.expectWhole(ctx)
		Expect(r.snapshot(ctx).clusterIPs()).To(Equal(before.clusterIPs()))
		migrate.Publish(ctx, r.Cluster, r.etcd, r.URL())
		r.migrate(ctx, done, "finalize", "--yes", "--archive="+GinkgoT().TempDir()+"/bitmaps")
		Expect(r.check(ctx, done).Findings).To(BeEmpty())
	})
})

// some are n addresses of Services, of both families.
func (s *environment) some(p snapshot, n int) []string {
	GinkgoHelper()
	var all []string
	for address, owners := range p.owners() {
		if owners[0] != "default/kubernetes" {
			all = append(all, address)
		}
	}
	slices.Sort(all)
	Expect(len(all)).To(BeNumerically(">", 2*n))
	return slices.Concat(all[:n/2], all[len(all)-(n-n/2):])
}

// putAddress writes an old IPAddress of a Service that does not exist, as an API server would.
func (s *environment) putAddress(ctx context.Context, address, service string) {
	GinkgoHelper()
	ip := framework.NewIPAddress(address, cluster.Namespace, service)
	ip.APIVersion, ip.Kind = networkingv1.SchemeGroupVersion.String(), "IPAddress"
	ip.UID = "00000000-0000-4000-8000-000000000000"
	ip.CreationTimestamp = metav1.Unix(1700000000, 0)
	s.etcd.Put(ctx, addressKeys+address, storage.Encode(ip))
}

func words(kind string, addresses []string) (all []any) {
	for _, address := range addresses {
		all = append(all, kind+" "+address)
	}
	return all
}
