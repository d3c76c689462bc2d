package deployment_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// The steps of the migration share an account, which does its whole work once on Kubernetes 1.32. What it has asked for is then
// compared with what it may ask for, both ways.
var _ = Describe("The migration Jobs", Label("all"), Ordered, func() {
	const steps = folder + "/components/migration"
	var (
		old  *cluster.Cluster
		log  auditLog
		lost string
	)

	// run does what the pod of a step would do, beside another etcd.
	run := func(ctx context.Context, step string) framework.PluginResult {
		GinkgoHelper()
		install(ctx, old, steps+"/"+step)
		result, err := old.RunPlugin(ctx, framework.PluginOptions{
			Race: true, Kubeconfig: as(ctx, old, migrationAccount), Args: commandOf(ctx, old, steps+"/"+step),
		})
		Expect(err).NotTo(HaveOccurred())
		return result
	}

	BeforeAll(func(ctx SpecContext) {
		log = auditLog(filepath.Join(GinkgoT().TempDir(), "audit.log"))
		old = audited(ctx, log, framework.Options{Version: framework.V132})
		lost = old.CreateService(ctx, "lost").Spec.ClusterIP
	})

	It("tell what is missing", func(ctx SpecContext) {
		result := run(ctx, "check")
		Expect(result.ExitCode).To(Equal(1), result.String())
		Expect(result.Stdout).To(And(ContainSubstring("IPAddressMissing"), ContainSubstring(lost)))
	})

	It("create, mend, replace and delete", func(ctx SpecContext) {
		old.CreateServiceCIDR(ctx, "kubernetes", "10.97.0.0/16") // not the API server's range
		labels := old.CreateService(ctx, "labels").Spec.ClusterIP
		old.CreateIPAddress(ctx, framework.NewIPAddress(labels, cluster.Namespace, "labels", framework.WithoutLabels()))
		old.CreateIPAddress(ctx, framework.NewIPAddress("10.96.0.77", cluster.Namespace, "nobody"))
		result := run(ctx, "run")
		Expect(result.ExitCode).To(BeZero(), result.String())
		Expect(old.Breaches(ctx)).To(BeEmpty())
		Expect(old.ServiceCIDR(ctx, "kubernetes").Spec.CIDRs).To(HaveExactElements("10.96.0.0/16", "fd00:10:96::/112"))
	})

	It("keep IPAddresses in step", func(ctx SpecContext) {
		install(ctx, old, steps+"/verify")
		container := only[appsv1.Deployment](render(ctx, steps+"/verify"), "Deployment").Spec.Template.Spec.Containers[0]
		Expect(render(ctx, steps+"/verify")).NotTo(ContainElement(HaveField("GetKind()", "Job")), "etcd's key is for the others")
		keeper, err := old.StartPlugin(ctx, framework.PluginOptions{
			Race: true, Kubeconfig: as(ctx, old, migrationAccount), Args: slices.Concat(container.Command[1:], container.Args),
		})
		Expect(err).NotTo(HaveOccurred())
		late := old.CreateService(ctx, "late").Spec.ClusterIP
		Eventually(old.Owner).WithArguments(ctx, late).WithTimeout(cluster.Patience).Should(Equal("default/late"))
		Expect(keeper.Stop()).To(Succeed())
	})

	It("preview a rollback", func(ctx SpecContext) {
		result := run(ctx, "rollback")
		Expect(result.ExitCode).To(BeZero(), result.String())
	})

	It("do not finalize what is in use", func(ctx SpecContext) {
		result := run(ctx, "finalize")
		Expect(result.ExitCode).To(Equal(2), result.String())
		Expect(result.Stderr).To(ContainSubstring("nothing was deleted"))
	})

	It("have used what they may do, and may do no more", func(ctx SpecContext) {
		Expect(log.refused(migrationAccount)).To(BeEmpty())
		used, may := log.used(migrationAccount), granted(render(ctx, steps+"/run"), migrationAccount)
		Expect(beyond(used, may)).To(BeEmpty(), "used, and not granted")
		Expect(beyond(may, used)).To(BeEmpty(), "granted, and not used")
	})

	It("may write only where a step writes", func(ctx SpecContext) {
		for _, step := range []string{"check", "rollback"} {
			Expect(granted(render(ctx, steps+"/"+step), migrationAccount)).To(HaveEach(MatchRegexp("^(get|list) ")), step)
		}
	})

	// Root it must be, to read the key. All else of the restricted standard that a hostPath leaves is kept.
	It("have no power over the node but three files and a folder", func(ctx SpecContext) {
		pod := only[batchv1.Job](render(ctx, steps+"/run"), "Job").Spec.Template.Spec
		container := pod.Containers[0]
		Expect(*container.SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
		Expect(*container.SecurityContext.AllowPrivilegeEscalation).To(BeFalse())
		Expect(container.SecurityContext.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
		Expect(container.SecurityContext.Capabilities.Add).To(BeEmpty())
		for _, mount := range container.VolumeMounts {
			Expect(mount.ReadOnly || mount.MountPath == "/var/lib/clusterip-operator").To(BeTrue(), mount.Name)
		}
	})
})

// commandOf is the command line of a step's Job, with the etcd of a test in the place of the node's.
func commandOf(ctx context.Context, c *cluster.Cluster, step string) []string {
	GinkgoHelper()
	container := only[batchv1.Job](render(ctx, step), "Job").Spec.Template.Spec.Containers[0]
	Expect(container.Command[0]).To(Equal("/kubectl-clusterip"))
	args := slices.Concat(container.Command[1:], container.Args)
	args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--etcd-") })
	for i, arg := range args {
		if strings.HasPrefix(arg, "--archive=") {
			args[i] = "--archive=" + filepath.Join(GinkgoT().TempDir(), "bitmaps.json")
		}
	}
	return append(args, c.EtcdArgs()...)
}
