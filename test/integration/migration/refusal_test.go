package migration_test

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// The two commands that remove things ask first, look twice, and do nothing while it could hurt.
var _ = Describe("On a cluster that has flipped", Ordered, ContinueOnFailure, func() {
	var w *environment

	BeforeAll(func(ctx SpecContext) {
		w = newEnvironment(ctx, old, 20)
		w.migrated(ctx)
		w.restart(ctx, newer)
		migrate.Publish(ctx, w.Cluster, w.etcd.Storage, w.URL())
		w.CreateService(ctx, "late", framework.RequireDualStack())
		w.CreateService(ctx, "outside")
	})
	newFile := func() string { return filepath.Join(GinkgoT().TempDir(), "archive") }
	refusedWith := func(ctx context.Context, answer func() framework.PluginResult, words ...string) {
		GinkgoHelper()
		w.untouched(ctx, func() {
			result := with(refused, answer())
			for _, word := range words {
				Expect(result.String()).To(ContainSubstring(word))
			}
		})
	}

	It("rollback shows what it would do, and does nothing", func(ctx SpecContext) {
		archive := newFile()
		w.untouched(ctx, func() {
			answer := with(found, w.migrate(ctx, "rollback", "--archive="+archive))
			Expect(answer.Stdout).To(And(ContainSubstring("serviceips"), ContainSubstring("--yes")))
		})
		Expect(archive).NotTo(BeAnExistingFile())
	})

	It("rollback is refused while the new API server is alive", func(ctx SpecContext) {
		archive := newFile()
		refusedWith(ctx, func() framework.PluginResult { return w.migrate(ctx, "rollback", "--yes", "--archive="+archive) },
			"--offline", "--live")
		Expect(archive).NotTo(BeAnExistingFile())
	})

	It("finalize shows what it would do, and does nothing", func(ctx SpecContext) {
		archive := newFile()
		w.untouched(ctx, func() {
			answer := with(found, w.migrate(ctx, "finalize", "--archive="+archive))
			Expect(answer.Stdout).To(And(ContainSubstring("ranges/serviceips"), ContainSubstring("ranges/secondaryserviceips"), ContainSubstring("--yes")))
		})
		Expect(archive).NotTo(BeAnExistingFile())
	})

	It("no archive is written over", func(ctx SpecContext) {
		for _, command := range []string{"finalize", "rollback"} {
			taken := file("archive", "somebody's only copy\n")
			refusedWith(ctx, func() framework.PluginResult {
				args := []string{command, "--yes", "--archive=" + taken}
				if command == "rollback" {
					args = append(args, "--live")
				}
				return w.migrate(ctx, args...)
			}, taken)
			Expect(os.ReadFile(taken)).To(BeEquivalentTo("somebody's only copy\n"), command)
		}
	})

	It("an archive that cannot be written is no archive", func(ctx SpecContext) {
		nowhere := filepath.Join(file("file", ""), "below", "archive")
		refusedWith(ctx, func() framework.PluginResult { return w.migrate(ctx, "finalize", "--yes", "--archive="+nowhere) }, nowhere)
		refusedWith(ctx, func() framework.PluginResult {
			return w.migrate(ctx, "rollback", "--yes", "--live", "--archive="+nowhere)
		}, nowhere)
	})

	It("finalize is refused while one API server of several is too old", func(ctx SpecContext) {
		second := suite.Must(w.AddAPIServer(ctx, old))
		DeferCleanup(func(ctx SpecContext) {
			Expect(second.Stop()).To(Succeed())
			migrate.Publish(ctx, w.Cluster, w.etcd.Storage, w.URL())
		})
		migrate.Publish(ctx, w.Cluster, w.etcd.Storage, w.URL(), second.URL())
		refusedWith(ctx, func() framework.PluginResult { return w.migrate(ctx, "finalize", "--yes", "--archive="+newFile()) },
			"1.32", second.URL()[8:])
	})

	It("finalize is refused while one API server of several is silent", func(ctx SpecContext) {
		port := suite.Must(framework.FreePort())
		migrate.Publish(ctx, w.Cluster, w.etcd.Storage, w.URL(), "https://127.0.0.1:"+strconv.Itoa(port))
		DeferCleanup(func(ctx SpecContext) { migrate.Publish(ctx, w.Cluster, w.etcd.Storage, w.URL()) })
		refusedWith(ctx, func() framework.PluginResult { return w.migrate(ctx, "finalize", "--yes", "--archive="+newFile()) },
			"127.0.0.1:"+strconv.Itoa(port))
	})

	It("finalize is refused when nobody says where the API servers are", func(ctx SpecContext) {
		migrate.Publish(ctx, w.Cluster, w.etcd.Storage)
		DeferCleanup(func(ctx SpecContext) { migrate.Publish(ctx, w.Cluster, w.etcd.Storage, w.URL()) })
		refusedWith(ctx, func() framework.PluginResult { return w.migrate(ctx, "finalize", "--yes", "--archive="+newFile()) },
			"default/kubernetes")
	})

	It("finalize brings nothing back from a file that was changed", func(ctx SpecContext) {
		before, archive := w.etcd.Below(ctx, ""), newFile()
		with(clean, w.migrate(ctx, "finalize", "--yes", "--archive="+archive))
		content := suite.Must(os.ReadFile(archive))
		text, value := string(content), base64.StdEncoding.EncodeToString(before[primaryKey].Raw)
		for what, broken := range map[string]string{
			"nothing": "", "something else": "{", "half of it": text[:len(text)/2], "more than it": text + "surprise: true\n",
			"another field":   swap(text, `"cluster"`, `"surprise": 1, "cluster"`),
			"another value":   swap(text, value, base64.StdEncoding.EncodeToString(noise(200))),
			"another object":  swap(text, "ranges/serviceips", "services/specs/default/kubernetes"),
			"the node ports":  swap(text, "ranges/serviceips", "ranges/servicenodeports"),
			"another cluster": swap(text, string(clusterOf(ctx, w)), "00000000-0000-4000-8000-000000000000"),
		} {
			By(what)
			path := file("broken", broken)
			refusedWith(ctx, func() framework.PluginResult { return w.migrate(ctx, "finalize", "--yes", "--restore="+path) })
		}
		w.untouched(ctx, func() { w.migrate(ctx, "finalize", "--restore="+archive) })
		with(clean, w.migrate(ctx, "finalize", "--yes", "--restore="+archive))
		for _, key := range []string{primaryKey, secondaryKey} {
			Expect(w.etcd.Get(ctx, key).Raw).To(Equal(before[key].Raw))
		}
	})

	It("finalize writes over no bitmap that came since", func(ctx SpecContext) {
		before, archive := w.etcd.Below(ctx, ""), newFile()
		with(clean, w.migrate(ctx, "finalize", "--yes", "--archive="+archive))
		fresh := legacyOf(before[secondaryKey])
		fresh.set("fd00:10:96::77", true) // of the static band: its bit is not set by chance
		w.etcd.plant(ctx, secondaryKey, fresh)
		refusedWith(ctx, func() framework.PluginResult { return w.migrate(ctx, "finalize", "--yes", "--restore="+archive) },
			"ranges/secondaryserviceips")
		w.etcd.restore(ctx, storage.Registry+"ranges/", before)
	})

	// What was written by hand into the storage of a cluster at rest.
	Context("without an API server, rollback is refused", Ordered, func() {
		var whole storage.Values
		BeforeAll(func(ctx SpecContext) {
			Expect(w.API.Stop()).To(Succeed())
			whole = w.etcd.Below(ctx, "")
		})
		AfterEach(func(ctx SpecContext) {
			for _, prefix := range []string{servicesKey, addressesKey, storage.Registry + "ranges/"} {
				w.etcd.restore(ctx, prefix, whole)
			}
		})
		rollback := func(ctx context.Context) func() framework.PluginResult {
			return func() framework.PluginResult { return w.offline(ctx, "rollback", "--yes", "--archive="+newFile()) }
		}

		It("because of a Service outside of the range", func(ctx SpecContext) {
			w.etcd.change(ctx, "outside", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.200.0.1", []string{"10.200.0.1"} })
			refusedWith(ctx, rollback(ctx), "10.200.0.1", "default/outside", range4)
		})
		It("because of an address that is none", func(ctx SpecContext) {
			w.etcd.change(ctx, "outside", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.300", []string{"10.96.0.300"} })
			refusedWith(ctx, rollback(ctx), "10.96.0.300", "default/outside")
		})
		It("because two Services share an address", func(ctx SpecContext) {
			shared := w.etcd.Get(ctx, servicesKey+"default/late")
			ip := storage.Decode[*corev1.Service](shared).Spec.ClusterIP
			w.etcd.change(ctx, "outside", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = ip, []string{ip} })
			refusedWith(ctx, rollback(ctx), ip, "default/outside", "default/late")
		})
		It("because a Service cannot be read", func(ctx SpecContext) {
			w.etcd.Put(ctx, servicesKey+"default/outside", noise(80))
			refusedWith(ctx, rollback(ctx), "default/outside")
		})
		It("because an IPAddress cannot be read", func(ctx SpecContext) {
			w.etcd.Put(ctx, addressesKey+"10.96.0.250", noise(80))
			refusedWith(ctx, rollback(ctx), "10.96.0.250")
		})
		It("because a bitmap is encrypted", func(ctx SpecContext) {
			w.etcd.Put(ctx, primaryKey, []byte("k8s:enc:kms:v2:vault:1234"))
			refusedWith(ctx, rollback(ctx), "ranges/serviceips", "kms")
		})
		It("but not of a whole one", func(ctx SpecContext) {
			with(clean, rollback(ctx)())
			Expect(w.etcd.legacy(ctx, primaryKey).addresses()).To(ContainElement(
				storage.Decode[*corev1.Service](whole[servicesKey+"default/late"]).Spec.ClusterIP))
			Expect(w.etcd.Get(ctx, nodePortsKey)).To(Equal(whole[nodePortsKey]))
		})
	})
})

// swap replaces what has to be there.
func swap(text, was, now string) string {
	GinkgoHelper()
	Expect(text).To(ContainSubstring(was))
	return strings.ReplaceAll(text, was, now)
}

// clusterOf is how a cluster is told from another.
func clusterOf(ctx context.Context, w *environment) types.UID {
	GinkgoHelper()
	system := suite.Must(w.Client().CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{}))
	return system.UID
}
