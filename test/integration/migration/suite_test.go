// Package migration_test gives the commands of `kubectl clusterip migrate` the clusters that go wrong: bitmaps that are
// broken, encrypted or of somebody else, Services that share an address, IPAddresses that tell lies, servers that go away,
// and commands that are killed where it hurts. It knows the commands from outside alone. What they print is decoded into
// types of its own, and what they leave in etcd is read and written past every API server.
//
// Start with [world], which is a cluster to be broken, and with the rule that every refusal is held to: world.untouched.
package migration_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestMigration(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "migration")
}

// What every other spec relies on, without the command: the scenery is what it is taken for.
var _ = Describe("The scenery", Ordered, func() {
	var w *world

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, old)
		w.populate(ctx, 60)
	})

	It("has bitmaps that agree with the Services", func(ctx SpecContext) {
		for _, key := range []string{primaryKey, secondaryKey} {
			bitmap := w.etcd.legacy(ctx, key)
			Expect(bitmap.addresses()).To(Equal(w.used(ctx, key)), key)
			Expect(len(bitmap.addresses())).To(BeNumerically(">", 30), key)
		}
		Expect(w.etcd.get(ctx, nodePortsKey).raw).NotTo(BeEmpty())
		w.untouched(ctx, func() { w.heal(ctx) })
	})

	It("can be lied to through etcd", func(ctx SpecContext) {
		taken, _ := w.some(ctx, primaryKey)
		w.CreateService(ctx, "liar")
		w.rewrite(ctx, "liar", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = taken, []string{taken} })
		Expect(w.owners(ctx)[taken]).To(HaveLen(2))
	})

	It("notices a write to the storage", func(ctx SpecContext) {
		before := w.etcd.everything(ctx)
		w.etcd.flip(ctx, "10.96.77.77")
		Expect(before.changes(w.etcd.everything(ctx))).To(ConsistOf(HavePrefix(primaryKey + " was written")))
		w.etcd.restore(ctx, primaryKey, before)
		Expect(w.etcd.get(ctx, primaryKey).raw).To(Equal(before[primaryKey].raw))
	})
})
