package certificates_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

// As with cert-manager: somebody else writes files, later than the manager starts, and renews them. A kubelet mounts them as links to a
// folder, which it replaces.
var _ = Describe("Certificates from files", Ordered, func() {
	var (
		c       *cluster.Cluster
		manager *framework.Manager
		dir     string
	)

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{WithoutOperator: true})
		Expect(c.InstallCRDs(ctx)).To(Succeed())
		dir = filepath.Join(GinkgoT().TempDir(), "certificate")
		manager = suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{
			Race: true, Webhooks: true, NoWait: true, Args: []string{"--namespace=" + cluster.Namespace, "--webhook-cert-dir=" + dir},
		})
	})

	It("may come late: meanwhile the manager does everything else, and is not ready", func(ctx SpecContext) {
		c.WaitLookedAfter(ctx, "kubernetes")
		Eventually(manager.Healthy).WithArguments(ctx, "/healthz").WithTimeout(cluster.Patience).Should(Succeed())
		Expect(manager.Healthy(ctx, "/readyz/webhook")).NotTo(Succeed())
		Expect(shown(manager)).To(BeNil())
	})

	It("are shown when they come, and when they change", func(ctx SpecContext) {
		for i, life := range []time.Duration{24 * time.Hour, 48 * time.Hour} {
			data := issued(calledAs, life)
			mount(dir, data, i)
			Eventually(func() time.Time {
				if leaf := shown(manager); leaf != nil {
					return leaf.NotAfter
				}
				return time.Time{}
			}).WithTimeout(30 * time.Second).Should(BeTemporally("~", time.Now().Add(life), time.Minute))
		}
		Expect(manager.WaitReady(ctx)).To(Succeed())
	})

	It("make us neither ask for a Secret nor touch the webhook configurations", func(ctx SpecContext) {
		Expect(c.Client().CoreV1().Secrets("").List(ctx, all)).To(HaveField("Items", BeEmpty()))
		Expect(manager.LogTail(1000)).NotTo(ContainSubstring("webhook-certificate"))
	})

	It("make the manager unready once they have expired", func(ctx SpecContext) {
		mount(dir, issued(calledAs, -time.Minute), 2)
		Eventually(manager.Healthy).WithArguments(ctx, "/readyz/webhook").WithTimeout(30 * time.Second).ShouldNot(Succeed())
		Expect(manager.Healthy(ctx, "/healthz")).To(Succeed())
	})
})

// mount writes the files of a Secret as a kubelet does: into a folder of their own, to which a link leads.
func mount(dir string, data map[string][]byte, generation int) {
	GinkgoHelper()
	Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	folder := filepath.Join(dir, "..", "data-"+string(rune('0'+generation)))
	Expect(os.MkdirAll(folder, 0o700)).To(Succeed())
	for _, name := range []string{certKey, keyKey} {
		Expect(os.WriteFile(filepath.Join(folder, name), data[name], 0o600)).To(Succeed())
	}
	next := filepath.Join(dir, "..data_tmp")
	Expect(os.Symlink(folder, next)).To(Succeed())
	Expect(os.Rename(next, filepath.Join(dir, "..data"))).To(Succeed())
	for _, name := range []string{certKey, keyKey} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			Expect(os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name))).To(Succeed())
		}
	}
}

// What the command line asks for and the cluster does not have.
var _ = Describe("Webhooks that cannot be served", Ordered, func() {
	var c *cluster.Cluster

	BeforeAll(func(ctx SpecContext) { c = cluster.Start(ctx, cluster.Options{WithoutOperator: true}) })

	ended := func(ctx context.Context, args ...string) string {
		GinkgoHelper()
		running, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		output, status, err := c.RunManager(running, framework.ManagerOptions{Race: true, Args: append([]string{
			"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		}, args...)})
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(Equal(1), output)
		return output
	}

	It("are not served without a namespace, and it is said how to give one", func(ctx SpecContext) {
		Expect(ended(ctx, "--webhook-bind-address=127.0.0.1:9443")).To(And(ContainSubstring("--namespace"), ContainSubstring("--webhook-bind-address=0")))
	})

	It("leave everything else at work without the CRD, which is told in one line", func(ctx SpecContext) {
		manager := suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{
			Race: true, Webhooks: true, Args: []string{"--namespace=" + cluster.Namespace},
		})
		c.WaitLookedAfter(ctx, "kubernetes")
		Expect(shown(manager)).To(BeNil())
		Expect(manager.LogTail(1000)).To(ContainSubstring("apply config/crd"))
		Expect(manager.Stop()).To(Succeed())
	})

	It("are named, with the permissions that they need", func(ctx SpecContext) {
		Expect(c.InstallCRDs(ctx)).To(Succeed())
		config, err := c.ConfigForUser("nobody-special")
		Expect(err).NotTo(HaveOccurred())
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		Expect(framework.WriteKubeconfig(kubeconfig, config)).To(Succeed())
		Expect(ended(ctx, "--webhook-bind-address=127.0.0.1:9443", "--namespace="+steering.Namespace, "--kubeconfig="+kubeconfig)).To(And(
			ContainSubstring("create secrets in namespace "+steering.Namespace),
			ContainSubstring("update secrets clusterip-operator-webhook in namespace "+steering.Namespace),
			ContainSubstring("patch mutatingwebhookconfigurations.admissionregistration.k8s.io clusterip-operator"),
			ContainSubstring("watch servicecidrpolicies.clusterip-operator.io")))
	})

	It("are not served where another program listens", func(ctx SpecContext) {
		busy := busyAddress()
		Expect(ended(ctx, "--webhook-bind-address="+busy, "--namespace="+cluster.Namespace)).To(And(
			ContainSubstring("--webhook-bind-address"), ContainSubstring("address already in use")))
	})
})
