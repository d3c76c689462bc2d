package framework

import "time"

// stall is from when on a machine counts as one that stood still.
const stall = 500 * time.Millisecond

// WatchStalls begins to look for times in which nothing runs here: shared machines stand still for
// seconds. It returns what ends that, and tells the longest of half a second and more, or zero.
func WatchStalls() (end func() time.Duration) {
	const pause = 10 * time.Millisecond
	done, told, last := make(chan struct{}), make(chan time.Duration), time.Now()
	go func() {
		var longest time.Duration
		for running := true; running; {
			select {
			case <-done: // after which a stall that has just ended still counts
				running = false
			case <-time.After(pause):
			}
			now := time.Now()
			if late := now.Sub(last) - pause; late >= stall {
				longest = max(longest, late)
			}
			last = now
		}
		told <- longest
	}()
	return func() time.Duration {
		close(done)
		return <-told
	}
}
