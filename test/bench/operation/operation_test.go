package operation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func result() Result {
	m := Manager{
		Start:    Start{Ready: 100 * time.Millisecond, Known: time.Second, Checked: 2 * time.Second, CPU: time.Second, RSS: 100 << 20},
		Idle:     Idle{RSS: 90 << 20, CPU: 20 * time.Millisecond},
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
	r := result()
	r.Options.Deleted, r.Sizes[0].Plain.Restored.Total = 1000, 8100*time.Millisecond
	last := "Target missed: 1,000 deleted IPAddresses are back within 2.50 s at 10,000 Services (8.10 s)."
	if diff := cmp.Diff(append(want, last), r.Notes()); diff != "" {
		t.Error(diff)
	}
}

func TestWorked(t *testing.T) {
	const done = `controller_runtime_reconcile_total{controller="ipaddress",result="success"} 900
controller_runtime_reconcile_total{controller="ipaddress",result="requeue_after"} 100
controller_runtime_reconcile_total{controller="service",result="success"} 5
`
	for name, tc := range map[string]struct {
		text string
		n    int
		want bool
	}{
		"all results count":      {done, 1000, true},
		"too few":                {done, 1001, false},
		"one waits in the queue": {done + `workqueue_depth{controller="ipaddress",name="ipaddress",priority="0"} 1` + "\n", 1000, false},
		"one is being worked on": {done + `controller_runtime_active_workers{controller="ipaddress"} 1` + "\n", 1000, false},
		"another's queue":        {done + `workqueue_depth{controller="bandlabel",name="bandlabel",priority="0"} 1` + "\n", 1000, true},
	} {
		figures, err := framework.ParseMetrics(tc.text)
		if got := worked(figures, "ipaddress", tc.n); err != nil || got != tc.want {
			t.Errorf("%s: got %t, %v, want %t", name, got, err, tc.want)
		}
	}
}

func TestAbsenceEndsWithAReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &absence{deleted: map[string]time.Time{"10.96.0.1": time.Now()}}
		time.Sleep(2 * time.Second)

		var r Restored
		ours := framework.NewIPAddress("10.96.0.1", "bench", "service-000001")
		ours.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: v1alpha1.ManagerIPAddress}}
		v.observe(watch.Event{Type: watch.Deleted, Object: ours}, &r)
		v.observe(watch.Event{Type: watch.Added, Object: ours}, &r)
		v.observe(watch.Event{Type: watch.Modified, Object: ours}, &r)
		v.observe(watch.Event{Type: watch.Added, Object: framework.NewIPAddress("10.96.0.2", "bench", "service-000002")}, &r)

		if len(r.Seconds) != 2 || r.Seconds[0] != 2 || r.Seconds[1] != 0 {
			t.Errorf("away for %v s, want 2 and, for the one that was back before its deletion was answered, 0", r.Seconds)
		}
		if r.Ours != 1 {
			t.Errorf("the operator restored %d, want 1", r.Ours)
		}
	})
}

func TestMemory(t *testing.T) {
	m := Memory{
		Shares: []Share{{"a", "because", 100}, {"b", "so", 50.4}},
		Crowds: []Crowd{
			{Services: 10_000, Manager: Resident{60 << 20, 70 << 20}, Peer: Resident{90 << 20, 91 << 20}, Heap: 20e6},
			{Services: 50_000, Manager: Resident{120 << 20, 130 << 20}, Peer: Resident{119 << 20, 180 << 20}, Heap: 60e6},
			{Services: 100_000, Dual: true, Manager: Resident{300 << 20, 310 << 20}, Peer: Resident{400 << 20, 410 << 20}, Heap: 150e6},
		},
	}
	tables := m.Tables()
	want := []string{"100,000 Services of two families", "300", "400", "310", "410", "143"}
	if diff := cmp.Diff(want, tables[0].Rows[2]); diff != "" {
		t.Error(diff)
	}
	if all := tables[1].Rows; len(all) != 4 || all[0][1] != "100" || all[2][1] != "849" || all[3][1] != "1,000" {
		t.Errorf("shares are %v", all)
	}
	notes := []string{
		"Target missed: no more than kube-controller-manager at 50,000 Services (120 and 119 MiB).",
		"Target reached: at most 300 MiB at 100,000 Services of two families (300 MiB).",
	}
	if diff := cmp.Diff(notes, m.Notes()); diff != "" {
		t.Error(diff)
	}
}
