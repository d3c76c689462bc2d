package refusal

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
)

const (
	// closeAfter refusals in a row close the gate: a single one may be about its object.
	closeAfter = 3
	// Pause is how long no write is tried at most, firstPause how long at first. Then turns objects
	// are, one after the other.
	Pause      = 2 * time.Minute
	firstPause = 5 * time.Second
	turns      = 2
	// remembered is how many of the last refused objects let other objects go first, by precedence.
	remembered = 16
	precedence = time.Second
)

// Error is returned for a write that was not tried because those before it were refused.
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
	pause  time.Duration
	next   time.Time // when one is tried while it is closed
	turns  int       // how many were since the last pause
	last   error
	// refused are the last refused objects. The rest go first: a platform may refuse only some.
	refused []string
}

// try writes an object of a name, or returns an *Error.
func (g *gate) try(name string, write func() error) error {
	if err := g.enter(name); err != nil {
		return err
	}
	err := write()
	g.leave(name, err)
	return err
}

// enter lets a write through, of a closed gate one at a time after each pause.
func (g *gate) enter(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		return nil
	}
	now, at := g.clock.Now(), g.next
	if slices.Contains(g.refused, name) {
		at = at.Add(precedence)
	}
	if now.Before(at) {
		return &Error{Writes: g.writes, Last: g.last, After: at.Sub(now)}
	}
	g.next = now.Add(g.pause)
	return nil
}

// leave learns what became of a write. Only an answer of the API server opens or closes the gate:
// an object that is gone has passed admission, an outage says nothing.
func (g *gate) leave(name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case refuses(err):
		g.refuse(name, err)
	case err == nil, apierrors.IsAlreadyExists(err):
		g.row, g.refused = 0, nil
		if g.closed {
			g.closed = false
			g.changed(false, nil)
		}
	}
}

// refuse notes a refusal; the caller holds mu. The pauses begin short: an API server that has just
// started refuses what it has not read the permissions for yet.
func (g *gate) refuse(name string, err error) {
	g.row++
	g.last = err
	if !slices.Contains(g.refused, name) {
		g.refused = append(g.refused[max(0, len(g.refused)-remembered+1):], name)
	}
	now := g.clock.Now()
	switch {
	case !g.closed && g.row < closeAfter:
	case !g.closed:
		g.closed, g.turns, g.pause = true, 0, firstPause
		g.next = now.Add(g.pause)
		g.changed(true, err)
	case g.turns+1 < turns:
		g.turns++
		g.next = now
	default:
		g.turns, g.pause = 0, min(2*g.pause, Pause)
		g.next = now.Add(g.pause)
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
