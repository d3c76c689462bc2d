package operation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

func result() Result {
	m := Manager{
		Start:    Start{Ready: 100 * time.Millisecond, Known: time.Second, Checked: 2 * time.Second, CPU: time.Second, RSS: 100 << 20},
		Idle:     Idle{RSS: 90 << 20, CPU: 20 * time.Millisecond, Of: time.Minute},
		Restored: Restored{Total: 3 * time.Second, Deleting: time.Second, Seconds: stats.Sample{1, 1, 2}, Ours: 3},
		Peak:     130 << 20,
	}
	labelled := m
	labelled.Labels = Labels{Written: 9998, Took: 200 * time.Second, Manager: time.Second, API: 2 * time.Second, Etcd: time.Second}
	return Result{
		Options: Options{Quiet: time.Minute, Deleted: 3},
		Sizes: []Size{
			{Services: 10_000, Plain: m, Labelled: &labelled, Peer: Idle{RSS: 110 << 20}, Repaired: stats.Sample{75}},
			{Services: 50_000, Plain: m, Peer: Idle{RSS: 300 << 20}},
		},
	}
}

func TestTables(t *testing.T) {
	tables := result().Tables()
	if diff := cmp.Diff([]string{"the manager at", "10,000 Services", "10,000 Services with band labels", "50,000 Services"}, tables[0].Header); diff != "" {
		t.Error("a column for each life", diff)
	}
	if diff := cmp.Diff([]string{"resident memory at its peak, MiB", "130", "130", "130"}, tables[0].Rows[6]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{"10,000 Services", "9,998", "200", "1.00", "2.00", "1.00"}}, tables[1].Rows); diff != "" {
		t.Error("only what was labelled", diff)
	}
	want := [][]string{
		{"10,000 Services", "90.0", "110", "0.02", "0", "1.00 / 2.00 / 2.00", "75.0 / 75.0 / 75.0"},
		{"50,000 Services", "90.0", "300", "0.02", "0", "1.00 / 2.00 / 2.00", "-"},
	}
	if diff := cmp.Diff(want, tables[2].Rows); diff != "" {
		t.Error("peers", diff)
	}
}

func TestNotesTellWhatWasMissed(t *testing.T) {
	want := []string{
		"Target reached: less than 120 MiB resident at 10,000 Services, idle (90.0 MiB).",
		"Target missed: less than 120 MiB resident at 10,000 Services, at the peak (130 MiB).",
	}
	if diff := cmp.Diff(want, result().Notes()); diff != "" {
		t.Error(diff)
	}
}

func TestNotesTellHowFastAThousandAreRestored(t *testing.T) {
	for took, want := range map[time.Duration]string{
		2400 * time.Millisecond: "Target reached: 1,000 deleted IPAddresses are back within 2.50 s at 10,000 Services (2.40 s).",
		8100 * time.Millisecond: "Target missed: 1,000 deleted IPAddresses are back within 2.50 s at 10,000 Services (8.10 s).",
	} {
		r := result()
		r.Options.Deleted, r.Sizes[0].Plain.Restored.Total = 1000, took
		if notes := r.Notes(); notes[len(notes)-1] != want {
			t.Errorf("got %q, want %q", notes[len(notes)-1], want)
		}
	}
}
