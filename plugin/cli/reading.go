package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/clusterip-operator/clusterip-operator/internal/plain"
)

// reading tells on a terminal how much of a list is read, in one line that goes away at the end.
// Short lists show nothing, and neither do streams that are no terminal: programs read those.
type reading struct {
	out io.Writer
	// now is the time, from which the first line waits for patience.
	now   func() time.Time
	start time.Time

	mu    sync.Mutex
	kinds map[string]readingOf
	shown time.Time // the zero value: nothing is shown
	ended bool
}

// readingOf is how much of one kind is read.
type readingOf struct{ read, of int }

// A list that takes longer than patience is told of, and that anew after each pause.
const patience, readingPause = time.Second, 100 * time.Millisecond

// newReading returns nil where nothing is to be told.
func newReading(out io.Writer) *reading {
	if f, ok := out.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &reading{out: out, now: time.Now, start: time.Now(), kinds: map[string]readingOf{}}
}

// tell notes that so many objects of a kind are read, of so many.
func (r *reading) tell(what string, read, of int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[what] = readingOf{read, of}
	now := r.now()
	if r.ended || now.Sub(r.start) < patience || now.Sub(r.shown) < readingPause {
		return
	}
	r.shown = now
	_, _ = io.WriteString(r.out, "\r"+plain.Lines(r.line())+eraseToEnd) // of what a longer line has left
}

// eraseToEnd is a terminal's sequence for that.
const eraseToEnd = "\x1b[K"

// line is "Reading IPAddresses 12000/200000, Services 5000/100000".
func (r *reading) line() string {
	var parts []string
	for what, n := range r.kinds {
		parts = append(parts, fmt.Sprintf("%s %d/%d", what, n.read, n.of))
	}
	slices.SortFunc(parts, cmp.Compare)
	return "Reading " + strings.Join(parts, ", ")
}

// end takes the line away.
func (r *reading) end() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if !r.shown.IsZero() {
		_, _ = io.WriteString(r.out, "\r"+eraseToEnd)
	}
}
