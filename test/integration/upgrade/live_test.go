package upgrade_test

import (
	"context"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Services come and go all the while:
//
//  1. The cluster is migrated under way.
//  2. `verify --watch` keeps IPAddresses in step with Services.
//  3. The API server stops in the middle of the work, and the watch after it. What happened in the last milliseconds, nobody has seen.
//  4. `seed --offline` makes up for it, and `verify --offline` confirms it.
//  5. The new API server finds nothing to repair, and every Service that was promised.
var _ = Describe("A cluster that never rests", func() {
	DescribeTable("is migrated without a repair", Label("soak"),
		func(ctx SpecContext, y *scenery, server framework.Options, migrate func(context.Context, *stage), watchArgs []string, signal syscall.Signal) {
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
			before := s.photo(ctx)
			work.expectKept(before)
			s.expectNoDuplicate(ctx)
			s.restart(ctx, newer)
			s.expectCalm(ctx, before)
			s.expectWhole(ctx)
			s.expectNew(ctx, "fresh", 20)
			work.expectKept(s.photo(ctx))
		},
		Entry("through the API", manyServices, old, run, nil, syscall.SIGTERM),
		Entry("through etcd", manyServices, oldest, seed, []string{"--etcd"}, syscall.SIGINT),
	)
})

func run(ctx context.Context, s *stage) { s.migrate(ctx, done, "run") }

func seed(ctx context.Context, s *stage) { s.migrate(ctx, done, "seed", "--etcd") }
