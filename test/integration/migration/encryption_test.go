package migration_test

import (
	"encoding/base64"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// A real API server encrypts everything that it stores. What needs no storage works; nothing else guesses, and nothing is
// written in clear beside what is encrypted.
var _ = Describe("An API server that encrypts what it stores", Ordered, ContinueOnFailure, func() {
	var w *world

	BeforeAll(func(ctx SpecContext) {
		config := file("encryption.yaml", `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ["*.*"]
  providers:
  - aescbc: {keys: [{name: key1, secret: `+base64.StdEncoding.EncodeToString(noise(32))+`}]}
  - identity: {}
`)
		options := old
		options.Args = []string{"--encryption-provider-config=" + config}
		w = newWorld(ctx, options)
		w.populate(ctx, 20)
		for _, key := range []string{primaryKey, servicesKey + "default/kubernetes"} {
			Expect(string(w.etcd.get(ctx, key).raw)).To(HavePrefix("k8s:enc:aescbc:v1:key1:"), key)
		}
	})

	It("is told so by check", func(ctx SpecContext) {
		w.untouched(ctx, func() {
			r := w.check(ctx, found)
			encrypted := r.of("BitmapEncrypted")
			Expect(encrypted).To(HaveLen(2))
			for _, f := range encrypted {
				Expect(f.Blocks).To(BeTrue())
				Expect(f.Detail).To(And(ContainSubstring("aescbc"), ContainSubstring("key1")))
			}
		})
	})

	It("is not written to by whoever was shown its storage", func(ctx SpecContext) {
		for _, command := range [][]string{{"run"}, {"run", "--repair-bitmap"}, {"seed", "--etcd"}} {
			w.untouched(ctx, func() {
				answer := with(refused, w.migrate(ctx, command...))
				Expect(strings.ToLower(answer.Stderr)).To(ContainSubstring("encrypted"))
			})
		}
	})

	It("cannot be gone around", func(ctx SpecContext) {
		w.untouched(ctx, func() {
			for _, command := range [][]string{{"check"}, {"verify"}, {"seed", "--etcd"}, {"rollback", "--yes", "--archive=" + file("a", "") + ".new"}} {
				answer := with(refused, w.offline(ctx, command...))
				Expect(strings.ToLower(answer.Stderr)).To(ContainSubstring("encrypted"), "%v", command)
			}
		})
	})

	It("is migrated by whoever keeps to the API", func(ctx SpecContext) {
		with(clean, w.plugin(ctx, w.options("run", "--service-cluster-ip-range="+range4+","+range6)))
		Expect(w.Breaches(ctx)).To(BeEmpty())
		with(clean, w.plugin(ctx, w.options("verify")))
	})
})
