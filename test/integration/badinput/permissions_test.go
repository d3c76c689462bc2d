package badinput_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

var everything = metav1.ListOptions{}

// managerRules are the rules of config/rbac.
func managerRules() []rbacv1.PolicyRule {
	GinkgoHelper()
	content, err := os.ReadFile("../../../config/rbac/role.yaml")
	Expect(err).NotTo(HaveOccurred())
	role := rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict(content, &role)).To(Succeed())
	Expect(role.Rules).NotTo(BeEmpty())
	return role.Rules
}

// without takes verbs away from the rules of a resource; no verbs are all of them.
func without(rules []rbacv1.PolicyRule, resource string, verbs ...string) []rbacv1.PolicyRule {
	GinkgoHelper()
	at := slices.IndexFunc(rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) })
	Expect(at).NotTo(Equal(-1), "no rule for %s", resource)
	rules[at].Verbs = slices.DeleteFunc(rules[at].Verbs, func(verb string) bool {
		return len(verbs) == 0 || slices.Contains(verbs, verb)
	})
	if len(rules[at].Verbs) == 0 {
		return slices.Delete(rules, at, at+1)
	}
	return rules
}

// account creates a ServiceAccount with these rules in the whole cluster and returns a kubeconfig with its token.
func account(ctx context.Context, name string, rules []rbacv1.PolicyRule) string {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Name: name}
	_, err := cp.Client().CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	rbac := cp.Client().RbacV1()
	_, err = rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config, err := cp.ConfigForServiceAccount(ctx, "default", name)
	Expect(err).NotTo(HaveOccurred())
	return kubeconfig(config)
}

// missing reads the list of missing permissions out of a message.
func missing(output string) []string {
	GinkgoHelper()
	_, list, found := strings.Cut(output, "permissions are missing: ")
	Expect(found).To(BeTrue(), output)
	list, _, found = strings.Cut(list, "; ")
	Expect(found).To(BeTrue(), output)
	return strings.Split(list, ", ")
}

// Somebody trims the ClusterRole of the operator, or never applied it. A watch that is forbidden never ends its first
// listing, so the manager asks before it starts and tells everything that is missing at once.
var _ = Describe("A ServiceAccount that may not do everything", func() {
	refused := func(ctx SpecContext, kubeconfig string, args ...string) []string {
		GinkgoHelper()
		var lacking []string
		untouched(ctx, func() {
			output, status := run(ctx, cp, framework.ManagerOptions{Kubeconfig: kubeconfig, Args: append([]string{
				"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
			}, args...)})
			Expect(status).To(Equal(couldNot), output)
			Expect(output).To(ContainSubstring("config/rbac"), "the remedy")
			lacking = missing(output)
		})
		return lacking
	}

	It("is told exactly which verbs it lacks", func(ctx SpecContext) {
		rules := without(managerRules(), "services", "watch")
		rules = without(rules, "ipaddresses", "patch", "delete")
		rules = without(rules, "servicecidrs/status")
		rules = without(rules, "nodes")
		Expect(refused(ctx, account(ctx, "trimmed", rules))).To(ConsistOf(
			"watch services", "list nodes", "watch nodes",
			"patch ipaddresses.networking.k8s.io", "delete ipaddresses.networking.k8s.io",
			"patch servicecidrs.networking.k8s.io/status"))
	})

	It("is told of every verb when it has none", func(ctx SpecContext) {
		var all []string
		for _, rule := range managerRules() {
			if rule.APIGroups[0] == "authentication.k8s.io" || rule.APIGroups[0] == "authorization.k8s.io" {
				continue // only secure metrics need these, and they are off here
			}
			if slices.Contains([]string{
				"namespaces", "servicecidrpolicies", "servicecidrpolicies/status", "exclusiveranges", "validatingadmissionpolicies",
			}, rule.Resources[0]) {
				continue // only policies need these, and their kind is not served here
			}
			name, subresource, _ := strings.Cut(rule.Resources[0], "/")
			if rule.APIGroups[0] != "" {
				name += "." + rule.APIGroups[0]
			}
			if subresource != "" {
				name += "/" + subresource
			}
			for _, verb := range rule.Verbs {
				all = append(all, verb+" "+name)
			}
		}
		Expect(refused(ctx, account(ctx, "nobody", nil))).To(ConsistOf(all))
	})

	// Without the Lease the manager would stand by for ever, with a log full of refusals and probes that are green.
	It("is told that it cannot be elected", func(ctx SpecContext) {
		lacking := refused(ctx, account(ctx, "unelectable", managerRules()), "--leader-elect=true", "--leader-election-namespace=default")
		Expect(lacking).To(ConsistOf(
			HavePrefix("get leases.coordination.k8s.io"), HavePrefix("create leases.coordination.k8s.io"),
			HavePrefix("update leases.coordination.k8s.io"),
		))
	})

	// Without the two reviews every scrape would be answered with 401 or 500.
	It("is told that it cannot guard its metrics", func(ctx SpecContext) {
		rules := without(managerRules(), "tokenreviews")
		rules = without(rules, "subjectaccessreviews")
		port, err := framework.FreePort()
		Expect(err).NotTo(HaveOccurred())
		lacking := refused(ctx, account(ctx, "unguarded", rules), fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", port))
		Expect(lacking).To(ConsistOf("create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io"))
	})

	It("gets a plain refusal of the clean-up", func(ctx SpecContext) {
		path := account(ctx, "leaver", nil)
		untouched(ctx, func() {
			output, status := run(ctx, cp, framework.ManagerOptions{Kubeconfig: path, Args: []string{"cleanup"}})
			Expect(status).To(Equal(couldNot), output)
			Expect(output).To(And(ContainSubstring("forbidden"), ContainSubstring("leases"), ContainSubstring("run it again")))
		})
	})
})
