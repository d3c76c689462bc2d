package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// Progress shows a bar with the time that is left on a terminal, and a line now and then in a log.
func (s Streams) Progress() batch.Progress {
	if f, ok := s.ErrOut.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &bar{out: s.ErrOut}
	}
	return &lines{out: s.ErrOut}
}

// bar is for terminals.
type bar struct {
	out   io.Writer
	mu    sync.Mutex
	shown *progressbar.ProgressBar
}

// Begin implements batch.Progress.
func (b *bar) Begin(what string, total int) {
	b.End()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown = progressbar.NewOptions(total, progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("steps"),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond))
}

// Done implements batch.Progress.
func (b *bar) Done(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.shown.Add(n) // it only draws
}

// End implements batch.Progress.
func (b *bar) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown != nil {
		_ = b.shown.Exit()
		_, _ = fmt.Fprintln(b.out)
	}
	b.shown = nil
}

// lines is for logs: one every ten seconds, and one at the end.
type lines struct {
	out io.Writer
	mu  sync.Mutex

	what        string
	total, done int
	start, told time.Time
}

// lineEvery is how often a line is written.
const lineEvery = 10 * time.Second

// Begin implements batch.Progress.
func (l *lines) Begin(what string, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.what, l.total, l.done, l.start, l.told = what, total, 0, time.Now(), time.Now()
}

// Done implements batch.Progress.
func (l *lines) Done(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done += n
	if now := time.Now(); now.Sub(l.told) >= lineEvery || l.done == l.total {
		l.told = now
		spent := now.Sub(l.start)
		left := time.Duration(float64(spent) / float64(l.done) * float64(l.total-l.done))
		_, _ = fmt.Fprintf(l.out, "%s: %d of %d after %s, about %s left\n", l.what, l.done, l.total, spent.Round(100*time.Millisecond), left.Round(time.Second))
	}
}

// End implements batch.Progress.
func (l *lines) End() {}

// AddPace adds the flags that bound what is under way.
func AddPace(cmd *cobra.Command, p *batch.Pace) {
	cmd.Flags().Float64Var((*float64)(&p.Limit), "qps", 500, "writes per second; 0 for as many as the API server takes")
	cmd.Flags().IntVar(&p.Workers, "workers", 16, "writes at a time")
}

// ErrPace says why a pace is not valid.
var ErrPace = errors.New("--qps must not be negative, and --workers must be 1 or more")

// ValidPace reports whether work goes on at a pace at all.
func ValidPace(p batch.Pace) bool { return p.Limit >= 0 && p.Workers >= 1 }
