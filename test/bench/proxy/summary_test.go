package proxy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
)

func TestSummary(t *testing.T) {
	r := measured()
	for begin, want := range map[string]string{
		"Cold start, s":                      "0.50 | 1.50 (3.00x) | 2.00 | not within 200 (> 100x) | 2.00 | 20.0 (10.0x)",
		"One change of an EndpointSlice, ms": "100 | 400 (4.00x) | 50.0 |  | 5.00 | 2,000 (400x)",
		"Added to a new connection, p50, µs": "2.00 | 16.0 (8.00x) | 4.00 | - | 1.00 | 3.00 (3.00x)",
		"Memory (RSS), MiB":                  "50.0 | 100 (2.00x) | 50.0 | - | 50.0 | 100 (2.00x)",
	} {
		if diff := cmp.Diff([]string{want}, rows(r.Summary(), "10,000", begin)); diff != "" {
			t.Error(begin, diff)
		}
	}
}

func TestCharts(t *testing.T) {
	charts := measured().Charts()
	want := []report.Line{
		{Name: "ours, legacy", Points: [][2]float64{{1000, 1}, {10000, 0.5}, {30000, 1}}},
		{Name: "kube-proxy iptables, legacy", Dashed: true, Points: [][2]float64{{10000, 1.5}}},
		{Name: "ours, nft", Color: 1, Points: [][2]float64{{10000, 2}}}, // its peer never started
		{Name: "ours, nftables", Color: 2, Points: [][2]float64{{10000, 2}}},
		{Name: "kube-proxy nftables", Color: 2, Dashed: true, Points: [][2]float64{{10000, 20}}},
	}
	if diff := cmp.Diff(want, charts[0].Lines); diff != "" {
		t.Error(diff)
	}
	if text := strings.Join(measured().Pictures("benchmarks"), "\n"); !strings.Contains(text, "![Cold start, s](benchmarks/cold-start.svg)") {
		t.Error(text)
	}
}
