package migration_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// What an admin mistypes, and what fails around a command before it begins. Each is refused with
// status 2, on stderr, with the word that was wrong, and with nothing written.
var _ = Describe("A command that cannot begin", Ordered, ContinueOnFailure, func() {
	var w *environment

	BeforeAll(func(ctx SpecContext) {
		w = newEnvironment(ctx, old, 20)
	})

	refusedWith := func(ctx SpecContext, options framework.PluginOptions, words ...string) {
		GinkgoHelper()
		w.untouched(ctx, func() {
			answer := with(refused, w.plugin(ctx, options))
			for _, word := range words {
				Expect(answer.Stderr).To(ContainSubstring(word))
			}
			Expect(answer.Stdout).To(BeEmpty(), "a script would take it for an answer")
		})
	}

	// TestUsage of the command has those that are refused by their words alone.
	DescribeTable("because of its words", func(ctx SpecContext, line string, words ...string) {
		line = strings.ReplaceAll(line, "ETCD", "--etcd-servers="+w.Etcd.URL())
		refusedWith(ctx, w.options(strings.Fields(line)...), words...)
	},
		Entry("a flag of another command", "check --dry-run", "--dry-run"),
		Entry("a certificate that is not there", "check ETCD --etcd-cafile=/nonexistent/ca.crt", "/nonexistent/ca.crt"),
		Entry("an address that is none", "check --etcd-servers=nowhere:0:0", "nowhere:0:0"),
		Entry("two ranges of a family", "check ETCD --service-cluster-ip-range=10.96.0.0/16,10.97.0.0/16", "--service-cluster-ip-range"),
		Entry("a plan that is not there", "run --from=/nonexistent/plan.yaml", "/nonexistent/plan.yaml"),
		Entry("an archive that is not there", "finalize ETCD --yes --restore=/nonexistent/archive", "/nonexistent/archive"),
		Entry("saving and restoring at once", "finalize ETCD --yes --archive=a --restore=b", "archive", "restore"),
		Entry("no such kubeconfig", "check --kubeconfig=/nonexistent/kubeconfig", "/nonexistent/kubeconfig"),
		Entry("no such context", "check --context=elsewhere", "elsewhere"),
	)

	It("because no API server is configured", func(ctx SpecContext) {
		options := w.options("check")
		options.Kubeconfig = framework.NoKubeconfig
		refusedWith(ctx, options, "kubeconfig")
	})

	It("because that is not its etcd", func(ctx SpecContext) {
		other := suite.Must(framework.StartEtcd(ctx, GinkgoT().TempDir()))
		DeferCleanup(other.Stop)
		for _, command := range []string{"check", "run", "verify"} {
			refusedWith(ctx, w.options(command, "--etcd-servers="+other.URL()), "kube-system")
			refusedWith(ctx, w.options(append(w.EtcdArgs(), command, "--etcd-prefix=/elsewhere")...), "--etcd-prefix")
		}
		strange := storage.Open(other)
		namespace := storage.Decode[*corev1.Namespace](w.etcd.Get(ctx, storage.Registry+"namespaces/kube-system"))
		namespace.UID = "00000000-0000-4000-8000-000000000000"
		namespace.APIVersion, namespace.Kind = "v1", "Namespace"
		strange.Put(ctx, storage.Registry+"namespaces/kube-system", storage.Encode(namespace))
		refusedWith(ctx, w.options("run", "--etcd-servers="+other.URL()), "00000000-0000-4000-8000-000000000000")
		Expect(strange.Below(ctx, "")).To(HaveLen(1))
	})

	It("because the range is not the cluster's", func(ctx SpecContext) {
		refusedWith(ctx, w.options(append(w.EtcdArgs(), "run", "--service-cluster-ip-range=10.97.0.0/16,"+range6)...), "10.97.0.0/16", range4)
	})

	// Absent and silent servers look alike: each gets ten seconds, all at once. So does an API server
	// whose lease in etcd says that it lives, when a command is about to write to its storage.
	It("because nobody is there", Label("long"), func(ctx SpecContext) {
		port := suite.Must(framework.FreePort())
		nobody := fmt.Sprintf("127.0.0.1:%d", port)
		listener := suite.Must(net.Listen("tcp4", "127.0.0.1:0"))
		DeferCleanup(listener.Close)
		silent := listener.Addr().String()
		config := w.AdminConfig()
		config.Host = "https://" + nobody
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		Expect(framework.WriteKubeconfig(kubeconfig, config)).To(Succeed())
		lost := w.options("check")
		lost.Kubeconfig = kubeconfig

		began := time.Now()
		lease := storage.Registry + "masterleases/192.0.2.1"
		w.etcd.Put(ctx, lease, storage.Encode(&corev1.Endpoints{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}})) //nolint:staticcheck // what API servers write there
		w.etcd.flip(ctx, w.freeAddress(ctx, "10.96.0."))                                                                          // so that rollback has something to do
		DeferCleanup(func(ctx SpecContext) {
			w.etcd.Remove(ctx, lease)
			w.heal(ctx)
		})

		words := []string{nobody, silent, silent, "https://" + nobody, w.Etcd.URL()[len("http://"):], "192.0.2.1", "192.0.2.1", "192.0.2.1"}
		w.untouched(ctx, func() {
			for i, answer := range w.plugins(ctx,
				w.options("check", "--etcd-servers=http://"+nobody),
				w.options("run", "--etcd-servers=http://"+silent),
				w.options("check", "--offline", "--etcd-servers=https://"+silent),
				lost,
				w.options("check", "--etcd-servers=https://"+words[4]), // TLS where there is none
				w.options(append(w.EtcdArgs(), "seed", "--etcd", "--offline")...),
				w.options(append(w.EtcdArgs(), "unseed", "--etcd", "--offline")...),
				w.options(append(w.EtcdArgs(), "rollback", "--yes", "--offline")...),
			) {
				Expect(with(refused, answer).Stderr).To(ContainSubstring(words[i]))
			}
		})
		Expect(time.Since(began)).To(BeNumerically("<", 40*time.Second))
	})

	Context("because it may not", func() {
		// account creates a ServiceAccount with these rights and returns a kubeconfig for it.
		account := func(ctx SpecContext, name string, rules ...rbacv1.PolicyRule) string {
			GinkgoHelper()
			meta, rbac := metav1.ObjectMeta{Name: name}, w.Client().RbacV1()
			suite.Must(w.Client().CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}))
			suite.Must(rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}))
			suite.Must(rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta,
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
			}, metav1.CreateOptions{}))
			w.granted(ctx, "system:serviceaccount:default:"+name, rules)
			config := suite.Must(w.ConfigForServiceAccount(ctx, "default", name))
			path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
			Expect(framework.WriteKubeconfig(path, config)).To(Succeed())
			return path
		}
		reads := []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services", "namespaces"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ipaddresses", "servicecidrs"}, Verbs: []string{"get", "list", "watch"}},
		}

		It("read anything", func(ctx SpecContext) {
			for _, command := range []string{"check", "plan", "run", "verify"} {
				options := w.options(append(w.EtcdArgs(), command)...)
				options.Kubeconfig = account(ctx, "nobody-"+command)
				refusedWith(ctx, options, "forbidden", "nobody-"+command, "cannot")
			}
		})

		It("write IPAddresses", func(ctx SpecContext) {
			options := w.options(append(w.EtcdArgs(), "run")...)
			options.Kubeconfig = account(ctx, "reader", reads...)
			w.untouched(ctx, func() {
				answer := with(found, w.plugin(ctx, options))
				Expect(answer.Stderr).To(And(ContainSubstring("forbidden"), ContainSubstring("cannot create"), ContainSubstring("servicecidrs")))
			})
		})

		It("write anything, which is enough for an answer", func(ctx SpecContext) {
			path := account(ctx, "looker", reads...)
			check, verify := w.options(append(w.EtcdArgs(), "check")...), w.options(append(w.EtcdArgs(), "verify")...)
			check.Kubeconfig, verify.Kubeconfig = path, path
			w.untouched(ctx, func() {
				for _, answer := range w.plugins(ctx, check, verify) {
					with(found, answer)
				}
			})
		})
	})

	It("tells what it can do when it is asked", func(ctx SpecContext) {
		for _, line := range []string{"--help", "check --help", "run -h"} {
			answer := with(clean, w.plugin(ctx, w.options(strings.Fields(line)...)))
			Expect(answer.Stdout).To(ContainSubstring("--etcd-servers"))
		}
	})

	It("never says that a bitmap is well that it was not shown", func(ctx SpecContext) {
		w.etcd.Put(ctx, primaryKey, noise(100))
		DeferCleanup(func(ctx SpecContext) { w.heal(ctx) })
		answers := w.plugins(ctx, w.options("check"), w.options("check", "-o", "json"))
		Expect(with(found, answers[0]).Stdout).To(ContainSubstring("--etcd-servers"))
		Expect(migrate.Decode(with(found, answers[1]).Stdout).Bitmaps).To(BeEmpty())
	})

	It("has written nothing so far", func(ctx SpecContext) {
		Expect(w.etcd.Count(ctx, addressesKey) + w.etcd.Count(ctx, rangesKey)).To(BeZero())
	})
})

// granted waits until the API server knows these rights of a user, which it learns by watching.
func (w *environment) granted(ctx context.Context, user string, rules []rbacv1.PolicyRule) {
	GinkgoHelper()
	for _, rule := range rules {
		ask := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: rule.APIGroups[0], Resource: rule.Resources[0], Verb: rule.Verbs[0]},
		}}
		Eventually(func() (bool, error) {
			answer, err := w.Client().AuthorizationV1().SubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
			if err != nil {
				return false, err
			}
			return answer.Status.Allowed, nil
		}).WithTimeout(cluster.Timeout).Should(BeTrue())
	}
}
