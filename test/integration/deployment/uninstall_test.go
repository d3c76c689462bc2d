package deployment_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

// The Job of the component runs with an account of its own, which may do less than the manager. Everything that a manager leaves is
// laid out for it.
var _ = It("The uninstall Job cleans up under the account that it comes with, which may do no more than that", func(ctx SpecContext) {
	const label, own = "10.96.0.200", "10.96.0.201"
	leaveBehind(ctx, "abandoned", label, own)
	install(ctx, c, uninstall)
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
	Expect(c.Kubectl(ctx, "get", "validatingadmissionpolicies,validatingadmissionpolicybindings,exclusiveranges", "-o", "name")).
		NotTo(ContainSubstring("clusterip-operator"), "the API server would go on to refuse Services")
	Expect(c.Kubectl(ctx, "get", "secrets", "-n", cluster.OperatorNamespace, "-o", "name")).NotTo(ContainSubstring("webhook"))

	Expect(witness.Refused(leaverAccount)).To(BeEmpty())
	expectExact(witness.Used(leaverAccount, ""), manifests.Granted(m, cluster.OperatorNamespace, leaverAccount))
})

// leaveBehind writes what a manager leaves: finalizer and condition of a range, the label of an IPAddress, what
// the API server enforces policies by, an IPAddress that it kept for itself, and the certificate of the webhooks.
func leaveBehind(ctx context.Context, cidr, labelled, own string) {
	GinkgoHelper()
	Expect(c.InstallCRDs(ctx)).To(Succeed())
	c.Apply(ctx, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s}}
---
{apiVersion: clusterip-operator.io/v1alpha1, kind: ExclusiveRanges, metadata: {name: clusterip-operator-exclusive},
  spec: {ipv4Lengths: [], ipv6Lengths: [], ranges: {}, selectors: []}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: clusterip-operator-exclusive}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services]}]}
  validations: [{expression: "true"}]
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
`, cluster.CertificateSecret, cluster.OperatorNamespace, cidr, cluster.OurFinalizer))
	c.Apply(ctx, fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: %s}
status: {conditions: [{type: %s, status: "False", reason: EnoughFree, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`, cidr, cluster.NearlyFull), "--subresource=status", "--field-manager=clusterip-operator-servicecidr")
	parent := framework.WithParent(networkingv1.ParentReference{Group: "example.com", Resource: "widgets", Name: "gear"})
	c.CreateIPAddress(ctx, framework.NewIPAddress(labelled, "", "", parent, framework.ManagedBy("widgets.example.com"), framework.WithIPLabel(cluster.BandLabel, "static")))
	c.CreateIPAddress(ctx, framework.NewIPAddress(own, "", "", parent, framework.ManagedBy(cluster.ManagedByUs)))
}
