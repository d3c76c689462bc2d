// Package audit has API servers write down what they are asked. Start with [New].
package audit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Log is the path of the log of one API server.
type Log string

// New makes a log for the calling node, and returns the flags that make an API server write it.
// rules are those of an audit policy in YAML. What none of them is about is left out.
func New(rules string) (log Log, flags []string) {
	GinkgoHelper()
	return create("omitStages: [RequestReceived]", rules)
}

// NewWithBeginnings is New with an event for each request when it comes, too: what an API server
// that is killed has not answered is there.
func NewWithBeginnings(rules string) (log Log, flags []string) {
	GinkgoHelper()
	return create("", rules)
}

func create(omit, rules string) (log Log, flags []string) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	Expect(os.WriteFile(policy, []byte(`
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
`+omit+`
rules: [`+rules+`, {level: None}]
`), 0o600)).To(Succeed())
	log = Log(filepath.Join(dir, "audit.log"))
	return log, []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + string(log), "--audit-log-mode=blocking",
		"--audit-log-maxsize=100000", // MiB; at 100 an API server begins another file, after some minutes here, and what stands in the first is not read
	}
}

// Read reads what is logged so far, as far as it matters: an Event has some fields of an event of
// audit.k8s.io/v1. A request that lasts, such as a watch, is there when it begins, and at its end.
func Read[Event any](log Log) (all []Event) {
	GinkgoHelper()
	content, err := os.ReadFile(string(log))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(content)) {
		if strings.HasSuffix(line, "\n") { // else the API server is writing it
			var event Event
			Expect(json.Unmarshal([]byte(line), &event)).To(Succeed(), line)
			all = append(all, event)
		}
	}
	return all
}
