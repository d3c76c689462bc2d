// Package progress tells the person who waits for a benchmark what it is doing, and for how long it has been at it.
//
// Start with New.
package progress

import (
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

// Step writes one line. What cannot be written is lost: nobody reads it then.
func (l *Log) Step(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	elapsed := time.Since(l.start).Round(time.Second)
	_, _ = fmt.Fprintf(l.out, "[%02d:%02d] %s\n", int(elapsed.Minutes()), int(elapsed.Seconds())%60, fmt.Sprintf(format, args...))
}
