package metricsdoc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func registry(withSeries bool) Registry {
	r := prometheus.NewRegistry()
	promauto.With(r).NewGauge(prometheus.GaugeOpts{Name: "other_size", Help: "Of others."})
	counter := promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: "our_total", Help: `What is "done" | left.`}, []string{"result", "by"})
	if withSeries {
		counter.WithLabelValues("done", "us")
	}
	return r
}

func TestCheck(t *testing.T) {
	const want = "# Metrics\n\n<!-- begin our_ -->\n| name | type | labels | meaning |\n| --- | --- | --- | --- |\n" +
		"| `our_total` | counter | result, by | What is \"done\" \\| left |\n<!-- end our_ -->\nMore.\n"
	file := filepath.Join(t.TempDir(), "metrics.md")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(r Registry, with string) {
		t.Helper()
		if err := Check(file, "our_", r); err == nil || !strings.Contains(err.Error(), with) {
			t.Errorf("%v, want %q", err, with)
		}
	}
	write("# Metrics\n")
	fails(registry(true), "has no lines")
	write("# Metrics\n\n<!-- begin our_ -->\n<!-- end our_ -->\nMore.\n")
	fails(registry(true), "run make generate")
	fails(registry(false), "our_total has no series")

	*update = true
	err := Check(file, "our_", registry(true))
	*update = false
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%v; it has become\n%s", err, got)
	}
	if err := Check(file, "our_", registry(true)); err != nil {
		t.Error(err)
	}
}
