package prometheus_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// upstream is how kube-apiserver calls its series.
const upstream = "kube_apiserver_clusterip_allocator_"

// recording is what there is, and what a query answers, by its labels.
type recording struct {
	series  series
	minutes []int
	query   string
	want    map[string]float64
}

// replica is what a manager that leads, or stands by, says of a range of two families.
func replica(instance string, leads, allocated, total int) series {
	out := series{fmt.Sprintf(`leader_election_master_status{name="clusterip-operator",instance=%q}`, instance): fmt.Sprintf("%dx300", leads)}
	for _, cidr := range []string{"10.96.0.0/24", "fd00::/112"} {
		out[fmt.Sprintf(`clusterip_operator_allocated_ips{servicecidr="a",cidr=%q,instance=%q}`, cidr, instance)] = fmt.Sprintf("%dx300", allocated)
		out[fmt.Sprintf(`clusterip_operator_available_ips{servicecidr="a",cidr=%q,instance=%q}`, cidr, instance)] = fmt.Sprintf("%dx300", 254-allocated)
		out[fmt.Sprintf(`clusterip_operator_allocation_total{servicecidr="a",cidr=%q,band="static",instance=%q}`, cidr, instance)] = "1x300"
		out[fmt.Sprintf(`clusterip_operator_allocation_total{servicecidr="a",cidr=%q,band="dynamic",instance=%q}`, cidr, instance)] = fmt.Sprintf("%dx300", total)
	}
	return out
}

// apiserver is one that is scraped, and says of the IPv4 range what values are.
func apiserver(values string) series {
	out := series{`apiserver_current_inflight_requests{request_kind="mutating",instance="k"}`: "0x300"}
	for _, name := range []string{"allocated_ips", "available_ips", "allocation_total", "allocation_errors_total"} {
		labels := `cidr="10.96.0.0/24",instance="k"`
		if strings.HasSuffix(name, "_total") {
			labels += `,scope="dynamic"`
		}
		if values != "" {
			out[fmt.Sprintf("%s%s{%s}", upstream, name, labels)] = values
		}
	}
	return out
}

var replicas = and(replica("m-0", 1, 54, 20), replica("m-1", 0, 54, 5))

var recordings = map[string]recording{
	// A rule that took what it has recorded for the API server's would be silent every other minute.
	"no API server says anything, at any time": {
		series: and(replicas, apiserver("")), minutes: []int{10, 11, 12, 13},
		query: upstream + "available_ips",
		want: map[string]float64{
			`{__name__="` + upstream + `available_ips", cidr="10.96.0.0/24", recorded_by="clusterip-operator"}`: 200,
			`{__name__="` + upstream + `available_ips", cidr="fd00::/112", recorded_by="clusterip-operator"}`:   200,
		},
	},
	"an API server has allocated in one of the ranges": {
		series: and(replicas, apiserver("7x300")), minutes: []int{10, 11},
		query: upstream + "allocated_ips",
		want: map[string]float64{
			`{__name__="` + upstream + `allocated_ips", cidr="10.96.0.0/24", instance="k"}`:                   7,
			`{__name__="` + upstream + `allocated_ips", cidr="fd00::/112", recorded_by="clusterip-operator"}`: 54,
		},
	},
	"it is restarted, and allocates later": {
		series: and(replicas, apiserver("7x9 stale _x9 3x280")), minutes: []int{15},
		query: `sum by (cidr) (` + upstream + `allocated_ips)`,
		want:  map[string]float64{`{cidr="10.96.0.0/24"}`: 54, `{cidr="fd00::/112"}`: 54},
	},
	"it has allocated, and nothing counts twice": {
		series: and(replicas, apiserver("7x9 stale _x9 3x280")), minutes: []int{5, 25},
		query: `count by (cidr) ({__name__=~"` + upstream + `(allocated_ips|available_ips|allocation_total)",cidr="10.96.0.0/24"})`,
		want:  map[string]float64{`{cidr="10.96.0.0/24"}`: 3},
	},
	"allocations of the replica that leads": {
		series: and(replicas, apiserver("")), minutes: []int{10, 11},
		query: `sum by (cidr, scope) (` + upstream + `allocation_total)`,
		want: map[string]float64{
			`{cidr="10.96.0.0/24", scope="static"}`: 1, `{cidr="10.96.0.0/24", scope="dynamic"}`: 20,
			`{cidr="fd00::/112", scope="static"}`: 1, `{cidr="fd00::/112", scope="dynamic"}`: 20,
		},
	},
	"the only replica, without an election": {
		series: replica("m-0", 1, 54, 20).without("leader_election"), minutes: []int{10},
		query: `sum by (cidr) (` + upstream + `allocation_total)`,
		want:  map[string]float64{`{cidr="10.96.0.0/24"}`: 21, `{cidr="fd00::/112"}`: 21},
	},
	"an API server that has counted no error": {
		series: and(replicas, apiserver("")), minutes: []int{10, 11},
		query: upstream + `allocation_errors_total{cidr="10.96.0.0/24"}`,
		want: map[string]float64{
			`{__name__="` + upstream + `allocation_errors_total", cidr="10.96.0.0/24", scope="static", recorded_by="clusterip-operator"}`:  0,
			`{__name__="` + upstream + `allocation_errors_total", cidr="10.96.0.0/24", scope="dynamic", recorded_by="clusterip-operator"}`: 0,
		},
	},
	"errors of API servers that are not scraped are not known": {
		series: replicas, minutes: []int{10}, query: upstream + `allocation_errors_total`,
	},
	"one CIDR of two ServiceCIDRs counts once": {
		series:  and(replicas, series{`clusterip_operator_allocated_ips{servicecidr="b",cidr="10.96.0.0/24",instance="m-0"}`: "54x300"}),
		minutes: []int{10}, query: `sum by (cidr) (` + upstream + `allocated_ips{cidr="10.96.0.0/24"})`,
		want: map[string]float64{`{cidr="10.96.0.0/24"}`: 54},
	},
	"an API server of another cluster": {
		series: and(replicas.of("east"), apiserver("7x300").of("west")), minutes: []int{10},
		query: `sum by (cluster) (` + upstream + `allocated_ips{cidr="10.96.0.0/24"})`,
		want:  map[string]float64{`{cluster="east"}`: 54, `{cluster="west"}`: 7},
	},
}

// without leaves out series whose names begin so.
func (s series) without(prefix string) series {
	out := maps.Clone(s)
	maps.DeleteFunc(out, func(name, _ string) bool { return strings.HasPrefix(name, prefix) })
	return out
}

// TestRecordings has promtool record kube-apiserver's series, where it has them and where not.
func TestRecordings(t *testing.T) {
	tests := []any{}
	for _, name := range slices.Sorted(maps.Keys(recordings)) {
		r := recordings[name]
		samples, queries := []any{}, []any{}
		for labels, value := range r.want {
			samples = append(samples, map[string]any{"labels": labels, "value": value})
		}
		for _, minute := range r.minutes {
			queries = append(queries, map[string]any{"expr": r.query, "eval_time": fmt.Sprint(minute, "m"), "exp_samples": samples})
		}
		tests = append(tests, map[string]any{"name": name, "interval": "1m", "input_series": r.series.input(), "promql_expr_test": queries})
	}
	promtool(t, "test", "rules", testsFile(t, tests))
}

// TestRecorded wants what is recorded to be told apart from what kube-apiserver says.
func TestRecorded(t *testing.T) {
	_, rules := all(t)
	n := 0
	for _, r := range rules {
		if r.Record == "" {
			continue
		}
		n++
		if !strings.HasPrefix(r.Record, upstream) || r.Labels["recorded_by"] != "clusterip-operator" || !strings.Contains(r.Expr, r.Record+`{recorded_by=""}`) {
			t.Errorf("%s is not marked, or does not leave to the API server what that has", r.Record)
		}
	}
	if n != 4 {
		t.Errorf("%d series are recorded, want 4", n)
	}
}
