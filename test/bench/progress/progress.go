// Package progress tells a benchmark's user what it is doing, and since when. Start with New.
package progress

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Log writes lines with the time since its start. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

// New returns a Log whose clock starts now.
func New(out io.Writer) *Log { return &Log{out: out, start: time.Now()} }

// Step writes one line. An error is ignored: nothing reads the log when it cannot be written.
func (l *Log) Step(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	elapsed := time.Since(l.start).Round(time.Second)
	_, _ = fmt.Fprintf(l.out, "[%02d:%02d] %s\n", int(elapsed.Minutes()), int(elapsed.Seconds())%60, fmt.Sprintf(format, args...))
}

// Pause waits for d. The error is why ctx has ended before.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
