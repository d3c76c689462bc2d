// Package metricsdoc compares the tables of docs/reference/metrics.md with the metrics that
// programs serve. It is for tests: what the code says about a metric, its help included, is its
// documentation.
//
// It promises that no metric of a registry is missing from its table. Start with [Check].
package metricsdoc

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// update is set by hack/generate.sh.
var update = flag.Bool("update", false, "write the tables of docs/reference/metrics.md anew")

// Registry is what a [prometheus.Registry] can do: tell which metrics there are, and which series.
type Registry interface {
	prometheus.Collector
	prometheus.Gatherer
}

// Check lints those metrics of a registry whose names begin with the prefix by the rules of
// Prometheus for names, units and help, and compares them with the table in a file, between
// "<!-- begin PREFIX -->" and "<!-- end PREFIX -->". With the flag -update it writes the table
// instead. Each metric needs a series, which alone knows its type. Metrics in named have the names
// of another program and are not linted.
func Check(file, prefix string, registry Registry, named ...string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := "<!-- begin "+prefix+" -->\n", "<!-- end "+prefix+" -->\n"
	before, rest, begins := strings.Cut(string(content), begin)
	documented, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q", file, begin, end)
	}
	if err := lint(prefix, registry, named); err != nil {
		return err
	}
	served, err := table(prefix, registry)
	switch {
	case err != nil:
		return err
	case *update:
		return os.WriteFile(file, []byte(before+begin+served+end+after), 0o644)
	case documented != served:
		return fmt.Errorf("%s differs from the metrics with the prefix %s: run make generate; the code says\n%s", file, prefix, served)
	}
	return nil
}

// lint holds metrics against what Prometheus says of names, types, units and help.
func lint(prefix string, registry Registry, named []string) error {
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("gathering metrics: %w", err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, prefix) && !slices.Contains(named, p.Metric) {
			err = errors.Join(err, fmt.Errorf("%s: %s", p.Metric, p.Text))
		}
	}
	return err
}

// described reads the name and the labels of a metric, which a Desc tells in no other way.
var described = regexp.MustCompile(`^Desc\{fqName: "([^"]+)".*, variableLabels: \{(.*)\}\}$`)

func table(prefix string, registry Registry) (string, error) {
	labels, err := labelsOf(registry)
	if err != nil {
		return "", err
	}
	families, err := registry.Gather()
	if err != nil {
		return "", fmt.Errorf("gathering metrics: %w", err)
	}
	rows := []string{"| name | type | labels | meaning |\n| --- | --- | --- | --- |\n"}
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, prefix) {
			help := strings.TrimSuffix(strings.ReplaceAll(f.GetHelp(), "|", `\|`), ".")
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()), labels[name], help))
		}
		delete(labels, f.GetName())
	}
	for name := range labels {
		if strings.HasPrefix(name, prefix) {
			return "", fmt.Errorf("%s has no series, which would tell its type: the test has to make one", name)
		}
	}
	return strings.Join(rows, ""), nil
}

// labelsOf returns the labels of each metric by its name.
func labelsOf(registry Registry) (map[string]string, error) {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	labels := map[string]string{}
	var err error
	for d := range descriptions {
		found := described.FindStringSubmatch(d.String())
		if found == nil {
			err = fmt.Errorf("%s is written in another way than this program knows", d)
			continue
		}
		labels[found[1]] = strings.ReplaceAll(found[2], ",", ", ")
	}
	return labels, err
}
