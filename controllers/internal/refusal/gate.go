package refusal

import (
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
)

const (
	// closeAfter is how many writes in a row are refused before no other is tried: one alone may be
	// about its object.
	closeAfter = 3
	// Pause is how long no write is tried. Then one is.
	Pause = 2 * time.Minute
)

// Error is returned for a write that was not tried, because the API server has refused those before
// it.
type Error struct {
	// Writes names them, for people.
	Writes string
	// Last is what the API server said, After when the next one may be tried.
	Last  error
	After time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s are refused, so this one is tried again after %s; the API server said: %v", e.Writes, e.After.Round(time.Second), e.Last)
}

// Unwrap returns what the API server said.
func (e *Error) Unwrap() error { return e.Last }

// gate lets writes of one kind through until the API server refuses them.
type gate struct {
	writes  string
	clock   clock.PassiveClock
	changed func(closed bool, last error) // called with mu held

	mu     sync.Mutex
	row    int // refusals since the last success
	closed bool
	next   time.Time // when one is tried while it is closed
	last   error
}

// try writes, or returns an *Error.
func (g *gate) try(write func() error) error {
	if err := g.enter(); err != nil {
		return err
	}
	err := write()
	g.leave(err)
	return err
}

// enter lets a write through, of a closed gate the first after each pause.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	if g.closed && now.Before(g.next) {
		return &Error{Writes: g.writes, Last: g.last, After: g.next.Sub(now)}
	}
	g.next = now.Add(Pause)
	return nil
}

// leave learns what became of a write. Only an answer of the API server opens or closes the gate:
// an object that is gone has passed admission, an outage says nothing.
func (g *gate) leave(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case refuses(err):
		g.row++
		g.last = err
		g.next = g.clock.Now().Add(Pause)
		if !g.closed && g.row >= closeAfter {
			g.closed = true
			g.changed(true, err)
		}
	case err == nil, apierrors.IsAlreadyExists(err):
		g.row = 0
		if g.closed {
			g.closed = false
			g.changed(false, nil)
		}
	}
}

// refuses reports whether an answer is about who writes what, and not about an object's state. A
// ValidatingAdmissionPolicy and a webhook may give any reason; their words are always these.
func refuses(err error) bool {
	if err == nil {
		return false
	}
	return apierrors.IsForbidden(err) || strings.Contains(err.Error(), "denied request: ") || strings.Contains(err.Error(), "denied the request")
}
