package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryCallIsMadeOnce(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]int{}
	outcome, err := Load{Workers: 4, Count: 100}.Run(t.Context(), func(_ context.Context, i int) error {
		mu.Lock()
		defer mu.Unlock()
		seen[i]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Calls != 100 || len(outcome.Latencies) != 100 || len(seen) != 100 {
		t.Errorf("%d calls, %d latencies, %d numbers; want 100 of each", outcome.Calls, len(outcome.Latencies), len(seen))
	}
	for i, n := range seen {
		if n != 1 {
			t.Errorf("call %d was made %d times", i, n)
		}
	}
}

func TestTimeAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context, int) error { time.Sleep(time.Second); return nil }
		outcome, err := Load{Workers: 2, Count: 1000, Limit: 2500 * time.Millisecond}.Run(t.Context(), slow)
		if err != nil {
			t.Fatal(err)
		}
		// Calls start at 0, 1 and 2 s; what has started is finished.
		if outcome.Calls != 6 || outcome.Elapsed != 3*time.Second || outcome.PerSecond() != 2 {
			t.Errorf("%d calls in %s, %v per second; want 6 in 3s, 2 per second", outcome.Calls, outcome.Elapsed, outcome.PerSecond())
		}
		if got := outcome.Latencies.Median(); got != 1000 {
			t.Errorf("a call took %v ms, want 1000", got)
		}
	})
}

func TestFirstErrorEndsTheLoad(t *testing.T) {
	var calls atomic.Int64
	boom := errors.New("boom")
	outcome, err := Load{Workers: 1, Count: 100}.Run(t.Context(), func(_ context.Context, i int) error {
		calls.Add(1)
		if i == 3 {
			return boom
		}
		return nil
	})
	if !errors.Is(err, boom) || outcome.Calls != 3 || calls.Load() != 4 {
		t.Errorf("error %v after %d successes and %d calls; want boom after 3 and 4", err, outcome.Calls, calls.Load())
	}
}
