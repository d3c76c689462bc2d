package framework

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the samples of one scrape. Histograms appear as their _count, _sum and _bucket samples.
type Metrics model.Vector

// ParseMetrics reads the text format of Prometheus.
func ParseMetrics(text string) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, slices.Collect(maps.Values(families))...)
	if err != nil {
		return nil, fmt.Errorf("reading the samples: %w", err)
	}
	return Metrics(samples), nil
}

// Value returns the sum of all samples of a metric that carry the given labels (name, value, name, value...), and
// whether there is one at all.
func (m Metrics) Value(name string, labels ...string) (value float64, found bool) {
	for _, sample := range m {
		if string(sample.Metric[model.MetricNameLabel]) == name && carries(sample.Metric, labels) {
			value, found = value+float64(sample.Value), true
		}
	}
	return value, found
}

func carries(metric model.Metric, labels []string) bool {
	for pair := range slices.Chunk(labels, 2) {
		if string(metric[model.LabelName(pair[0])]) != pair[1] {
			return false
		}
	}
	return true
}

// Text returns the samples whose metric begins with a prefix, one on a line and sorted: for the eye and for failures.
func (m Metrics) Text(prefix string) string {
	var lines []string
	for _, sample := range m {
		if strings.HasPrefix(string(sample.Metric[model.MetricNameLabel]), prefix) {
			lines = append(lines, fmt.Sprintf("%s %s", sample.Metric, sample.Value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
