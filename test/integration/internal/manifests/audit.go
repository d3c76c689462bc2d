package manifests

import (
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/audit"
)

// AuditLog is a log in which an API server notes what ServiceAccounts ask for.
type AuditLog audit.Log

// NewAuditLog makes a log of ServiceAccounts, "namespace:name", with the flags of [audit.New]: who
// asked for what, not with which content.
func NewAuditLog(accounts ...string) (log AuditLog, flags []string) {
	GinkgoHelper()
	own, flags := audit.New("{level: Metadata, users: [system:serviceaccount:" + strings.Join(accounts, ", system:serviceaccount:") + "]}")
	return AuditLog(own), flags
}

// Used lists once the permissions that an account's program has used, without discovery. program
// begins the name by which it calls itself, empty for any.
func (l AuditLog) Used(account, program string) []string { return l.requests(account, program, false) }

// Refused lists what an account was not allowed to do.
func (l AuditLog) Refused(account string) []string { return l.requests(account, "", true) }

func (l AuditLog) requests(account, program string, refused bool) (all []string) {
	GinkgoHelper()
	type event struct {
		Verb           string
		UserAgent      string
		User           struct{ Username string }
		ObjectRef      *struct{ APIGroup, Resource, Subresource string }
		ResponseStatus struct{ Code int }
	}
	asked := false
	for _, e := range audit.Read[event](audit.Log(l)) {
		if e.ObjectRef == nil || !strings.HasSuffix(e.User.Username, ":"+account) || !strings.HasPrefix(e.UserAgent, program) {
			continue
		}
		asked = true
		if !refused || e.ResponseStatus.Code == 403 {
			all = append(all, permission(e.Verb, e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Subresource))
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
