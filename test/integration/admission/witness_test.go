package admission_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
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

// What webhooks had to do with the addresses of a Service.
const (
	steeredByUs = "steered by us"
	leftByUs    = "left to the API server by us"
	unasked     = "we did not answer"
)

// Testimony returns, by the names of Services, who has chosen their addresses.
func (w witness) Testimony() map[string]string {
	GinkgoHelper()
	content, err := os.ReadFile(string(w))
	Expect(err).NotTo(HaveOccurred())
	said := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, chosen := testimony(line)
		said[name] = chosen
	}
	return said
}

// testimony reads an event of audit.k8s.io/v1.
func testimony(line string) (service, chosen string) {
	var event struct {
		ObjectRef struct {
			Name string `json:"name"`
		} `json:"objectRef"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		return "", "" // the last line may be half written
	}
	chosen = leftByUs
	for key, value := range event.Annotations {
		switch {
		case strings.HasPrefix(key, "mutation.webhook.admission.k8s.io/") && strings.Contains(value, `"mutated":true`):
			return event.ObjectRef.Name, steeredByUs // also if we were asked once more and did not answer
		case strings.HasPrefix(key, "failed-open.mutation.webhook.admission.k8s.io/"):
			chosen = unasked
		}
	}
	return event.ObjectRef.Name, chosen
}

// saidByAPIServers returns what API servers have logged about an address, but for allocations.
func saidByAPIServers(dir, address string) (said []string) {
	GinkgoHelper()
	logs, err := filepath.Glob(filepath.Join(dir, "kube-apiserver-*.log"))
	Expect(err).NotTo(HaveOccurred())
	Expect(logs).NotTo(BeEmpty())
	whole := regexp.MustCompile(`(^|[^0-9a-f.:])` + regexp.QuoteMeta(address) + `($|[^0-9a-f.])`)
	for _, log := range logs {
		content, err := os.ReadFile(log)
		Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(string(content)) {
			if whole.MatchString(line) && !strings.Contains(line, "allocated clusterIPs") {
				said = append(said, line)
			}
		}
	}
	return said
}

// The words of a real API server.
func TestTestimony(t *testing.T) {
	for want, annotations := range map[string]string{
		steeredByUs: `"mutation.webhook.admission.k8s.io/round_0_index_0":` +
			`"{\"configuration\":\"clusterip-operator\",\"webhook\":\"service.clusterip-operator.io\",\"mutated\":true}"`,
		leftByUs: `"mutation.webhook.admission.k8s.io/round_0_index_0":` +
			`"{\"configuration\":\"clusterip-operator\",\"webhook\":\"service.clusterip-operator.io\",\"mutated\":false}"`,
		unasked: `"failed-open.mutation.webhook.admission.k8s.io/round_0_index_0":"service.clusterip-operator.io",` +
			`"mutation.webhook.admission.k8s.io/round_0_index_0":` +
			`"{\"configuration\":\"clusterip-operator\",\"webhook\":\"service.clusterip-operator.io\",\"mutated\":false}"`,
	} {
		name, chosen := testimony(`{"objectRef":{"resource":"services","name":"web"},"annotations":{` + annotations + `}}`)
		if chosen != want || name != "web" {
			t.Errorf("%s: got %q, %q, want %q", annotations, name, chosen, want)
		}
	}
}
