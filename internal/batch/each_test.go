package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counting is told of progress.
type counting struct {
	total, ended int
	done         atomic.Int64
}

func (c *counting) Begin(_ string, total int) { c.total += total }
func (c *counting) Done(n int)                { c.done.Add(int64(n)) }
func (c *counting) End()                      { c.ended++ }

func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// An item that another writer was faster with does not count as done, and is no failure.
func TestEach(t *testing.T) {
	var mu sync.Mutex
	var seen []int
	p := &counting{}
	done, err := Each(t.Context(), Pace{Workers: 3, Progress: p}, "counting", numbers(20), func(_ context.Context, i int) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, i)
		if i%4 == 0 {
			return fmt.Errorf("%d: %w", i, ErrMoved)
		}
		return nil
	})
	slices.Sort(seen)
	if err != nil || done != 15 || !slices.Equal(seen, numbers(20)) {
		t.Errorf("%d done of %v: %v", done, seen, err)
	}
	if p.total != 20 || p.done.Load() != 20 || p.ended != 1 {
		t.Errorf("progress: %d of %d, ended %d times", p.done.Load(), p.total, p.ended)
	}
	if done, err := Each(t.Context(), Pace{}, "", nil, func(context.Context, int) error { return errors.New("of nothing") }); done != 0 || err != nil {
		t.Errorf("without items: %d, %v", done, err)
	}
}

func TestEachKeepsThePace(t *testing.T) {
	for name, tc := range map[string]struct {
		pace Pace
		want time.Duration // for 12 items of a second each
	}{
		"one at a time":   {Pace{}, 12 * time.Second},
		"four at a time":  {Pace{Workers: 4}, 3 * time.Second},
		"half one second": {Pace{Workers: 4, Limit: 0.5}, 17 * time.Second}, // four at once, then one every two seconds
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				tc.pace.Progress = &counting{}
				done, err := Each(t.Context(), tc.pace, "", numbers(12), func(ctx context.Context, _ int) error { return Sleep(ctx, time.Second) })
				if spent := time.Since(begin); done != 12 || err != nil || spent != tc.want {
					t.Errorf("%d in %v: %v", done, spent, err)
				}
			})
		})
	}
}

// An item that fails is the last that is begun, and those beside it come to their end.
func TestEachStops(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		fail, end  int // at which item
		want       error
		wantFailed int64
	}{
		"an item fails": {fail: 5, end: -1, want: broken, wantFailed: 1},
		"it is ended":   {fail: -1, end: 5, want: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				begun := atomic.Int64{}
				done, err := Each(ctx, Pace{Workers: 4, Progress: &counting{}}, "", numbers(100), func(_ context.Context, i int) error {
					begun.Add(1)
					switch i {
					case tc.fail:
						return broken
					case tc.end:
						end()
					}
					time.Sleep(time.Second)
					return nil
				})
				if n := begun.Load(); !errors.Is(err, tc.want) || n > 8 || int64(done) != n-tc.wantFailed {
					t.Errorf("%d begun, %d done: %v", n, done, err)
				}
			})
		})
	}
}
