package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Reader is a user with the roles for looking alone. The API server logs what it answers.
type Reader struct {
	// Kubeconfig is a file.
	Kubeconfig string
	log        string
	settled    int // answers from before RBAC knew the reader
}

// readerAudit is the policy of the audit log.
const readerAudit = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata", "users": ["reader"]}, {"level": "None"}]}`

// NewReader returns a reader, and the flags that its API server has to be started with.
func NewReader() (r *Reader, args []string) {
	GinkgoHelper()
	policy := filepath.Join(GinkgoT().TempDir(), "audit.yaml")
	Expect(os.WriteFile(policy, []byte(readerAudit), 0o600)).To(Succeed())
	r = &Reader{log: filepath.Join(filepath.Dir(policy), "audit.log")}
	return r, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + r.log}
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

// auditEvent is a line of the API server's audit log.
type auditEvent struct {
	Verb, RequestURI string
	ResponseStatus   struct{ Code int }
}

func (r *Reader) answers() (all []auditEvent) {
	GinkgoHelper()
	f, err := os.Open(r.log)
	Expect(err).NotTo(HaveOccurred())
	defer f.Close() //nolint:errcheck // the file is only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditEvent
		Expect(json.Unmarshal(lines.Bytes(), &e)).To(Succeed())
		all = append(all, e)
	}
	Expect(lines.Err()).NotTo(HaveOccurred())
	return all
}
