package behaviour_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// denying is a policy of a platform that lets no user do an operation on objects of a resource.
func denying(operation, resource, kind string) string {
	return fmt.Sprintf(`
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [networking.k8s.io], apiVersions: ["*"], resources: [%s], operations: [%s]}]
  validations: [{expression: "false", message: the platform keeps %s}]`, resource, operation, kind)
}

// A platform may forbid to change IPAddresses. Band labels are a service to people: where they are
// refused, that is said once, and no request is sent for each IPAddress again and again.
var _ = It("Band labels that the platform refuses are not tried for each IPAddress", Label("long"), func(ctx SpecContext) {
	c := cluster.Start(ctx, cluster.Options{WithoutOperator: true})
	c.Forbid(ctx, "platform", denying("UPDATE", "ipaddresses", "IPAddresses"))
	services := c.CreateServices(ctx, 30, framework.Numbered(cluster.Namespace, "labelled", framework.RequireDualStack()))
	Eventually(func() error {
		_, err := framework.Kubectl(ctx, c.Kubeconfig(), "label", "ipaddress", services[0].Spec.ClusterIP, "a=b", "--dry-run=server")
		return err
	}).Should(MatchError(ContainSubstring("the platform keeps IPAddresses")))
	before := denied(ctx, c)

	c.StartOperator(ctx)
	Eventually(c.Metric).WithArguments(ctx, "writes_refused", "for", "band labels").Should(BeEquivalentTo(1))
	Consistently(denied).WithArguments(ctx, c).WithTimeout(8*time.Second).WithPolling(time.Second).Should(BeNumerically("<=", before+3+4), "60 IPAddresses: three, and two after each pause")
	refused := func() []string {
		return c.Events(ctx).Ours().OnServiceCIDR("kubernetes").For("IPAddressWritesRefused").Notes()
	}
	Eventually(refused).Should(ConsistOf(And(ContainSubstring("--band-labels=false"), ContainSubstring("the platform keeps IPAddresses"))))
	Eventually(c.Warning(ctx, "kubernetes", cluster.WritesRefused)).Should(And(ContainSubstring("change IPAddresses for band labels"), ContainSubstring("--band-labels=false")))

	By("what is not refused goes on", func() {
		address := services[0].Spec.ClusterIP
		c.DeleteIPAddress(ctx, address)
		Eventually(c.Owner).WithArguments(ctx, address).Should(Equal(cluster.Namespace + "/" + services[0].Name))
	})

	By("the platform allows it", func() {
		c.Kubectl(ctx, "delete", "validatingadmissionpolicybinding", "platform")
		Eventually(c.Warning(ctx, "kubernetes", cluster.WritesRefused)).WithTimeout(time.Minute).Should(BeEmpty())
	})
})

// A platform may forbid to create ServiceCIDRs, as OpenShift does: growth is a finding then, of
// both families in one, and goes on once it is allowed.
var _ = It("Growth that the platform refuses is found by check", Label("all"), func(ctx SpecContext) {
	c := cluster.Start(ctx, cluster.Options{Installed: true, Replicas: 1})
	c.Forbid(ctx, "platform", denying("CREATE", "servicecidrs", "ServiceCIDRs"))
	Eventually(func() error {
		_, err := c.Networking().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("probe", "10.202.0.0/28"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).Should(MatchError(ContainSubstring("the platform keeps ServiceCIDRs")))
	c.ApplyPolicy(ctx, "grows", `{serviceCIDRSelector: {matchLabels: {pool: grows}}, namespaceSelector: {matchLabels: {tenant: grows}},
		growth: {from: [{cidr: 10.201.0.0/24, prefixLength: 26}, {cidr: "fd00:10:201::/120", prefixLength: 122}]}}`)
	c.WaitCondition(ctx, "grows", cluster.Growing, metav1.ConditionFalse, "10.201.0.0/26", "fd00:10:201::/122", "the platform keeps ServiceCIDRs")

	check := func() string {
		GinkgoHelper()
		return suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Args: []string{"check"}})).Stdout
	}
	Expect(check()).To(And(
		MatchRegexp(`(?m)^PolicyGrowthRefused +servicecidrpolicy/grows .*10\.201\.0\..*fd00:10:201::.*the platform keeps ServiceCIDRs.*let the operator's ServiceAccount create ServiceCIDRs`),
		WithTransform(func(text string) int { return strings.Count(text, "PolicyGrowthRefused") }, Equal(1)),
	))

	By("the platform allows it", func() {
		c.Kubectl(ctx, "delete", "validatingadmissionpolicybinding", "platform")
		Eventually(c.PolicyCondition).WithArguments(ctx, "grows", cluster.Growing).WithTimeout(2 * time.Minute).Should(HaveField("Reason", "EnoughFree"))
		Expect(check()).NotTo(ContainSubstring("PolicyGrowthRefused"))
	})
})

// denied is how many requests the platform's policy has refused.
func denied(ctx context.Context, c *cluster.Cluster) (n float64) {
	GinkgoHelper()
	text := suite.Must(c.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx))
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apiserver_validating_admission_policy_check_total{") && strings.Contains(line, `enforcement_action="deny"`) && strings.Contains(line, `policy="platform"`) {
			value := suite.Must(strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64))
			n += value
		}
	}
	return n
}
