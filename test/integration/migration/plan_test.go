package migration_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// A plan is written to a file, an admin reads it, and meanwhile the world moves on.
var _ = Describe("A plan in a file", Ordered, ContinueOnFailure, func() {
	const listed, unlisted, moved = "10.96.0.211", "10.96.0.212", "10.96.0.213"
	var (
		w    *environment
		path string
	)

	BeforeAll(func(ctx SpecContext) {
		w = newEnvironment(ctx, old, 40)
		w.CreateIPAddress(ctx, framework.NewIPAddress(listed, cluster.Namespace, "never"))
		w.CreateIPAddress(ctx, framework.NewIPAddress(moved, cluster.Namespace, "never"))
		path = filepath.Join(GinkgoT().TempDir(), "plan.yaml")
	})
	content := func() string {
		GinkgoHelper()
		text := suite.Must(os.ReadFile(path))
		return string(text)
	}
	refusedFrom := func(ctx context.Context, content string, words ...string) {
		GinkgoHelper()
		w.untouched(ctx, func() {
			answer := with(refused, w.migrate(ctx, "run", "--from="+file("changed.yaml", content)))
			for _, word := range words {
				Expect(answer.Stderr).To(ContainSubstring(word))
			}
		})
	}

	It("says in YAML and JSON what it says on the screen", func(ctx SpecContext) {
		w.untouched(ctx, func() {
			asJSON := strings.TrimSuffix(path, ".yaml") + ".json"
			answers := w.together(ctx, []string{"plan", "-o", path}, []string{"plan", "-o", asJSON}, []string{"plan", "-o", "json"}, []string{"plan", "-o", "yaml"})
			for _, answer := range answers {
				with(found, answer)
			}
			r := migrate.Decode(content())
			Expect(r.Kind).To(Equal("MigrationPlan"))
			Expect(r.Todo()).To(ContainElements("CreateServiceCIDR "+range4+","+range6, "DeleteIPAddress "+listed, "DeleteIPAddress "+moved))
			Expect(r.Todo()).To(HaveLen(1 + 2 + len(w.owners(ctx))))
			text := suite.Must(os.ReadFile(asJSON))
			for _, other := range []string{string(text), answers[2].Stdout, answers[3].Stdout} {
				Expect(migrate.Decode(other).Todo()).To(Equal(r.Todo()))
			}
		})
	})

	It("is refused when it was changed into something that makes no sense", func(ctx SpecContext) {
		refusedFrom(ctx, "", "changed.yaml")
		refusedFrom(ctx, "{", "changed.yaml")
		refusedFrom(ctx, content()+"surprise: true\n", "surprise")
		refusedFrom(ctx, strings.Replace(content(), "- address:", "- nonsense: 1\n  address:", 1), "nonsense")
		refusedFrom(ctx, strings.Replace(content(), "MigrationPlan", "MigrationReport", 1), "MigrationReport")
		refusedFrom(ctx, strings.Replace(content(), "v1alpha1", "v2", 1), "v2")
		refusedFrom(ctx, strings.Replace(content(), "do: DeleteIPAddress", "do: DropEverything", 1), "DropEverything")
		refusedFrom(ctx, strings.Replace(content(), "address: "+listed, "address: 10.96.0.999", 1), "10.96.0.999")
	})

	It("is refused when it was made for another cluster", func(ctx SpecContext) {
		uid := migrate.Decode(content()).Cluster
		Expect(uid).To(HaveLen(36))
		refusedFrom(ctx, strings.Replace(content(), uid, "00000000-0000-4000-8000-000000000000", 1), uid, "00000000-0000-4000-8000-000000000000")
		refusedFrom(ctx, strings.Replace(content(), uid, "", 1))
	})

	// Since the plan, Services came and went, an IPAddress was orphaned, a listed one was replaced.
	It("is followed, and what it does not list stays", func(ctx SpecContext) {
		late := w.CreateService(ctx, "late", framework.RequireDualStack())
		w.DeleteServices(ctx, framework.NewService(cluster.Namespace, "web-6"))
		w.CreateIPAddress(ctx, framework.NewIPAddress(unlisted, cluster.Namespace, "never"))
		w.DeleteIPAddress(ctx, moved)
		again := w.CreateIPAddress(ctx, framework.NewIPAddress(moved, cluster.Namespace, "never"))

		w.untouched(ctx, func() { with(found, w.migrate(ctx, "run", "--from="+path, "--dry-run")) })
		answer := with(found, w.migrate(ctx, "run", "--from="+path))
		Expect(answer.Stdout + answer.Stderr).To(And(ContainSubstring(unlisted), ContainSubstring(moved)))
		Expect(w.IPAddress(ctx, listed)).To(BeNil(), "this one was listed")
		Expect(w.IPAddress(ctx, unlisted)).NotTo(BeNil(), "nobody has seen this one in the plan")
		Expect(w.IPAddress(ctx, moved)).NotTo(BeNil(), "nobody has seen this object in the plan")
		Expect(w.IPAddress(ctx, moved).UID).To(Equal(again.UID))
		for _, address := range late.Spec.ClusterIPs {
			Expect(w.Owner(ctx, address)).To(Equal("default/late"))
		}
		Expect(w.check(ctx, found).Words()).To(ConsistOf("IPAddressOrphan "+unlisted, "IPAddressOrphan "+moved))
		Expect(w.etcd.Count(ctx, addressesKey)).To(Equal(len(w.owners(ctx)) + 2))
	})

	It("is done with a new one", func(ctx SpecContext) {
		w.migrate(ctx, "plan", "-o", path)
		with(clean, w.migrate(ctx, "run", "--from="+path))
		w.check(ctx, clean)
		w.untouched(ctx, func() { with(clean, w.migrate(ctx, "run", "--from="+path)) })
	})
})
