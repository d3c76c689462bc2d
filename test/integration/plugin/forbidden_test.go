package plugin_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// auditPolicy has the API server write down each answer to the reader.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata", "users": ["reader"]}, {"level": "None"}]}`

// auditEvent is a line of the API server's audit log.
type auditEvent struct {
	Verb, RequestURI string
	ResponseStatus   struct{ Code int }
}

// answered are the lines of the audit log after the first n.
func answered(n int) (all []auditEvent) {
	GinkgoHelper()
	f, err := os.Open(auditLog)
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
	return all[n:]
}

var _ = It("asks nothing that a user who may only look is not allowed", func(ctx SpecContext) {
	before := len(answered(0))
	for _, command := range []string{
		"ranges -o wide", "addresses", "addresses show 10.96.0.1", "map kubernetes", "why service/default/kubernetes", "why namespace/default", "why range/kubernetes", "why 10.96.0.1",
		"check", "status", "status -o wide", "migrate check",
	} {
		n := len(answered(0))
		result := run(ctx, strings.Fields(command)...)
		Expect(result.ExitCode).To(BeNumerically("<", 2), command+": "+result.String())
		Expect(answered(n)).NotTo(BeEmpty(), command)
	}
	Expect(refused(before)).To(BeEmpty())
})

// Nor does any other spec have the reader ask such a thing.
var _ = AfterSuite(func() { Expect(refused(settled)).To(BeEmpty()) })

// refused are the requests after the first n that the reader was not allowed.
func refused(n int) (all []string) {
	GinkgoHelper()
	for _, e := range answered(n) {
		if e.ResponseStatus.Code == 401 || e.ResponseStatus.Code == 403 {
			all = append(all, fmt.Sprint(e.ResponseStatus.Code, " ", e.Verb, " ", e.RequestURI))
		}
	}
	return all
}
