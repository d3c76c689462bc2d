package upgrade

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

func flips(seconds ...float64) (f Flips) {
	for _, s := range seconds {
		f = append(f, Flip{Ready: time.Duration(s * float64(time.Second))})
	}
	return f
}

// told adds what an API server said and wrote.
func told(f Flips, events ...int) Flips {
	for i, n := range events {
		f[i].Events, f[i].Written = n, n+1
	}
	return f
}

func result() Result {
	usage := Usage{Took: 90 * time.Second, Peak: 200 << 20}
	return Result{
		Options: Options{Bound: 10 * time.Minute},
		Cases: []Case{
			{Shape: Shape{Services: 1_000}, Without: told(flips(3.5), 999), With: flips(1), Check: usage, Run: usage, Verify: usage},
			{Shape: Shape{Services: 10_000}, Without: told(flips(25, 26, 27), 9_999, 9_999, 9_998), With: flips(1.2, 1, 1), Check: usage, Run: usage, Verify: usage},
			{Shape: Shape{Services: 30_000}, Without: Flips{{Restarts: 9}}, With: flips(1.5, 1.5, 1.5), Check: usage, Run: usage, Verify: usage, Seed: &usage, Rollback: &usage},
			{Shape: Shape{Services: 10_000, Dual: true}, Without: told(flips(50), 19_999), With: flips(1), Check: usage, Run: usage, Verify: usage},
		},
		Rates: Rates{Shape: Shape{Services: 10_000}, Bare: stats.Sample{1000, 500, 1000}, Run: stats.Sample{700, 450, 700}, Writing: stats.Sample{900, 500, 950}},
	}
}

func TestTables(t *testing.T) {
	want := [][][]string{
		{
			{"1,000 Services", "3.50", "0", "999", "1,000", "1.00", "0", "0", "3.50"},
			{"10,000 Services", "26.0 ±4%", "0", "9,998 to 9,999", "9,999 to 10,000", "1.00 ±20%", "0", "0", "26.0"},
			{"30,000 Services", "not within 10 min", "9", "0", "0", "1.50 ±0%", "0", "0", "-"},
			{"10,000 Services of two families", "50.0", "0", "19,999", "20,000", "1.00", "0", "0", "50.0"},
		},
		{
			{"1,000 Services", "90.0 / 200", "90.0 / 200", "90.0 / 200", "-", "-"},
			{"10,000 Services", "90.0 / 200", "90.0 / 200", "90.0 / 200", "-", "-"},
			{"30,000 Services", "90.0 / 200", "90.0 / 200", "90.0 / 200", "90.0 / 200", "90.0 / 200"},
			{"10,000 Services of two families", "90.0 / 200", "90.0 / 200", "90.0 / 200", "-", "-"},
		},
		{{"10,000 Services", "1,000 ±50%", "700 ±36%", "900 ±44%", "0.70 (0.70 to 0.90)", "0.95 (0.90 to 1.00)"}},
	}
	for i, table := range result().Tables() {
		if diff := cmp.Diff(want[i], table.Rows); diff != "" {
			t.Error(diff)
		}
		for _, row := range table.Rows {
			if len(row) != len(table.Header) {
				t.Errorf("%d cells under a header of %d: %q", len(row), len(table.Header), row)
			}
		}
	}
}

func TestNotesTellWhatWasMissed(t *testing.T) {
	r := result()
	want := []string{
		"Target reached: ready at least 15 times sooner after a migration, with 10,000 Services (26.0).",
		"Target reached: no warning after a migration, at any size (0).",
		"Target reached: after a migration, 30,000 Services take less than 2 times as long as 1,000 Services (1.50).",
		"Target missed: `migrate run` as a whole reaches 80 % of the bare loop (70 %).",
		"Target reached: `migrate run` reaches 80 % of the bare loop while it writes (95 %).",
	}
	if diff := cmp.Diff(want, r.Notes()); diff != "" {
		t.Error(diff)
	}
	r.Cases[1].Without = flips(15, 14, 14)
	r.Cases[3].With = told(flips(1), 3)
	r.Cases[2].With = flips(2)
	want[0] = "Target missed: ready at least 15 times sooner after a migration, with 10,000 Services (14.0)."
	want[1] = "Target missed: no warning after a migration, at any size (3)."
	want[2] = "Target missed: after a migration, 30,000 Services take less than 2 times as long as 1,000 Services (2.00)."
	if diff := cmp.Diff(want, r.Notes()); diff != "" {
		t.Error(diff)
	}
}

func TestNotesAreSilentAboutWhatWasNotMeasured(t *testing.T) {
	r := Result{Cases: []Case{{Shape: Shape{Services: 300}, Without: flips(2), With: flips(1)}}}
	if diff := cmp.Diff([]string{"Target reached: no warning after a migration, at any size (0)."}, r.Notes()); diff != "" {
		t.Error(diff)
	}
	if n := len(r.Tables()); n != 2 {
		t.Errorf("%d tables, want those of the starts and of the commands", n)
	}
}

func TestWritingTime(t *testing.T) {
	for name, tc := range map[string]struct {
		said string
		want time.Duration // 0 for an error
	}{
		"the last line counts": {
			"writing: 4000 of 10000 after 10s, about 15s left\nwriting: 10000 of 10000 after 24.3s, about 0s left\n10000 steps done\n", 24300 * time.Millisecond,
		},
		"more than a minute":      {"writing: 65000 of 65000 after 1m2.5s, about 0s left\n", 62500 * time.Millisecond},
		"less than a second":      {"writing: 10 of 10 after 200ms, about 0s left\n", 200 * time.Millisecond},
		"it was ended on the way": {"writing: 4000 of 10000 after 10s, about 15s left\n", 0},
		"nothing was to do":       {"0 steps done\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := writingTime(tc.said)
			if (err != nil) != (tc.want == 0) || got != tc.want {
				t.Errorf("got %s, %v; want %s", got, err, tc.want)
			}
		})
	}
}

func TestEveryServiceButThatOfTheAPIServerHasTwoFamilies(t *testing.T) {
	for shape, want := range map[Shape]int{{Services: 3}: 3, {Services: 3, Dual: true}: 5} {
		if got := shape.addresses(); got != want {
			t.Errorf("%s: %d addresses, want %d", shape, got, want)
		}
	}
}
