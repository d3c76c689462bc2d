package badinput_test

import (
	"context"
	"os"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// trimmed is the kubeconfig of a ServiceAccount with config/rbac's permissions except lost.
func trimmed(ctx context.Context, name string, lost map[string][]string) string {
	GinkgoHelper()
	content := suite.Must(os.ReadFile("../../../config/rbac/role.yaml"))
	role := rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict(content, &role)).To(Succeed())
	role.ObjectMeta = metav1.ObjectMeta{Name: name}
	for i, rule := range role.Rules {
		role.Rules[i].Verbs = slices.DeleteFunc(rule.Verbs, func(verb string) bool { return slices.Contains(lost[rule.Resources[0]], verb) })
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Verbs) == 0 })
	suite.Must(c.Client().RbacV1().ClusterRoles().Create(ctx, &role, metav1.CreateOptions{}))
	c.Kubectl(ctx, "create", "serviceaccount", name)
	c.Kubectl(ctx, "create", "clusterrolebinding", name, "--clusterrole="+name, "--serviceaccount="+cluster.Namespace+":"+name)
	config := suite.Must(c.ConfigForServiceAccount(ctx, cluster.Namespace, name))
	return cluster.KubeconfigOf(config)
}

// The operator's ClusterRole was trimmed or never applied. A forbidden watch never ends its first
// listing, so the manager asks before it starts and reports all that is missing at once.
// controllers/preflight_test.go compares its questions with config/rbac.
var _ = Describe("A ServiceAccount that may not do everything", func() {
	refused := func(ctx SpecContext, kubeconfig string, args []string, complaints ...string) {
		GinkgoHelper()
		untouched(ctx, func() {
			output, status := run(ctx, c, framework.ManagerOptions{Kubeconfig: kubeconfig, Args: args})
			Expect(status).To(Equal(couldNot), output)
			Expect(output).To(cluster.ContainAll(complaints...))
		})
	}

	It("is told exactly which verbs it lacks", func(ctx SpecContext) {
		refused(ctx, trimmed(ctx, "trimmed", map[string][]string{
			"services": {"watch"}, "ipaddresses": {"patch", "delete"}, "nodes": {"list", "watch"}, "servicecidrs/status": {"patch"},
		}), []string{"--leader-elect=true", "--leader-election-namespace=default", "--metrics-bind-address=0", "--health-probe-bind-address=0"},
			"permissions are missing: ", "watch services,", "list nodes", "watch nodes", "patch ipaddresses.networking.k8s.io", "delete ipaddresses.networking.k8s.io",
			"patch servicecidrs.networking.k8s.io/status", "get leases.coordination.k8s.io", "config/rbac")
	})

	It("gets a plain refusal of the clean-up", func(ctx SpecContext) {
		refused(ctx, trimmed(ctx, "leaver", nil), []string{"cleanup"}, "forbidden", "leases", "run it again")
	})
})
