package migration_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// kills is how often each command is killed.
const kills = 20

// killed runs a command twenty times and kills it each time, after a random delay from another
// twentieth of the time that it takes undisturbed. reset sets the fixture anew before each run,
// judge looks at what is left. Many kills must hit a living command, or the spec proves little; if
// one comes too late, the delays become shorter.
func (w *environment) killed(ctx context.Context, command func(round int) framework.PluginOptions, reset func(), judge func(round int)) {
	GinkgoHelper()
	with(clean, w.migrate(ctx, "--help")) // which may have to be built first
	reset()
	began := time.Now()
	with(clean, w.plugin(ctx, command(-1)))
	whole := time.Since(began)

	random, hits := chance(), 0
	for _, round := range random.Perm(kills) {
		reset()
		delay := whole * time.Duration(100*round+random.IntN(100)) / (100 * kills)
		By(fmt.Sprintf("round %d: killed after %s of %s", round, delay, whole))
		switch took, hit := w.killAfter(ctx, command(round), delay); {
		case hit:
			hits++
		case took < whole:
			whole = took
		}
		judge(round)
	}
	Expect(hits).To(BeNumerically(">=", kills/2), "of %d commands only these were alive when they were to be killed", kills)
}

// killAfter starts a command and kills it after a while, and says whether it was still alive.
func (w *environment) killAfter(ctx context.Context, options framework.PluginOptions, delay time.Duration) (took time.Duration, hit bool) {
	GinkgoHelper()
	began := time.Now()
	plugin := suite.Must(w.StartPlugin(ctx, options))
	select {
	case <-plugin.Done():
	case <-time.After(delay):
	}
	took, hit = time.Since(began), plugin.Running()
	Expect(plugin.Kill()).To(Succeed())
	return took, hit
}

// The cluster is on its old API server, and nothing is migrated.
var _ = Describe("Killed at twenty moments,", Label("soak"), Ordered, ContinueOnFailure, func() {
	var (
		w      *environment
		all    int
		before storage.Values
	)

	BeforeAll(func(ctx SpecContext) {
		w, all, before = unmigrated(ctx, 200)
		Expect(all).To(BeNumerically(">", 150))
	})

	// nothingFalse wants that what is there is right, though it may not be all.
	nothingFalse := func(ctx context.Context) {
		GinkgoHelper()
		Expect(slices.DeleteFunc(w.Breaches(ctx), isMissing)).To(BeEmpty())
		w.writtenOnce(ctx)
		for _, key := range []string{primaryKey, secondaryKey, nodePortsKey} {
			Expect(w.etcd.Get(ctx, key)).To(Equal(before[key]))
		}
	}

	It("run is completed by running it again", func(ctx SpecContext) {
		w.killed(ctx, func(int) framework.PluginOptions {
			return w.options(append(w.EtcdArgs(), "run", "--qps=200")...)
		}, func() { w.startOver(ctx, before) }, func(round int) {
			nothingFalse(ctx)
			with(clean, w.migrate(ctx, "run"))
			nothingFalse(ctx)
			Expect(w.Breaches(ctx)).To(BeEmpty())
			Expect(w.IPAddresses(ctx)).To(HaveLen(all))
			if round%5 == 0 {
				w.check(ctx, clean)
				with(clean, w.migrate(ctx, "verify"))
				w.untouched(ctx, func() { with(clean, w.migrate(ctx, "run")) })
			}
		})
	})

	It("run from a file is completed by running it again from the same file", func(ctx SpecContext) {
		w.startOver(ctx, before)
		plan := file("plan.yaml", "")
		Expect(os.Remove(plan)).To(Succeed())
		w.migrate(ctx, "plan", "-o", plan)
		Expect(plan).To(BeAnExistingFile())
		options := w.options(append(w.EtcdArgs(), "run", "--from="+plan, "--qps=100")...)
		for _, delay := range []time.Duration{500 * time.Millisecond, 900 * time.Millisecond} {
			_, hit := w.killAfter(ctx, options, delay)
			Expect(hit).To(BeTrue())
		}
		nothingFalse(ctx)
		with(clean, w.plugin(ctx, options))
		nothingFalse(ctx)
		w.check(ctx, clean)
	})

	It("seed is completed by seeding again", func(ctx SpecContext) {
		w.restart(ctx, without)
		w.startOver(ctx, before)
		w.untouched(ctx, func() {
			Expect(with(found, w.offline(ctx, "seed", "--etcd", "--dry-run")).Stdout).To(ContainSubstring(strconv.Itoa(all)))
		})
		slow := stretch(w.Etcd.URL(), 15*time.Millisecond)
		w.killed(ctx, func(int) framework.PluginOptions {
			return w.options("seed", "--etcd", "--etcd-servers="+slow.URL())
		}, func() { w.startOver(ctx, before) }, func(int) {
			w.writtenOnce(ctx)
			with(clean, w.migrate(ctx, "seed", "--etcd"))
			Expect(w.etcd.Count(ctx, addressesKey)).To(Equal(all))
			w.writtenOnce(ctx)
			Expect(w.etcd.Count(ctx, rangesKey)).To(BeZero(), "seed writes no ServiceCIDR")
		})
		w.untouched(ctx, func() { with(clean, w.migrate(ctx, "seed", "--etcd")) })
		w.untouched(ctx, func() { with(found, w.migrate(ctx, "unseed", "--etcd", "--dry-run")) })
		with(clean, w.migrate(ctx, "unseed", "--etcd"))
		Expect(before.Changes(w.etcd.Below(ctx, ""))).To(BeEmpty(), "unseed takes away all that seed wrote, and nothing else")
	})
})

// A cluster after the flip: etcd has old bitmaps, and Services have come and gone since.
var _ = Describe("After the flip, killed at twenty moments,", Label("soak"), Ordered, ContinueOnFailure, func() {
	var (
		w        *environment
		before   storage.Values
		archives string
	)

	BeforeAll(func(ctx SpecContext) {
		w = newEnvironment(ctx, old, 120)
		w.migrated(ctx)
		w.restart(ctx, newer)
		migrate.Publish(ctx, w.Cluster, w.etcd.Storage, w.URL())
		w.DeleteServices(ctx, framework.NewService(cluster.Namespace, "web-6"), framework.NewService(cluster.Namespace, "web-7"))
		w.CreateServices(ctx, 150, framework.Numbered(cluster.Namespace, "late", framework.RequireDualStack()))
		Eventually(w.Breaches).WithArguments(ctx).WithTimeout(cluster.Timeout).Should(BeEmpty())
		archives = GinkgoT().TempDir()
		before = w.etcd.Below(ctx, "")
		Expect(w.etcd.legacy(ctx, primaryKey).addresses()).NotTo(Equal(w.used(ctx, primaryKey)), "the fixture: the bitmap is old")
	})
	archive := func(command string, round int) string {
		return filepath.Join(archives, fmt.Sprintf("%s-%d", command, round))
	}

	It("finalize is completed by running it again, and all can be brought back", func(ctx SpecContext) {
		slow := stretch(w.Etcd.URL(), 15*time.Millisecond)
		keys := []string{primaryKey, secondaryKey}
		left := func() (some []string) {
			now := w.etcd.Below(ctx, storage.Registry+"ranges/") // at one revision: the last transaction may still be on its way
			return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return now[key].Raw == nil })
		}
		// restored wants the archive to hold both bitmaps to the byte.
		restored := func(path string) {
			GinkgoHelper()
			for _, key := range keys {
				w.etcd.Remove(ctx, key)
			}
			with(clean, w.migrate(ctx, "finalize", "--restore="+path, "--yes"))
			for _, key := range keys {
				Expect(w.etcd.Get(ctx, key).Raw).To(Equal(before[key].Raw), key)
			}
		}

		w.killed(ctx, func(round int) framework.PluginOptions {
			return w.options("finalize", "--yes", "--archive="+archive("finalize", round), "--etcd-servers="+slow.URL())
		}, func() { w.etcd.restore(ctx, storage.Registry+"ranges/", before) }, func(round int) {
			path := archive("finalize", round)
			some := left()
			Expect(some).To(Or(Equal(keys), BeEmpty()), "one is gone and one is there")
			if len(some) == 0 {
				Expect(path).To(BeAnExistingFile(), "deleted before it was saved")
			}
			if _, err := os.Stat(path); err == nil {
				restored(path) // it is whole from the moment at which it is there
			}
			with(clean, w.migrate(ctx, "finalize", "--yes", "--archive="+path))
			Expect(left()).To(BeEmpty())
			restored(path)
			Expect(w.etcd.Get(ctx, nodePortsKey)).To(Equal(before[nodePortsKey]))
		})
	})

	It("rollback is completed by running it again", func(ctx SpecContext) {
		want := map[string][]string{primaryKey: w.used(ctx, primaryKey), secondaryKey: w.used(ctx, secondaryKey)}
		Expect(w.API.Stop()).To(Succeed())
		startOver := func() {
			for _, prefix := range []string{storage.Registry + "ranges/", addressesKey, rangesKey} {
				w.etcd.restore(ctx, prefix, before)
			}
		}
		bitmaps := func() (rebuilt int) {
			GinkgoHelper()
			stored := w.etcd.Below(ctx, storage.Registry+"ranges/") // at one revision, as above
			for key, addresses := range want {
				if slices.Equal(legacyOf(stored[key]).addresses(), addresses) {
					rebuilt++
				} else {
					Expect(stored[key].Raw).To(Equal(before[key].Raw), key)
				}
			}
			return rebuilt
		}
		slow := stretch(w.Etcd.URL(), 15*time.Millisecond)
		command := func(round int) framework.PluginOptions {
			options := w.options("rollback", "--offline", "--yes", "--archive="+archive("rollback", round), "--etcd-servers="+slow.URL())
			options.Kubeconfig = framework.NoKubeconfig
			return options
		}
		w.killed(ctx, command, startOver, func(round int) {
			rebuilt := bitmaps()
			Expect(rebuilt).To(Or(Equal(0), Equal(2)), "the two families were rebuilt in more than one transaction")
			if rebuilt == 2 {
				archived(archive("rollback", round), before[primaryKey].Raw, before[secondaryKey].Raw)
			}
			with(clean, w.plugin(ctx, command(round)))
			Expect(bitmaps()).To(Equal(2))
			archived(archive("rollback", round), before[primaryKey].Raw, before[secondaryKey].Raw)
			w.downgraded(ctx, before)
			w.untouched(ctx, func() { with(clean, w.plugin(ctx, command(round))) })
		})
	})

	It("the old API server goes on as if it had never been away", func(ctx SpecContext) {
		owners := func() map[string][]string { return w.owners(ctx) }
		w.restart(ctx, old)
		was := owners()
		Expect(w.etcd.legacy(ctx, primaryKey).addresses()).To(Equal(w.used(ctx, primaryKey)))
		w.noCollision(ctx, "returned")
		Expect(owners()).To(Equal(was))
		w.check(ctx, clean)
	})
})

func isMissing(breach string) bool { return strings.HasSuffix(breach, "has no IPAddress") }

// archived wants a file to hold these values to the byte. It reads text: the format is private.
func archived(path string, values ...[]byte) {
	GinkgoHelper()
	content := suite.Must(os.ReadFile(path))
	var anything map[string]any
	Expect(yaml.Unmarshal(content, &anything)).To(Succeed(), "it is not whole")
	for _, value := range values {
		Expect(string(content)).To(ContainSubstring(base64.StdEncoding.EncodeToString(value)))
	}
}

// downgraded wants every IPAddress and ServiceCIDR stored in the version that the old API server
// reads, and saying the same, but for the writer: none is the new API server's any more.
func (w *environment) downgraded(ctx context.Context, before storage.Values) {
	GinkgoHelper()
	rewritten := 0
	for key, value := range w.etcd.Below(ctx, addressesKey) {
		was, now := &networkingv1.IPAddress{}, &networkingv1.IPAddress{}
		if oldVersion(before[key].Raw, was) != oldVersion(value.Raw, now) {
			rewritten++
		}
		sameButWriter(was, now)
		Expect(now.Spec).To(Equal(was.Spec))
	}
	for key, value := range w.etcd.Below(ctx, rangesKey) {
		was, now := &networkingv1.ServiceCIDR{}, &networkingv1.ServiceCIDR{}
		oldVersion(before[key].Raw, was)
		Expect(oldVersion(value.Raw, now)).To(BeTrue(), key)
		sameButWriter(was, now)
		Expect(now.Spec).To(Equal(was.Spec))
	}
	Expect(rewritten).To(BeNumerically(">", 100), "the fixture: the new API server wrote v1")
}

// oldVersion decodes a stored value of any version, and says if that is the old API server's.
func oldVersion(raw []byte, into interface{ Unmarshal([]byte) error }) bool {
	GinkgoHelper()
	kind, inside := unpack(raw)
	Expect(into.Unmarshal(inside)).To(Succeed())
	Expect(kind.APIVersion).To(BeElementOf("networking.k8s.io/v1", "networking.k8s.io/v1beta1"))
	return kind.APIVersion == "networking.k8s.io/v1beta1"
}

func sameButWriter(was, now metav1.Object) {
	GinkgoHelper()
	for _, entry := range now.GetManagedFields() {
		Expect(entry.Manager).NotTo(Equal("kube-apiserver"), now.GetName())
	}
	Expect([]any{now.GetName(), now.GetUID(), now.GetCreationTimestamp(), now.GetLabels(), now.GetFinalizers()}).To(
		Equal([]any{was.GetName(), was.GetUID(), was.GetCreationTimestamp(), was.GetLabels(), was.GetFinalizers()}))
}
