package deployment_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

// The migration's steps share an account, whose requests during its whole work on Kubernetes 1.32
// are compared with its permissions, both ways. test/integration/migration tests the steps.
var _ = It("The migration Jobs do their work under the account that they come with, which may do no more than that", Label("long"), func(ctx SpecContext) {
	const steps = folder + "/components/migration"
	old, log := audited(ctx, framework.Options{Version: framework.V132})
	lost := old.CreateService(ctx, "lost").Spec.ClusterIP

	// run does what the pod of a step would do, beside another etcd.
	run := func(step string, exitCode int) framework.PluginResult {
		GinkgoHelper()
		old.Kustomize(ctx, steps+"/"+step)
		result := suite.Must(old.RunPlugin(ctx, framework.PluginOptions{
			Race: true, Kubeconfig: as(ctx, old, migrationNamespace, migrationAccount), Args: commandOf(ctx, old, steps+"/"+step),
		}))
		Expect(result.ExitCode).To(Equal(exitCode), result.String())
		return result
	}

	Expect(run("check", 1).Stdout).To(cluster.ContainAll("IPAddressMissing", lost))
	old.CreateServiceCIDR(ctx, "kubernetes", "10.97.0.0/16") // not the API server's range
	labels := old.CreateService(ctx, "labels").Spec.ClusterIP
	old.CreateIPAddress(ctx, framework.NewIPAddress(labels, cluster.Namespace, "labels", func(ip *networkingv1.IPAddress) { ip.Labels = nil }))
	old.CreateIPAddress(ctx, framework.NewIPAddress("10.96.0.77", cluster.Namespace, "nobody"))
	run("run", 0)
	Expect(old.Breaches(ctx)).To(BeEmpty())
	Expect(old.ServiceCIDR(ctx, "kubernetes").Spec.CIDRs).To(HaveExactElements("10.96.0.0/16", "fd00:10:96::/112"))

	By("keeping IPAddresses in step")
	old.Kustomize(ctx, steps+"/verify")
	verify := manifests.Render(ctx, steps+"/verify")
	Expect(verify).NotTo(ContainElement(HaveField("GetKind()", "Job")), "etcd's key is for the others")
	container := manifests.Only[appsv1.Deployment](verify, "Deployment").Spec.Template.Spec.Containers[0]
	keeper := suite.Must(old.StartPlugin(ctx, framework.PluginOptions{
		Race: true, Kubeconfig: as(ctx, old, migrationNamespace, migrationAccount), Args: slices.Concat(container.Command[1:], container.Args),
	}))
	late := old.CreateService(ctx, "late").Spec.ClusterIP
	Eventually(old.Owner).WithArguments(ctx, late).Should(Equal("default/late"))
	Expect(keeper.Stop()).To(Succeed())

	run("rollback", 0)
	Expect(run("finalize", 2).Stderr).To(ContainSubstring("nothing was deleted"), "what is in use")

	Expect(log.Refused(migrationAccount)).To(BeEmpty())
	expectExact(log.Used(migrationAccount, ""), manifests.Granted(manifests.Render(ctx, steps+"/run"), migrationNamespace, migrationAccount))
	for _, step := range []string{"check", "rollback"} { // which write nothing
		Expect(manifests.Granted(manifests.Render(ctx, steps+"/"+step), migrationNamespace, migrationAccount)).To(HaveEach(MatchRegexp("^(get|list) ")), step)
	}

	By("having no power over the node but three files and a folder: root it must be, to read the key")
	container = manifests.Only[batchv1.Job](manifests.Render(ctx, steps+"/run"), "Job").Spec.Template.Spec.Containers[0]
	Expect(*container.SecurityContext).To(And(HaveField("ReadOnlyRootFilesystem", HaveValue(BeTrue())),
		HaveField("AllowPrivilegeEscalation", HaveValue(BeFalse())),
		HaveField("Capabilities.Drop", ConsistOf(corev1.Capability("ALL"))), HaveField("Capabilities.Add", BeEmpty())))
	Expect(container.VolumeMounts).To(HaveEach(Or(HaveField("ReadOnly", true), HaveField("MountPath", "/var/lib/clusterip-operator"))))
})

// commandOf is the command line of a step's Job, with the test's etcd in place of the node's.
func commandOf(ctx context.Context, c *cluster.Cluster, step string) []string {
	GinkgoHelper()
	container := manifests.Only[batchv1.Job](manifests.Render(ctx, step), "Job").Spec.Template.Spec.Containers[0]
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

// The Job's own account may do less than the manager's. It finds all that a manager leaves behind.
var _ = It("The uninstall Job cleans up under the account that it comes with, which may do no more than that", func(ctx SpecContext) {
	const label, own = "10.96.0.200", "10.96.0.201"
	leaveBehind(ctx, "abandoned", label, own)
	c.Kustomize(ctx, uninstall)
	m := manifests.Render(ctx, uninstall)
	job := manifests.Only[batchv1.Job](m, "Job").Spec.Template.Spec
	Expect(job.ServiceAccountName).To(Equal(leaverAccount))
	running, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	output, status, err := c.RunManager(running, framework.ManagerOptions{
		Race: true, Kubeconfig: as(ctx, c, cluster.OperatorNamespace, leaverAccount),
		Args: append(job.Containers[0].Args, "--namespace="+cluster.OperatorNamespace),
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(status).To(BeZero(), output)

	abandoned := c.ServiceCIDR(ctx, "abandoned")
	Expect(abandoned.Finalizers).To(BeEmpty())
	Expect(abandoned.Status.Conditions).To(BeEmpty())
	Expect(c.IPAddress(ctx, label).Labels).NotTo(HaveKey(cluster.BandLabel))
	Expect(c.IPAddress(ctx, own)).To(BeNil())
	Expect(c.Kubectl(ctx, "get", "validatingadmissionpolicybindings,configmaps", "-n", cluster.OperatorNamespace, "-o", "name")).
		NotTo(Or(ContainSubstring("clusterip-operator-exclusive\n"), ContainSubstring("history")), "the API server would go on to refuse Services")
	Expect(c.Kubectl(ctx, "get", "secrets", "-n", cluster.OperatorNamespace, "-o", "name")).NotTo(ContainSubstring("webhook"))

	Expect(witness.Refused(leaverAccount)).To(BeEmpty())
	expectExact(witness.Used(leaverAccount, ""), manifests.Granted(m, cluster.OperatorNamespace, leaverAccount))
})

// leaveBehind writes what a manager leaves: a range's finalizer and condition, an IPAddress's
// label, what enforces policies, an IPAddress of our own, and the certificate of the webhooks.
func leaveBehind(ctx context.Context, cidr, labelled, own string) {
	GinkgoHelper()
	Expect(c.InstallCRDs(ctx)).To(Succeed())
	c.Apply(ctx, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: clusterip-operator-exclusive, namespace: %s}, data: {ipv4: "", ipv6: "", selectors: ""}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: clusterip-operator-history-63, namespace: %s}, data: {seen: "2026-01-01T00:00:00Z", owners: ""}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: clusterip-operator-exclusive}
spec: {policyName: clusterip-operator-exclusive, validationActions: [Deny]}
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: %s, finalizers: [%s]}
spec: {cidrs: [10.111.0.0/24]}
`, cluster.CertificateSecret, cluster.OperatorNamespace, cluster.OperatorNamespace, cluster.OperatorNamespace, cidr, cluster.OurFinalizer))
	c.Apply(ctx, fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: %s}
status: {conditions: [{type: %s, status: "False", reason: EnoughFree, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`, cidr, cluster.NearlyFull), "--subresource=status", "--field-manager=clusterip-operator-servicecidr")
	parent := framework.WithParent(networkingv1.ParentReference{Group: "example.com", Resource: "widgets", Name: "gear"})
	c.CreateIPAddress(ctx, framework.NewIPAddress(labelled, "", "", parent, framework.ManagedBy("widgets.example.com"),
		framework.WithIPLabel(cluster.BandLabel, "static")))
	c.CreateIPAddress(ctx, framework.NewIPAddress(own, "", "", parent, framework.ManagedBy(cluster.ManagedByUs)))
}
