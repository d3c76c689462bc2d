// Package audit has API servers write down what they are asked. Start with [New].
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

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
// What the API server is writing, or has not written to its end when it was killed, is left out.
func Read[Event any](log Log) (all []Event) {
	GinkgoHelper()
	file, err := os.Open(string(log))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all
		}
		Expect(err).NotTo(HaveOccurred())
		var event Event
		Expect(json.Unmarshal(whole(line), &event)).To(Succeed(), string(line))
		all = append(all, event)
	}
}

// whole is the event in a line that may begin with another one's first bytes, or with zeros.
func whole(line []byte) []byte {
	if !json.Valid(line) {
		line = line[max(0, bytes.LastIndex(line, []byte(`{"kind":"Event","apiVersion":"audit.k8s.io/`))):]
	}
	return line
}
