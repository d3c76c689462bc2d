package proxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// translated is what the part proxy-socketlb has measured, no target missed.
func translated() ExtremeResult {
	e := Extremes[slices.IndexFunc(Extremes, func(e Extreme) bool { return e.Name == "proxy-socketlb" })]
	rates := func(n float64) Rates { return Rates{stats.Sample{n, n}, stats.Sample{n / 10, n / 10}} }
	of := func(service, other, rate float64, t Tracked) *Figures {
		return &Figures{
			Cold: time.Second, Syncs: stats.Sample{1, 0.5, 9}, InMaps: stats.Sample{0.4, 0.1, 0.2}, Service: flat(service), Other: flat(other), ToService: rates(rate), ToOther: rates(1000), Tracked: t,
		}
	}
	ours := of(12, 11.5, 990, Tracked{10_000, 10_000, 10_000, 0})
	ours.Translation = Translation{32 << 20, 300, 80}
	return ExtremeResult{Result{Options: e.full, Cases: []Case{{
		Shape: Shape{model.IPv4, 100_000, 3, false},
		Bare:  Bare{None: flat(11), Rates: rates(1000), Tracked: Tracked{Connections: 10_000}},
		Figures: map[string]*Figures{
			oursSocket: ours, oursNative: of(16, 11.5, 900, Tracked{10_000, 10_000, 10_000, 10_000}), theirsNFTable: {Absent: "left out"},
		},
	}}}, e}
}

func TestTablesOfWhatIsTranslatedAtConnect(t *testing.T) {
	const shape = "100,000 x 3"
	r := translated().Result
	want := map[string][]string{
		"new connections, µs": {
			shape + " | ours, nftables | 16.0 | 16.0 | 5.00 | 5.00 (45.5 %) | 11.5 | 11.5 | 4.50 | 4.50 (39.1 %)",
			shape + " | ours, nftables with socketLB | 12.0 | 12.0 | 1.00 | 1.00 (9.1 %) | 11.5 | 11.5 | 0.50 | 0.50 (4.3 %)",
			shape + " | no rule |  |  |  |  | 11.0 | 11.0",
		},
		"requests answered in a second": {
			shape + " | no rule, to an endpoint | 1,000 | 100.0 % | 100.0 % | 100 | 100.0 % | 100.0 %",
			shape + " | ours, nftables | 900 | 90.0 % | 90.0 % | 90.0 | 90.0 % | 90.0 %",
			shape + " | ours, nftables with socketLB | 990 | 99.0 % | 99.0 % | 99.0 | 99.0 % | 99.0 %",
		},
		"tracked connections": {
			shape + " | ours, nftables | 10,000 | 10,000 | 10,000 | 10,000",
			shape + " | ours, nftables with socketLB | 10,000 | 10,000 | 0 | 10,000",
			shape + " | no rule | 10,000 |  |  | 0",
		},
		"translated at connect()": {shape + " | ours, nftables with socketLB | 32.0 | 300 | 80.0"},
		"sync of one change, ms": {
			shape + " | ours, nftables | 1.00 | 9.00", shape + " | ours, nftables with socketLB | 1.00 | 9.00 | 0.20 | 0.40 | 20.0 %",
		},
	}
	got := map[string][]string{}
	for _, table := range []report.Table{r.direct(), r.rates(), r.tracked(), r.translation(), r.parts()} {
		for _, row := range table.Rows {
			got[table.Header[0]] = append(got[table.Header[0]], strings.Join(row, " | "))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNotesOfWhatIsTranslatedAtConnect(t *testing.T) {
	want := []string{
		"adds at most 1 µs to a new connection over no rule, p50 (1.00).",
		": p99 is at most 10 % above that of no rule (9.1 %).",
		": requests on one connection at least 98 % of those through no rule (99.0 %).",
		": requests each on a connection of its own at least 98 % of those through no rule (99.0 %).",
		"adds at most 1 µs to a new connection over an endpoint past the same rules, p50 (0.50).",
		": p99 is at most 10 % above that of an endpoint past the same rules (4.3 %).",
		": requests on one connection at least 98 % of those through an endpoint past the same rules (99.0 %).",
		": requests each on a connection of its own at least 98 % of those through an endpoint past the same rules (99.0 %).",
		": as many tracked connections as of direct ones, none of them translated (10,000 and 10,000).",
		": a sync of one change within 1 ms (1.00).",
	}
	about := func(r ExtremeResult, begin string) (all []string) {
		for _, note := range told(r, begin) {
			all = append(all, strings.TrimSpace(strings.TrimPrefix(note, "100,000 x 3: ours, nftables with socketLB")))
		}
		return all
	}
	if diff := cmp.Diff(want, about(translated(), "Target reached: ")); diff != "" {
		t.Error(diff)
	}
	for name, tc := range map[string]struct {
		spoil func(*Figures)
		want  []string
	}{
		"slower": {func(f *Figures) { f.Service = flat(12.2) }, []string{
			"adds at most 1 µs to a new connection over no rule, p50 (1.20).", ": p99 is at most 10 % above that of no rule (10.9 %).",
		}},
		"fewer answers": {func(f *Figures) { f.ToService.Each = stats.Sample{97, 97} }, []string{
			": requests each on a connection of its own at least 98 % of those through no rule (97.0 %).",
			": requests each on a connection of its own at least 98 % of those through an endpoint past the same rules (97.0 %).",
		}},
		"rules translate": {func(f *Figures) { f.Tracked.Translated = 1 }, []string{
			": as many tracked connections as of direct ones, none of them translated (10,000 and 10,000).",
		}},
		"slow changes": {func(f *Figures) { f.Syncs = stats.Sample{1.5} }, []string{": a sync of one change within 1 ms (1.50)."}},
	} {
		r := translated()
		tc.spoil(r.Cases[0].Figures[oursSocket])
		if diff := cmp.Diff(tc.want, about(r, "Target missed: ")); diff != "" {
			t.Error(name, diff)
		}
	}
}

func TestObjectsAreCountedOnce(t *testing.T) {
	const fronts = "pos:\t0\nflags:\t02000002\nmap_type:\t1\nmemlock:\t4096\nmap_id:\t7\nfrozen:\t0\n"
	const connect = "pos:\t0\nprog_type:\t18\nmemlock:\t8192\nprog_id:\t7\nrun_time_ns:\t900\nrun_cnt:\t3\n"
	var o objects
	seen := map[string]bool{}
	for _, text := range []string{fronts, connect, fronts, connect, strings.Replace(fronts, "map_id:\t7", "map_id:\t8", 1)} {
		if err := o.add(text, seen); err != nil {
			t.Fatal(err)
		}
	}
	if want := (objects{maps: 8192, runs: 3, nanoseconds: 900}); o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
	if err := o.add("prog_id:\t9\n", seen); err == nil || !strings.Contains(err.Error(), "BPF object") {
		t.Errorf("a program without times: %v", err)
	}
}
