package migration_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// A bit was missing, and the old allocator gave an address to a second Service. Only the owners of
// the two can tell which has to go.
var _ = Describe("An address of several Services", Ordered, func() {
	var (
		w         *environment
		four, six string
		before    map[string]storage.Value
	)
	services := []string{"zulu", "alpha", "mike"} // from the oldest to the youngest, and not as they are listed

	kept := func(ctx context.Context) map[string]storage.Value {
		GinkgoHelper()
		all := map[string]storage.Value{}
		for _, name := range services {
			all[name] = w.etcd.Get(ctx, servicesKey+cluster.Namespace+"/"+name)
		}
		return all
	}
	owners := func(r migrate.Output, address string) []string {
		GinkgoHelper()
		for _, f := range r.Of("DuplicateClusterIP") {
			if f.Address == address {
				return f.Objects
			}
		}
		Fail("not reported: " + address)
		return nil
	}
	reported := func(r migrate.Output) {
		GinkgoHelper()
		Expect(r.Words("DuplicateClusterIP")).To(ConsistOf("DuplicateClusterIP "+four, "DuplicateClusterIP "+six))
		Expect(owners(r, four)[:3]).To(Equal([]string{"Service default/zulu", "Service default/alpha", "Service default/mike"}))
		Expect(owners(r, six)[:2]).To(Equal([]string{"Service default/zulu", "Service default/alpha"}))
	}

	BeforeAll(func(ctx SpecContext) {
		w = newEnvironment(ctx, old, 20)
		for _, name := range services {
			w.CreateService(ctx, name, framework.RequireDualStack())
		}
		zulu := w.etcd.Get(ctx, servicesKey+"default/zulu")
		victim := storage.Decode[*corev1.Service](zulu)
		four, six = victim.Spec.ClusterIPs[0], victim.Spec.ClusterIPs[1]
		for i, name := range services {
			w.rewrite(ctx, name, func(s *corev1.Service) {
				s.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Duration(i-10) * time.Hour))
				s.Spec.ClusterIP, s.Spec.ClusterIPs[0] = four, four
				if name == "alpha" {
					s.Spec.ClusterIPs[1] = six
				}
			})
		}
		before = kept(ctx)
	})
	AfterEach(func(ctx SpecContext) {
		if CurrentSpecReport().LeafNodeText != "is free when the younger ones were made anew" {
			Expect(kept(ctx)).To(Equal(before), "a Service was changed")
		}
	})

	It("is reported with all of them, the oldest first", func(ctx SpecContext) {
		w.untouched(ctx, func() {
			r := w.check(ctx, found)
			reported(r)
			for _, f := range r.Of("DuplicateClusterIP") {
				Expect(f.Blocks).To(BeFalse())
				Expect(f.Plan).To(ContainSubstring("default/alpha"), "which one has to be recreated: %+v", f)
			}
			table := w.offline(ctx, "check").Stdout
			for _, word := range append(services, four, six) {
				Expect(table).To(ContainSubstring(word))
			}
		})
	})

	It("becomes the oldest one's", func(ctx SpecContext) {
		answer := with(found, w.migrate(ctx, "run"))
		Expect(answer.Stdout + answer.Stderr).To(And(ContainSubstring(four), ContainSubstring(six)))
		for _, address := range []string{four, six} {
			Expect(w.Owner(ctx, address)).To(Equal("default/zulu"))
		}
		Expect(w.etcd.Count(ctx, addressesKey)).To(Equal(len(w.owners(ctx))), "every address has its IPAddress, and one")
	})

	It("stays the oldest one's when a younger one stands in the IPAddress", func(ctx SpecContext) {
		w.DeleteIPAddress(ctx, four)
		w.CreateIPAddress(ctx, framework.NewIPAddress(four, cluster.Namespace, "alpha"))
		Expect(w.check(ctx, found).Words()).To(ContainElements("IPAddressWrongParent "+four, "DuplicateClusterIP "+four))
		with(found, w.migrate(ctx, "run"))
		Expect(w.Owner(ctx, four)).To(Equal("default/zulu"))
	})

	It("is in the way of the flip", func(ctx SpecContext) {
		w.untouched(ctx, func() {
			answers := w.together(ctx, []string{"verify"}, []string{"verify", "-o", "json"})
			for _, word := range append(services, four, six) {
				Expect(with(found, answers[0]).Stdout).To(ContainSubstring(word))
			}
			reported(migrate.Decode(with(found, answers[1]).Stdout))
		}, conditionKey)
	})

	It("is not resolved by any other command", func(ctx SpecContext) {
		with(found, w.migrate(ctx, "run", "--repair-bitmap", "--leak-grace=1s"))
		with(found, w.offline(ctx, "seed", "--etcd"))
		w.untouched(ctx, func() {
			answer := with(refused, w.offline(ctx, "rollback", "--yes", "--archive="+file("x", "")+".new"))
			Expect(answer.String()).To(And(ContainSubstring(four), ContainSubstring("zulu"), ContainSubstring("alpha")))
		})
	})

	It("is free when the younger ones were made anew", func(ctx SpecContext) {
		for _, name := range services[1:] {
			Expect(w.Client().CoreV1().Services(cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}
		with(clean, w.migrate(ctx, "run", "--repair-bitmap", "--leak-grace=1s")) // the API server took the bits away with the younger ones
		for _, name := range services[1:] {
			w.CreateService(ctx, name, framework.RequireDualStack())
		}
		with(clean, w.migrate(ctx, "run", "--repair-bitmap", "--leak-grace=1s"))
		with(clean, w.migrate(ctx, "verify"))
		w.check(ctx, clean)
		for _, address := range []string{four, six} {
			Expect(w.owners(ctx)[address]).To(Equal([]string{"default/zulu"}))
			Expect(w.Owner(ctx, address)).To(Equal("default/zulu"))
		}
	})
})
