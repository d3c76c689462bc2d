package framework

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const scrape = `# TYPE ips gauge
ips{cidr="10.96.0.0/16",band="static"} 3
ips{cidr="10.96.0.0/16",band="dynamic"} 40
ips{cidr="10.97.0.0/16",band="dynamic"} 500
# TYPE took histogram
took_bucket{le="1"} 1
took_bucket{le="+Inf"} 2
took_sum 7.5
took_count 2
`

func TestMetricsValue(t *testing.T) {
	metrics, err := ParseMetrics(scrape)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		metric string
		labels []string
		want   float64
		absent bool
	}{
		"one sample":               {metric: "ips", labels: []string{"band", "static", "cidr", "10.96.0.0/16"}, want: 3},
		"the sum of some":          {metric: "ips", labels: []string{"cidr", "10.96.0.0/16"}, want: 43},
		"the sum of all":           {metric: "ips", want: 543},
		"the sum of a histogram":   {metric: "took_sum", want: 7.5},
		"the count of a histogram": {metric: "took_count", want: 2},
		"a bucket of a histogram":  {metric: "took_bucket", labels: []string{"le", "1"}, want: 1},
		"a value that nobody has":  {metric: "ips", labels: []string{"band", "rubber"}, absent: true},
		"a label that nobody has":  {metric: "ips", labels: []string{"colour", "red"}, absent: true},
		"a metric that is missing": {metric: "cidrs", absent: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := metrics.Value(tc.metric, tc.labels...)
			if got != tc.want || found == tc.absent {
				t.Errorf("got %v, %t, want %v, %t", got, found, tc.want, !tc.absent)
			}
		})
	}
}

func TestMetricsText(t *testing.T) {
	metrics, err := ParseMetrics(scrape)
	if err != nil {
		t.Fatal(err)
	}
	want := `ips{band="dynamic", cidr="10.96.0.0/16"} 40
ips{band="dynamic", cidr="10.97.0.0/16"} 500
ips{band="static", cidr="10.96.0.0/16"} 3`
	if diff := cmp.Diff(want, metrics.Text("ip")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseMetricsRefusesNonsense(t *testing.T) {
	_, err := ParseMetrics("<html>")
	wantErrorWith(t, err, "parsing metrics")
}

func TestAskIsContentWithOKAlone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ready" {
			http.Error(w, "caches are not synced", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if err := askOK(t.Context(), plainClient(), server.URL+"/ready"); err != nil {
		t.Error(err)
	}
	err := askOK(t.Context(), plainClient(), server.URL+"/late")
	wantErrorWith(t, err, server.URL, "503", "caches are not synced")
}
