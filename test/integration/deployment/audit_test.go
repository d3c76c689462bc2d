package deployment_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
)

// auditLog is the path of a log in which an API server notes what our accounts ask for.
type auditLog string

// auditPolicy notes who asked for what, not with which content, and each request once.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users:
  - system:serviceaccount:` + namespace + `:` + managerAccount + `
  - system:serviceaccount:` + namespace + `:` + leaverAccount + `
  - system:serviceaccount:` + migrationNamespace + `:` + migrationAccount + `
- level: None
`

// flags makes an API server write the log.
func (l auditLog) flags() []string {
	GinkgoHelper()
	policy := filepath.Join(filepath.Dir(string(l)), "policy.yaml")
	Expect(os.WriteFile(policy, []byte(auditPolicy), 0o600)).To(Succeed())
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + string(l), "--audit-log-mode=blocking"}
}

// auditEvent is what we read of an event of audit.k8s.io/v1.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Object *struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Answer struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// events returns what an account has asked for, discovery apart.
func (l auditLog) events(account string) (events []auditEvent) {
	GinkgoHelper()
	content, err := os.ReadFile(string(l))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(content)) {
		event := auditEvent{}
		Expect(json.Unmarshal([]byte(line), &event)).To(Succeed(), line)
		if event.Object != nil && strings.HasSuffix(event.User.Username, ":"+account) {
			events = append(events, event)
		}
	}
	Expect(events).NotTo(BeEmpty(), "%s has asked for nothing", account)
	return events
}

// used lists the permissions that an account has made use of.
func (l auditLog) used(account string) (permissions []string) {
	GinkgoHelper()
	for _, event := range l.events(account) {
		permissions = append(permissions, permission(event.Verb, event.Object.Group, event.Object.Resource, event.Object.Subresource))
	}
	slices.Sort(permissions)
	return slices.Compact(permissions)
}

// refused lists what an account was not allowed to do.
func (l auditLog) refused(account string) (permissions []string) {
	GinkgoHelper()
	for _, event := range l.events(account) {
		if event.Answer.Code == 403 {
			permissions = append(permissions, permission(event.Verb, event.Object.Group, event.Object.Resource, event.Object.Subresource))
		}
	}
	return permissions
}

// permission is "verb resource.group/subresource".
func permission(verb, group, resource, subresource string) string {
	name := verb + " " + resource
	if group != "" {
		name += "." + group
	}
	if subresource != "" {
		name += "/" + subresource
	}
	return name
}

// granted lists the permissions that manifests give to a ServiceAccount. They must be spelled out: a wildcard is never
// least privilege.
func granted(m manifests, account string) (permissions []string) {
	GinkgoHelper()
	for _, rule := range rules(m, account) {
		Expect(rule.NonResourceURLs).To(BeEmpty())
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					name, subresource, _ := strings.Cut(resource, "/")
					permissions = append(permissions, permission(verb, group, name, subresource))
				}
			}
		}
	}
	Expect(permissions).NotTo(BeEmpty())
	Expect(permissions).NotTo(ContainElement(ContainSubstring("*")))
	slices.Sort(permissions)
	return permissions
}

// rules are those of the roles that manifests bind to a ServiceAccount.
func rules(m manifests, account string) (all []rbacv1.PolicyRule) {
	GinkgoHelper()
	rulesOf := map[string][]rbacv1.PolicyRule{}
	for _, role := range every[rbacv1.Role](m, "Role") {
		rulesOf["Role "+role.Name] = role.Rules
	}
	for _, role := range every[rbacv1.ClusterRole](m, "ClusterRole") {
		rulesOf["ClusterRole "+role.Name] = role.Rules
	}
	bind := func(role rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Name == account && s.Namespace == homeOf(account) }) {
			all = append(all, rulesOf[role.Kind+" "+role.Name]...)
		}
	}
	for _, binding := range every[rbacv1.RoleBinding](m, "RoleBinding") {
		bind(binding.RoleRef, binding.Subjects)
	}
	for _, binding := range every[rbacv1.ClusterRoleBinding](m, "ClusterRoleBinding") {
		bind(binding.RoleRef, binding.Subjects)
	}
	return all
}

// beyond returns those of the first that are none of the others.
func beyond(permissions []string, others ...[]string) []string {
	known := slices.Concat(others...)
	return slices.DeleteFunc(slices.Clone(permissions), func(p string) bool { return slices.Contains(known, p) })
}
