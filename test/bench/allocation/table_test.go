package allocation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

func turns(rates ...int) (all load.Outcomes) {
	for _, r := range rates {
		all = append(all, load.Outcome{Calls: r, Elapsed: time.Second, Latencies: stats.Sample{1, 1, 2}})
	}
	return all
}

// busy is a result from a machine that was twice as busy at the second level as at the first one.
func busy() Result {
	return Result{Levels: []Level{
		{Existing: 0, Ours: turns(900, 1000, 1100), Upstream: turns(300, 250, 275), Services: turns(100, 100, 100), Bare: turns(900, 1000, 1100)},
		{Existing: 10_000, Ours: turns(450, 500, 550), Upstream: turns(25, 50, 55), Services: turns(10, 10, 10), Bare: turns(500, 500, 500)},
	}}
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	want := [][]string{
		{"0", "1,000 ±10%", "1,000 ±10%", "275 ±9%", "100 ±0%", "1.00 (1.00 to 1.00)", "4.00 (3.00 to 4.00)", "10.0 (9.00 to 11.0)"},
		{"10,000", "500 ±0%", "500 ±10%", "50.0 ±50%", "10.0 ±0%", "1.00 (0.90 to 1.10)", "10.0 (10.0 to 18.0)", "50.0 (45.0 to 55.0)"},
	}
	if diff := cmp.Diff(want, busy().Tables()[0].Rows); diff != "" {
		t.Error(diff)
	}
}

func TestNotesForgiveABusyMachineOnly(t *testing.T) {
	result := busy()
	want := []string{
		"Target reached: ours flat within 20 % over all levels, by the pace of the API server in the same rounds (0 %; 50 % by the clock).",
		"Target reached: 10 times upstream's allocator at 10,000 Services (10.0).",
	}
	if diff := cmp.Diff(want, result.Notes()); diff != "" {
		t.Error(diff)
	}
	result.Levels[1].Ours = turns(250, 250, 250)
	want = []string{
		"Target missed: ours flat within 20 % over all levels, by the pace of the API server in the same rounds (50 %; 75 % by the clock).",
		"Target missed: 10 times upstream's allocator at 10,000 Services (5.00).",
	}
	if diff := cmp.Diff(want, result.Notes()); diff != "" {
		t.Error(diff)
	}
}
