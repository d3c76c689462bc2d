package deployment_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// The Job of the component runs with an account of its own, which may do less than the manager. Everything that a manager leaves is
// laid out for it.
var _ = Describe("The uninstall Job", Ordered, func() {
	const label, own = "10.96.0.200", "10.96.0.201"

	BeforeAll(func(ctx SpecContext) {
		leaveBehind(ctx, "abandoned", label, own)
		install(ctx, c, uninstall)
	})

	It("cleans up under the account that it comes with", func(ctx SpecContext) {
		job := only[batchv1.Job](render(ctx, uninstall), "Job").Spec.Template.Spec
		Expect(job.ServiceAccountName).To(Equal(leaverAccount))
		running, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		output, status, err := c.RunManager(running, framework.ManagerOptions{
			Race: true, Kubeconfig: as(ctx, c, leaverAccount),
			Args: append(job.Containers[0].Args, "--namespace="+namespace),
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(BeZero(), output)

		abandoned := c.ServiceCIDR(ctx, "abandoned")
		Expect(abandoned.Finalizers).To(BeEmpty())
		Expect(abandoned.Status.Conditions).To(BeEmpty())
		Expect(c.IPAddress(ctx, label).Labels).NotTo(HaveKey(cluster.BandLabel))
		Expect(c.IPAddress(ctx, own)).To(BeNil())
		Expect(kubectl(ctx, c, "get", "secrets,leases", "-n", namespace, "-o", "name")).NotTo(Or(ContainSubstring("webhook"), ContainSubstring("replica")))
	})

	It("has used what it may do, and may do no more", func(ctx SpecContext) {
		Expect(witness.refused(leaverAccount)).To(BeEmpty())
		used, may := witness.used(leaverAccount), granted(render(ctx, uninstall), leaverAccount)
		Expect(beyond(used, may)).To(BeEmpty(), "used, and not granted")
		Expect(beyond(may, used)).To(BeEmpty(), "granted, and not used")
	})
})

// leaveBehind writes what a manager leaves: finalizer and condition of a range, the label of an IPAddress, an IPAddress that it kept for
// itself, the Lease of a replica, and the certificate of the webhooks.
func leaveBehind(ctx context.Context, cidr, labelled, own string) {
	GinkgoHelper()
	c.CreateServiceCIDR(ctx, cidr, "10.111.0.0/24")
	patch := func(body, manager string, subresources ...string) {
		GinkgoHelper()
		_, err := c.Networking().ServiceCIDRs().Patch(ctx, cidr, types.ApplyPatchType, []byte(body),
			metav1.PatchOptions{FieldManager: manager, Force: new(true)}, subresources...)
		Expect(err).NotTo(HaveOccurred())
	}
	const head = `apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata:
  name: %s
`
	patch(fmt.Sprintf(head+"  finalizers: [%s]\n", cidr, cluster.OurFinalizer), "test")
	patch(fmt.Sprintf(head+`status:
  conditions:
  - {type: %s, status: "False", reason: EnoughFree, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
`, cidr, cluster.NearlyFull), "clusterip-operator-servicecidr", "status")
	parent := framework.WithParent(reference("example.com", "widgets", "gear"))
	c.CreateIPAddress(ctx, framework.NewIPAddress(labelled, "", "", parent, framework.ManagedBy("widgets.example.com"), framework.WithIPLabel(cluster.BandLabel, "static")))
	for _, text := range []string{
		"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: clusterip-operator-replica-dead, namespace: " + namespace +
			", labels: {clusterip-operator.io/replica: \"true\"}}",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: clusterip-operator-webhook, namespace: " + namespace + "}",
	} {
		apply(ctx, text)
	}
	c.CreateIPAddress(ctx, framework.NewIPAddress(own, "", "", parent, framework.ManagedBy("clusterip-operator.io")))
}

func reference(group, resource, name string) networkingv1.ParentReference {
	return networkingv1.ParentReference{Group: group, Resource: resource, Name: name}
}
