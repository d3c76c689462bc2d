package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryCallIsMadeOnce(t *testing.T) {
	var seen [100]atomic.Int64
	outcome, err := Load{Workers: 4, Count: len(seen)}.Run(t.Context(), func(_ context.Context, i int) error {
		seen[i].Add(1)
		return nil
	})
	if err != nil || outcome.Calls != 100 || len(outcome.Latencies) != 100 {
		t.Errorf("%d calls, %d latencies, %v; want 100 of each", outcome.Calls, len(outcome.Latencies), err)
	}
	for i := range seen {
		if n := seen[i].Load(); n != 1 {
			t.Errorf("call %d was made %d times", i, n)
		}
	}
}

func TestTimeAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context, int) error { time.Sleep(time.Second); return nil }
		outcome, err := Load{Workers: 2, Count: 1000, Limit: 2500 * time.Millisecond}.Run(t.Context(), slow)
		// Calls start at 0, 1 and 2 s; what has started is finished.
		if err != nil || outcome.Calls != 6 || outcome.Elapsed != 3*time.Second || outcome.PerSecond() != 2 || outcome.Latencies.Median() != 1000 {
			t.Errorf("%d calls in %s, %v per second of %v ms, %v; want 6 in 3s", outcome.Calls, outcome.Elapsed, outcome.PerSecond(), outcome.Latencies, err)
		}
	})
}

func TestFirstErrorEndsTheLoad(t *testing.T) {
	calls, boom := 0, errors.New("boom")
	outcome, err := Load{Workers: 1, Count: 100}.Run(t.Context(), func(_ context.Context, i int) error {
		calls++
		if i == 3 {
			return boom
		}
		return nil
	})
	if !errors.Is(err, boom) || outcome.Calls != 3 || calls != 4 {
		t.Errorf("error %v after %d successes and %d calls; want boom after 3 and 4", err, outcome.Calls, calls)
	}
}
