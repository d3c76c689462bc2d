package migration_test

import (
	"encoding/base64"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// A real API server encrypts all that it stores but its bitmaps, whatever it is told. Commands that
// ask it work. Those with only the storage do not guess, and write nothing in clear beside it.
var _ = Describe("An API server that encrypts what it stores", Ordered, ContinueOnFailure, func() {
	const cipher = "k8s:enc:aescbc:v1:key1:"
	var (
		w       *environment
		options framework.Options
	)
	encrypted := "--encryption-provider-config="

	BeforeAll(func(ctx SpecContext) {
		encrypted += file("encryption.yaml", `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ["*.*"]
  providers:
  - aescbc: {keys: [{name: key1, secret: `+base64.StdEncoding.EncodeToString(noise(32))+`}]}
`)
		options = old
		options.Args = []string{encrypted}
		w = newEnvironment(ctx, options, 20)
		for key, value := range w.etcd.Below(ctx, servicesKey) {
			Expect(string(value.Raw)).To(HavePrefix(cipher), key)
		}
		Expect(w.etcd.legacy(ctx, primaryKey).addresses()).To(Equal(w.used(ctx, primaryKey)))
	})

	It("is not gone around", func(ctx SpecContext) {
		w.untouched(ctx, func() {
			for _, command := range [][]string{{"check"}, {"verify"}, {"seed", "--etcd"}, {"rollback", "--yes", "--archive=" + file("a", "") + ".new"}} {
				answer := with(refused, w.offline(ctx, command...))
				Expect(strings.ToLower(answer.String())).To(ContainSubstring("encrypted"), "%v", command)
			}
		})
	})

	// This API server could not read what seed writes in clear: lists would fail, and its start too.
	It("is not given what it could not read", func(ctx SpecContext) {
		unserved := without
		unserved.Args = append([]string{encrypted}, without.Args...)
		w.restart(ctx, unserved)
		DeferCleanup(func(ctx SpecContext) {
			w.etcd.Remove(ctx, addressesKey, clientv3.WithPrefix())
			w.restart(ctx, options)
		})
		w.untouched(ctx, func() {
			answer := with(refused, w.migrate(ctx, "seed", "--etcd"))
			Expect(strings.ToLower(answer.String())).To(ContainSubstring("encrypted"))
		})
	})

	It("is migrated through its API", func(ctx SpecContext) {
		lost := w.freeAddress(ctx, "10.96.0.")
		w.etcd.flip(ctx, lost)
		answer := with(found, w.migrate(ctx, "check"))
		Expect(answer.Stdout).To(And(ContainSubstring("LeakedBit"), ContainSubstring(lost)))
		with(clean, w.migrate(ctx, "run", "--repair-bitmap", "--leak-grace=1s"))
		with(clean, w.migrate(ctx, "verify"))
		Expect(w.Breaches(ctx)).To(BeEmpty())
		Expect(w.etcd.legacy(ctx, primaryKey).addresses()).To(Equal(w.used(ctx, primaryKey)))
		for key, value := range w.etcd.Below(ctx, addressesKey) {
			Expect(string(value.Raw)).To(HavePrefix(cipher), key)
		}
	})
})
