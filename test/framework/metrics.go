package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are one scrape's samples. Histograms appear as _count, _sum and _bucket samples.
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

// Value returns the sum of a metric's samples with the given labels (name, value, name, value...),
// and whether there is one at all.
func (m Metrics) Value(name string, labels ...string) (value float64, found bool) {
	for _, sample := range m {
		if string(sample.Metric[model.MetricNameLabel]) == name && carries(sample.Metric, labels) {
			value, found = value+float64(sample.Value), true
		}
	}
	return value, found
}

// Buckets returns those of a histogram with the given labels, added up: bound -> how many within.
func (m Metrics) Buckets(name string, labels ...string) map[float64]float64 {
	buckets := map[float64]float64{}
	for _, sample := range m {
		bound, err := strconv.ParseFloat(string(sample.Metric[model.BucketLabel]), 64)
		if err == nil && string(sample.Metric[model.MetricNameLabel]) == name+"_bucket" && carries(sample.Metric, labels) {
			buckets[bound] += float64(sample.Value)
		}
	}
	return buckets
}

func carries(metric model.Metric, labels []string) bool {
	for pair := range slices.Chunk(labels, 2) {
		if string(metric[model.LabelName(pair[0])]) != pair[1] {
			return false
		}
	}
	return true
}

// Text returns the samples whose metric has a prefix, one on a line and sorted: for readers.
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

// askOK asks a URL and is satisfied with 200 alone. The error holds what the server said instead.
func askOK(ctx context.Context, client *http.Client, url string) error {
	_, err := ask(ctx, client, url, "")
	return err
}

// Scrape reads metrics at a URL with a bearer token. Any certificate is good: managers sign theirs.
func Scrape(ctx context.Context, url, token string) (Metrics, error) {
	client := plainClient()
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
	text, err := ask(ctx, client, url, token)
	if err != nil {
		return nil, fmt.Errorf("scraping %s: %w", url, err)
	}
	return ParseMetrics(text)
}

// ask returns the body of a URL that answers 200. token is sent if there is one.
func ask(ctx context.Context, client *http.Client, url, token string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}

// plainClient returns a client that leaves no connection and no goroutine behind.
func plainClient() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
}
