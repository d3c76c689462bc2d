package manifests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// AuditLog is the path of a log in which an API server notes what ServiceAccounts ask for.
type AuditLog string

// NewAuditLog makes a log of ServiceAccounts, "namespace:name", that lasts as long as the calling
// node, and returns the flags that make an API server write it.
func NewAuditLog(accounts ...string) (log AuditLog, flags []string) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	users := "system:serviceaccount:" + strings.Join(accounts, ", system:serviceaccount:")
	// Who asked for what, not with which content, and each request once.
	Expect(os.WriteFile(policy, []byte(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, users: [`+users+`]}
- {level: None}
`), 0o600)).To(Succeed())
	log = AuditLog(filepath.Join(dir, "audit.log"))
	return log, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + string(log), "--audit-log-mode=blocking"}
}

// Used lists once the permissions that an account's program has used, without discovery. program
// begins the name by which it calls itself, empty for any.
func (l AuditLog) Used(account, program string) []string { return l.requests(account, program, false) }

// Refused lists what an account was not allowed to do.
func (l AuditLog) Refused(account string) []string { return l.requests(account, "", true) }

func (l AuditLog) requests(account, program string, refused bool) (all []string) {
	GinkgoHelper()
	content, err := os.ReadFile(string(l))
	Expect(err).NotTo(HaveOccurred())
	asked := false
	for line := range strings.Lines(string(content)) {
		var event struct {
			Verb           string
			UserAgent      string
			User           struct{ Username string }
			ObjectRef      *struct{ APIGroup, Resource, Subresource string }
			ResponseStatus struct{ Code int }
		}
		Expect(json.Unmarshal([]byte(line), &event)).To(Succeed(), line)
		if event.ObjectRef == nil || !strings.HasSuffix(event.User.Username, ":"+account) || !strings.HasPrefix(event.UserAgent, program) {
			continue
		}
		asked = true
		if !refused || event.ResponseStatus.Code == 403 {
			all = append(all, permission(event.Verb, event.ObjectRef.APIGroup, event.ObjectRef.Resource, event.ObjectRef.Subresource))
		}
	}
	Expect(asked).To(BeTrue(), "%s has asked for nothing", account)
	slices.Sort(all)
	return slices.Compact(all)
}

// Beyond returns those of the first permissions that are not among others.
func Beyond(permissions []string, others ...[]string) []string {
	known := slices.Concat(others...)
	return slices.DeleteFunc(slices.Clone(permissions), func(p string) bool { return slices.Contains(known, p) })
}
