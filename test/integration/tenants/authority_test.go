package tenants_test

import (
	"context"
	"fmt"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/hostile"
)

// strange is an address that no Service of the tenant ever had.
const strange4, strange6 = "203.0.113.7", "2001:db8::7"

// Promise 4.
var _ = Describe("No authority lent: an admin's command does not write what a tenant may not", Ordered, ContinueOnFailure, func() {
	var mallory *hostile.Tenant

	BeforeAll(func(ctx SpecContext) {
		mallory = hostile.New(ctx, c, "mallory-authority", nil)
		forbid(ctx, mallory)
	})

	// service creates a Service of the tenant, and the admin's plan to move it. The range to which it
	// is to move comes later: an address would be drawn from there once in some hundred times.
	service := func(ctx context.Context, name string) (plan string) {
		GinkgoHelper()
		s := hostile.Plain(name)
		s["spec"].(hostile.Fields)["ipFamilyPolicy"] = "RequireDualStack"
		Expect(mallory.Create(ctx, s).Stored()).To(BeTrue())
		newPlace(ctx, "elsewhere", 8)
		plan = filepath.Join(GinkgoT().TempDir(), "plan.yaml")
		renumber(ctx, "plan", "-n", mallory.Namespace, "--range=kubernetes", "--to=elsewhere", "--keep=externalIPs", "-o", plan)
		return plan
	}
	get := func(ctx context.Context, name string) *corev1.Service {
		GinkgoHelper()
		return suite.Must(c.Client().CoreV1().Services(mallory.Namespace).Get(ctx, name, metav1.GetOptions{}))
	}

	It("as external IPs, from an annotation with former addresses", func(ctx SpecContext) {
		plan := service(ctx, "former")
		before := get(ctx, "former").Spec.ClusterIPs
		Expect(mallory.Merge(ctx, "former", hostile.Fields{"spec": hostile.Fields{"externalIPs": []string{strange4}}}).Stored()).To(BeFalse(), "the policy forbids it")
		Expect(mallory.Merge(ctx, "former", hostile.Fields{"metadata": hostile.Fields{"annotations": hostile.Fields{
			"clusterip-operator.io/former-ips": strange4 + "," + strange6,
		}}}).Stored()).To(BeTrue())
		renumber(ctx, "run", "--from", plan, "--wait=false")
		s := get(ctx, "former")
		Expect(s.Spec.ClusterIPs).NotTo(Equal(before), "it was moved")
		Expect(s.Spec.ExternalIPs).To(ConsistOf(before), "what it had, and nothing else")
	})

	// The command keeps in an annotation what a Service loses between the two updates.
	It("as a load balancer, from an annotation of a move that never began", func(ctx SpecContext) {
		plan := service(ctx, "forged")
		forged := hostile.Fields{"spec": hostile.Fields{"type": "LoadBalancer", "loadBalancerIP": strange4}}
		Expect(mallory.Merge(ctx, "forged", forged).Stored()).To(BeFalse(), "the policy forbids it")
		answer := mallory.Merge(ctx, "forged", hostile.Fields{
			"metadata": hostile.Fields{"annotations": hostile.Fields{"clusterip-operator.io/renumbering": fmt.Sprintf(
				`{"type":"LoadBalancer","clusterIPs":[],"loadBalancerIP":%q,"nodePorts":[{"port":80,"protocol":"TCP","nodePort":30007}]}`, strange4)}},
			"spec": hostile.Fields{
				"type": "ExternalName", "externalName": "being-renumbered.invalid", "clusterIP": nil, "clusterIPs": nil, "ipFamilies": nil, "ipFamilyPolicy": nil,
			},
		})
		Expect(answer.Stored()).To(BeTrue(), answer.Body)
		renumber(ctx, "run", "--from", plan, "--wait=false")
		s := get(ctx, "forged")
		Expect(s.Spec.Type).To(BeElementOf(corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName))
		Expect(s.Spec.LoadBalancerIP).To(BeEmpty())
		Expect(s.Spec.Ports).To(HaveEach(HaveField("NodePort", BeZero())))
	})
})

// renumber runs the command as an admin who reads what it says.
func renumber(ctx context.Context, args ...string) {
	GinkgoHelper()
	result := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Args: append([]string{"renumber"}, args...)}))
	GinkgoWriter.Println(result.String())
}

// forbid refuses a tenant external IPs, load balancers and node ports, as many clusters do.
func forbid(ctx context.Context, t *hostile.Tenant) {
	GinkgoHelper()
	c.Forbid(ctx, "tenants", fmt.Sprintf(`
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [services]}]}
  matchConditions: [{name: tenants, expression: 'request.userInfo.username == %q'}]
  validations:
  - {expression: 'size(object.spec.?externalIPs.orValue([])) == 0'}
  - {expression: '!(object.spec.?type.orValue("") in ["LoadBalancer", "NodePort"])'}`, t.Namespace))
	external := hostile.Plain("external")
	external["spec"].(hostile.Fields)["externalIPs"] = []string{strange4}
	Eventually(func() bool { return t.DryRun(ctx, external).Stored() }).Should(BeFalse())
}
