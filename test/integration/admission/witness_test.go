package admission_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// witness is the path of a log in which an API server notes what webhooks had to do with each Service that was created.
type witness string

// newWitness makes a witness of the calling node, and returns the flags that make an API server write the log.
func newWitness() (w witness, flags []string) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	Expect(os.WriteFile(policy, []byte(`
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create]
  resources: [{group: "", resources: [services]}]
- level: None
`), 0o600)).To(Succeed())
	w = witness(filepath.Join(dir, "audit.log"))
	return w, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + string(w), "--audit-log-mode=blocking"}
}

// Unasked returns the names of the Services about which a webhook was asked in vain: nobody but the API server has chosen their addresses.
func (w witness) Unasked() map[string]bool {
	GinkgoHelper()
	content, err := os.ReadFile(string(w))
	Expect(err).NotTo(HaveOccurred())
	unasked := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		if name, open := failedOpen(line); open {
			unasked[name] = true
		}
	}
	return unasked
}

// failedOpen reads an event of audit.k8s.io/v1.
func failedOpen(line string) (service string, open bool) {
	var event struct {
		ObjectRef struct {
			Name string `json:"name"`
		} `json:"objectRef"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		return "", false // the last line may be half written
	}
	for key := range event.Annotations {
		if strings.HasPrefix(key, "failed-open.mutating.webhook.admission.k8s.io/") {
			return event.ObjectRef.Name, true
		}
	}
	return event.ObjectRef.Name, false
}

// The words of a real API server.
func TestFailedOpen(t *testing.T) {
	for want, line := range map[bool]string{
		false: `{"objectRef":{"resource":"services","name":"web"},"annotations":{"mutation.webhook.admission.k8s.io/round_0_index_0":` +
			`"{\"configuration\":\"clusterip-operator\",\"webhook\":\"service.clusterip-operator.io\",\"mutated\":true}"}}`,
		true: `{"objectRef":{"resource":"services","name":"web"},"annotations":{` +
			`"failed-open.mutating.webhook.admission.k8s.io/round_0_index_0":"service.clusterip-operator.io"}}`,
	} {
		if name, open := failedOpen(line); open != want || name != "web" {
			t.Errorf("%s: got %q, %v, want %v", line, name, open, want)
		}
	}
}
