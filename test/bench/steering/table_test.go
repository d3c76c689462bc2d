package steering

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// outcome is a turn whose calls took these milliseconds, in a second.
func outcome(latencies ...float64) load.Outcome {
	return load.Outcome{Calls: len(latencies), Elapsed: time.Second, Latencies: latencies}
}

// creationOf has two rounds: webhooks cost 1 ms in one, and 3 ms and half the rate in the other.
func creationOf() Creation {
	return Creation{Services: 5000, Policies: 100, Families: 2, Clients: 16, comparison: comparison{
		Without: turns{load.Outcomes{outcome(5, 5), outcome(6, 6)}, usage{API: 40 * time.Millisecond}},
		With:    turns{load.Outcomes{outcome(6, 6), outcome(9)}, usage{API: 40 * time.Millisecond, Asked: 3}},
	}}
}

func TestRoundsAreComparedOneByOne(t *testing.T) {
	c := creationOf()
	if diff := cmp.Diff(stats.Sample{1, 3}, c.added()); diff != "" {
		t.Error("added", diff)
	}
	if diff := cmp.Diff(stats.Sample{1, 0.5}, c.share()); diff != "" {
		t.Error("share", diff)
	}
}

func TestProcessorTimeIsSharedByAllCalls(t *testing.T) {
	c := creationOf()
	if with, without := c.With.perCall(c.With.API), c.Without.perCall(c.Without.API); with != 40.0/3 || without != 10 {
		t.Errorf("%v ms with, %v without; want 13.3 and 10", with, without)
	}
	if got := c.With.asked(); got != 1 {
		t.Errorf("%v calls of the webhook for each, want 1", got)
	}
}

func TestCreationsSayWhatTargetsTheyReach(t *testing.T) {
	r := Result{Creations: []Creation{creationOf()}}
	table := r.creations()
	want := []string{"5,000", "100", "2", "16", "5.50", "6.00", "2.00 (1.00 to 3.00)", "–", "6.00", "9.00", "2.00 ±0%", "1.50 ±33%", "0.75 (0.50 to 1.00)"}
	if diff := cmp.Diff([][]string{want}, table.Rows); diff != "" {
		t.Error(diff)
	}
	missed := "Target missed: less than 2 ms more at p50, and at least 90 % of the rate, with " +
		"5,000 Services, 100 policies, families: 2, clients: 16 (2.00 ms, 75 %)."
	if diff := cmp.Diff([]string{missed}, r.Notes()); diff != "" {
		t.Error(diff)
	}
}

func TestReplicasHaveARowEach(t *testing.T) {
	r := Result{Replicas: []Replicated{{
		Replicas: 2,
		Wide:     drawn{turns: turns{Outcomes: load.Outcomes{outcome(5, 5)}}, HandedOn: 1},
		Narrow:   drawn{turns: turns{Outcomes: load.Outcomes{outcome(6, 6, 6, 6)}}, HandedOn: 2, Collisions: 3},
	}}}
	table := r.replicas()
	want := []string{"2", "2.00", "5.00 / 5.00", "2", "1", "0", "4.00", "6.00 / 6.00", "4", "2", "3"}
	if diff := cmp.Diff([][]string{want}, table.Rows); diff != "" {
		t.Error(diff)
	}
	if len(want) != len(table.Header) {
		t.Errorf("%d cells under %d headers", len(want), len(table.Header))
	}
}

func TestChosenAddressesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range 1000 {
		address := chosenAddress(i)
		if seen[address] {
			t.Fatalf("%s is chosen twice", address)
		}
		seen[address] = true
	}
}
