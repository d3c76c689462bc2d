package agentdeployment_test

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

// auditLog is the path of a log in which an API server notes what the agent's account asks for.
type auditLog string

// auditPolicy notes who asked for what, not with which content, and each request once.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: ["system:serviceaccount:` + namespace + `:` + account + `"]
- level: None
`

// flags makes an API server write the log.
func (l auditLog) flags() []string {
	GinkgoHelper()
	policy := filepath.Join(filepath.Dir(string(l)), "policy.yaml")
	Expect(os.WriteFile(policy, []byte(auditPolicy), 0o600)).To(Succeed())
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + string(l), "--audit-log-mode=blocking"}
}

// requests lists "verb resource.group" of what a program of the account asked for, discovery apart, each once; those that were refused
// end in "refused".
func (l auditLog) requests(program string) (all []string) {
	GinkgoHelper()
	content, err := os.ReadFile(string(l))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(content)) {
		var event struct {
			Verb      string
			UserAgent string
			ObjectRef *struct{ APIGroup, Resource, Subresource string }
			Status    struct{ Code int } `json:"responseStatus"`
		}
		Expect(json.Unmarshal([]byte(line), &event)).To(Succeed(), line)
		if event.ObjectRef == nil || !strings.HasPrefix(event.UserAgent, program) {
			continue
		}
		request := permission(event.Verb, event.ObjectRef.APIGroup, event.ObjectRef.Resource, event.ObjectRef.Subresource)
		if event.Status.Code == 403 {
			request += " refused"
		}
		all = append(all, request)
	}
	slices.Sort(all)
	return slices.Compact(all)
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

// granted lists the permissions that manifests give. There is one role, and it is bound to the agent alone.
func granted(m manifests) (permissions []string) {
	GinkgoHelper()
	Expect(every[rbacv1.Role](m, "Role")).To(BeEmpty())
	roles, bindings := every[rbacv1.ClusterRole](m, "ClusterRole"), every[rbacv1.ClusterRoleBinding](m, "ClusterRoleBinding")
	Expect(roles).To(HaveLen(1))
	Expect(bindings).To(HaveLen(1))
	Expect(bindings[0].RoleRef.Name).To(Equal(roles[0].Name))
	Expect(bindings[0].Subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: account}))
	for _, rule := range roles[0].Rules {
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
	Expect(permissions).NotTo(ContainElement(ContainSubstring("*")))
	slices.Sort(permissions)
	return permissions
}
