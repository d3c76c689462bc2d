package plugin_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// formats are those of each command that golden compares: the table, and what -o takes besides.
var formats = map[string][]string{
	"ranges": {"", "wide", "json"}, "addresses": {"", "wide", "json"}, "show": {""}, "map": {"", "json"}, "why-service": {"", "json"}, "why-range": {"", "json"},
	"check": {"", "json"}, "status": {"", "json"},
}

// varies is what differs between runs: times and ages, versions of objects, counts that the
// operator writes minutes late, growth, and this machine.
var varies = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`until \d{4}-\d\d-\d\d`), "until DATE"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`"resourceVersion": "\d+"`), `"resourceVersion": "N"`},
	{regexp.MustCompile(`(?m)^.*"(growthPerDay|fullInSeconds)": .*\n`), ""},
	{regexp.MustCompile(`("(?:allocated|free)": )\d{2,}`), "${1}N"},
	{regexp.MustCompile(`\d+ free`), "N free"},
	{regexp.MustCompile(`(?m)^(kubernetes +\S+ +\d+ +)\d+ +\(\d+%\) +\d+ +(\d+ +\d+ +\d+% +)\S+`), "${1}N (N%) N ${2}FULL-IN"},
	// The API server takes a Service for one to repair whose IPAddress it has not seen yet.
	{regexp.MustCompile(`(?m)^ +\S+ ago: ClusterIPNotAllocated: .*\n`), ""},
	{regexp.MustCompile(`\b(\d+[smhdy]){1,2}\b`), "AGE"},
	{regexp.MustCompile(`version \S+,`), "version V,"},
	{regexp.MustCompile(`"version": ".*"`), `"version": "V"`},
	{regexp.MustCompile(`,\n( *)\}`), "\n$1}"},
	{regexp.MustCompile(` {3,}`), "   "}, // columns are as wide as what is in them
}

// golden compares what a command prints, in each of its formats, with testdata/NAME.FORMAT.
func golden(run func(args ...string) string, name string, args []string) {
	GinkgoHelper()
	for _, format := range formats[filepath.Base(name)] {
		line := slices.Clone(args)
		if format != "" {
			line = append(line, "-o", format)
		}
		compare(name+map[string]string{"": ".txt", "wide": ".wide.txt", "json": ".json"}[format], run(line...), nil)
	}
}

// compare holds a text against a file of testdata. drawn maps addresses to the words for them.
// UPDATE_GOLDEN=1 writes the files anew.
func compare(file, got string, drawn map[string]string) {
	GinkgoHelper()
	host := suite.Must(os.Hostname())
	for address, word := range drawn {
		got = regexp.MustCompile(regexp.QuoteMeta(address)+`\b`).ReplaceAllLiteralString(got, word)
	}
	named := regexp.MustCompile(`(reaches |leader +true +|"(?:pod|replica|text)": ")` + regexp.QuoteMeta(strings.ToLower(host)) + `\b`)
	got = named.ReplaceAllString(got, "${1}HOST")
	for _, v := range varies {
		got = v.what.ReplaceAllString(got, v.with)
	}
	file = filepath.Join("testdata", file)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
		Expect(os.WriteFile(file, []byte(got), 0o600)).To(Succeed())
	}
	want := suite.Must(os.ReadFile(file))
	Expect(got).To(Equal(string(want)), file)
}

// runsManager writes what there would be of a manager in a pod: ours is a process of this machine.
func runsManager(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	c.Apply(ctx, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: manager, namespace: clusterip-operator-system,
		labels: {app.kubernetes.io/name: clusterip-operator, app.kubernetes.io/component: manager}},
		spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: manager, image: "manager:v1"}]}}}}`)
	c.Kubectl(ctx, "patch", "deployment", "manager", "-n", cluster.OperatorNamespace, "--subresource=status", "--type=merge", "-p", `{"status":{"observedGeneration":1,"replicas":1,"readyReplicas":1}}`)
}
