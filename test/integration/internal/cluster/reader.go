package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/audit"
)

// Reader is a user of whom the API server logs what it answers: by NewReader one with the roles for
// looking alone.
type Reader struct {
	// Kubeconfig is a file.
	Kubeconfig string
	user       string
	log        audit.Log
	settled    int // answers from before RBAC knew the reader
}

// NewReader returns a reader, and the flags that its API server has to be started with. others are
// users whose answers are logged, too.
func NewReader(others ...string) (r *Reader, args []string) {
	GinkgoHelper()
	r = &Reader{user: "reader"}
	r.log, args = audit.New("{level: Metadata, users: [" + strings.Join(append(others, r.user), ", ") + "]}")
	return r, args
}

// Other returns one of the other users. What it was answered before does not count.
func (r *Reader) Other(user, kubeconfig string) *Reader {
	GinkgoHelper()
	other := &Reader{Kubeconfig: kubeconfig, user: user, log: r.log}
	other.settled = len(other.answers())
	return other
}

// Admit gives the reader its roles, and waits until the API server knows them.
func (r *Reader) Admit(ctx context.Context, c *Cluster) {
	GinkgoHelper()
	// kube-controller-manager would add the second role to view, which has the first one.
	for _, role := range []string{"system:aggregate-to-view", "clusterip-operator-view"} {
		c.Kubectl(ctx, "create", "clusterrolebinding", "reader-"+role[:6], "--clusterrole="+role, "--user=reader")
	}
	config, err := c.ConfigForUser("reader")
	Expect(err).NotTo(HaveOccurred())
	r.Kubeconfig = KubeconfigOf(config)
	for _, resource := range []string{"services", "servicecidrpolicies.clusterip-operator.io"} {
		Eventually(c.Kubectl).WithArguments(ctx, "auth", "can-i", "list", resource, "--as=reader").Should(HavePrefix("yes"))
	}
	r.settled = len(r.answers())
}

// Answers is how many there have been.
func (r *Reader) Answers() int { return len(r.answers()) - r.settled }

// Refused are the requests that the reader was not allowed.
func (r *Reader) Refused() (all []string) {
	GinkgoHelper()
	for _, a := range r.answers()[r.settled:] {
		if code := a.ResponseStatus.Code; code == http.StatusUnauthorized || code == http.StatusForbidden {
			all = append(all, fmt.Sprint(code, " ", a.Verb, " ", a.RequestURI))
		}
	}
	return all
}

// answer is a line of the API server's audit log.
type answer struct {
	Verb, RequestURI string
	User             struct{ Username string }
	ResponseStatus   struct{ Code int }
}

func (r *Reader) answers() []answer {
	GinkgoHelper()
	return slices.DeleteFunc(audit.Read[answer](r.log), func(a answer) bool { return a.User.Username != r.user })
}
