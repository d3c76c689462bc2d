package migration_test

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// absence is how long a server stays away.
const absence = 2 * time.Second

// A server goes away while a command works, and comes back. The command then goes on by itself.
var _ = Describe("In the middle of a command", Label("long"), Ordered, ContinueOnFailure, func() {
	var (
		w      *environment
		all    int
		before storage.Values
	)

	BeforeAll(func(ctx SpecContext) { w, all, before = unmigrated(ctx, 240) })
	BeforeEach(func(ctx SpecContext) { w.startOver(ctx, before) })

	// awayDuring starts a command, and stops the server for a while at the first IPAddress.
	awayDuring := func(ctx context.Context, server *framework.Process, options framework.PluginOptions) {
		GinkgoHelper()
		gone := w.etcd.happens(ctx, addressesKey, func() { Expect(server.Kill()).To(Succeed()) })
		plugin := w.begin(ctx, watched(options))
		Eventually(gone).WithTimeout(cluster.Timeout).Should(BeClosed(), func() string { return plugin.LogTail(20) })
		Consistently(plugin.Done()).WithTimeout(absence).ShouldNot(BeClosed(), func() string { return plugin.LogTail(20) })
		Expect(server.Start(ctx)).To(Succeed())
		ends(ctx, plugin)
	}
	whole := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(w.Breaches).WithArguments(ctx).WithTimeout(cluster.Timeout).Should(BeEmpty())
		Expect(w.etcd.Count(ctx, addressesKey)).To(Equal(all))
		w.writtenOnce(ctx)
	}

	It("run waits for an etcd that is away", func(ctx SpecContext) {
		awayDuring(ctx, &w.Etcd.Process, w.options(append(w.EtcdArgs(), "run", "--qps=100")...))
		whole(ctx)
	})

	It("run waits for an API server that is away", func(ctx SpecContext) {
		awayDuring(ctx, &w.API.Process, w.options(append(w.EtcdArgs(), "run", "--qps=100")...))
		w.started = time.Now()
		whole(ctx)
	})

	It("run ends when it is asked to, and can be run again", func(ctx SpecContext) {
		plugin := w.begin(ctx, watched(w.options(append(w.EtcdArgs(), "run", "--qps=50")...)))
		Eventually(func() int { return w.etcd.Count(ctx, addressesKey) }).WithTimeout(cluster.Timeout).Should(BeNumerically(">", 20))
		asked := time.Now()
		Expect(plugin.Stop()).To(Succeed())
		Expect(time.Since(asked)).To(BeNumerically("<", 10*time.Second))
		Expect(plugin.ExitCode()).To(Equal(found), plugin.LogTail(20))
		Expect(w.etcd.Count(ctx, addressesKey)).To(BeNumerically("<", all))
		with(clean, w.migrate(ctx, "run"))
		whole(ctx)
	})

	// alone stops the API server: only the next one may read what seed writes to etcd.
	alone := func(ctx context.Context) {
		GinkgoHelper()
		Expect(w.API.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			w.etcd.restore(ctx, addressesKey, before)
			Expect(w.API.Start(ctx)).To(Succeed())
			w.started = time.Now()
		})
	}
	seeded := func(ctx context.Context) {
		GinkgoHelper()
		Expect(w.etcd.Count(ctx, addressesKey)).To(Equal(all))
		w.writtenOnce(ctx)
	}

	// The first of several transactions is in; the answer to a later one is lost with etcd.
	It("seed waits for an etcd that is away", func(ctx SpecContext) {
		alone(ctx)
		slow := stretch(w.Etcd.URL(), 200*time.Millisecond)
		options := w.options("seed", "--etcd", "--offline", "--etcd-servers="+slow.URL())
		options.Kubeconfig = framework.NoKubeconfig
		awayDuring(ctx, &w.Etcd.Process, options)
		seeded(ctx)
	})

	// The connection is cut when the transaction is in and its answer on the way. The command then
	// finds what it wrote itself: that is no conflict.
	It("seed does not take its own writes for somebody else's", func(ctx SpecContext) {
		alone(ctx)
		slow := stretch(w.Etcd.URL(), 60*time.Millisecond)
		for round := range 2 {
			By(fmt.Sprintf("round %d", round))
			w.etcd.restore(ctx, addressesKey, before)
			lost := w.etcd.happens(ctx, addressesKey, func() { slow.Cut() })
			options := w.options("seed", "--etcd", "--offline", "--etcd-servers="+slow.URL())
			options.Kubeconfig = framework.NoKubeconfig
			with(clean, w.plugin(ctx, options))
			Eventually(lost).WithTimeout(cluster.Timeout).Should(BeClosed(), "the connection was never cut")
			seeded(ctx)
		}
	})

	// A Service has no bit, so that rollback has something to do in each family.
	rollback := func(server string, archive string) framework.PluginOptions {
		options := w.options("rollback", "--offline", "--yes", "--archive="+archive, "--etcd-servers="+server)
		options.Kubeconfig = framework.NoKubeconfig
		return options
	}
	rolledBack := func(ctx context.Context, want map[string][]string) {
		GinkgoHelper()
		for key, addresses := range want {
			Expect(w.etcd.legacy(ctx, key).addresses()).To(Equal(addresses), key)
		}
	}
	spoil := func(ctx context.Context) (want map[string][]string) {
		GinkgoHelper()
		want = map[string][]string{}
		for _, key := range []string{primaryKey, secondaryKey} {
			want[key] = w.etcd.legacy(ctx, key).addresses()
			w.etcd.flip(ctx, want[key][3])
		}
		return want
	}

	It("rollback waits for an etcd that is away", func(ctx SpecContext) {
		want := spoil(ctx)
		alone(ctx)
		slow := stretch(w.Etcd.URL(), 50*time.Millisecond)
		archive := filepath.Join(GinkgoT().TempDir(), "archive")
		plugin := w.begin(ctx, watched(rollback(slow.URL(), archive)))
		Consistently(plugin.Done()).WithTimeout(250 * time.Millisecond).ShouldNot(BeClosed())
		Expect(w.Etcd.Kill()).To(Succeed())
		Consistently(plugin.Done()).WithTimeout(absence).ShouldNot(BeClosed(), func() string { return plugin.LogTail(20) })
		Expect(w.Etcd.Start(ctx)).To(Succeed())
		ends(ctx, plugin)
		rolledBack(ctx, want)
		archived(archive)
	})

	It("rollback does not take its own write for somebody else's", func(ctx SpecContext) {
		want := spoil(ctx)
		alone(ctx)
		slow := stretch(w.Etcd.URL(), 60*time.Millisecond)
		lost := w.etcd.happens(ctx, primaryKey, func() { slow.Cut() })
		with(clean, w.plugin(ctx, rollback(slow.URL(), filepath.Join(GinkgoT().TempDir(), "archive"))))
		Eventually(lost).WithTimeout(cluster.Timeout).Should(BeClosed(), "the connection was never cut")
		rolledBack(ctx, want)
	})

	It("verify --watch goes on after both were away", func(ctx SpecContext) {
		with(clean, w.migrate(ctx, "run"))
		watch := w.begin(ctx, watched(w.options(append(w.EtcdArgs(), "verify", "--watch")...)))
		Expect(watch.WaitPrinted(ctx, "in step: ")).To(Succeed())
		Expect(w.API.Kill()).To(Succeed())
		Expect(w.Etcd.Kill()).To(Succeed())
		Consistently(watch.Done()).WithTimeout(absence).ShouldNot(BeClosed(), func() string { return watch.LogTail(20) })
		Expect(w.Etcd.Start(ctx)).To(Succeed())
		Expect(w.API.Start(ctx)).To(Succeed())
		w.CreateServices(ctx, 20, framework.Numbered(cluster.Namespace, "afterwards", framework.RequireDualStack()))
		w.DeleteServices(ctx, framework.NewService(cluster.Namespace, "web-6"))
		// A reflector whose lists failed waits up to a minute until the next one.
		Eventually(w.Breaches).WithArguments(ctx).WithTimeout(2 * time.Minute).Should(BeEmpty())
		Expect(watch.Stop()).To(Succeed())
		Expect(watch.ExitCode()).To(Equal(clean), watch.LogTail(20))
	})
})
