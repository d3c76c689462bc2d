package replicas

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// alarm wakes the loop before its next round. It saves waiting, no more: whatever it misses, the round finds.
type alarm struct {
	// rings when a Lease has appeared, gone, or changed in what it knows or in whether its holder serves: time to list. Renewals alone do not ring.
	rings chan struct{}
	// posts when this replica has something to say about borrowed addresses: time to write, which needs no list.
	posts chan struct{}
	// letters reads what a Lease says about borrowed addresses, and reports whether that has to be answered.
	letters func(lease) bool
	// heard is told whose Lease has changed.
	heard func(id string)
	last  map[types.UID]lease
}

func newAlarm() *alarm {
	return &alarm{rings: make(chan struct{}, 1), posts: make(chan struct{}, 1), letters: func(lease) bool { return false }, heard: func(string) {}}
}

// follow keeps a watch open until ctx ends. It pauses after one that failed; one that the API server ended in due course is opened again
// at once, so that nobody who asks for an address waits for it.
func (a *alarm) follow(ctx context.Context, from store, pause func(context.Context)) {
	for ctx.Err() == nil {
		a.last = map[types.UID]lease{}
		// The error has nothing to say that the loop, which lists by the same way, does not say itself.
		if err := from.follow(ctx, a.changed); err != nil {
			pause(ctx)
		}
	}
}

func (a *alarm) changed(l lease, gone bool) {
	before, known := a.last[l.uid]
	if gone {
		delete(a.last, l.uid)
	} else {
		a.last[l.uid] = l
	}
	if known && !gone && before.version != l.version {
		a.heard(l.id) // what a watch begins with is no news
	}
	if !gone && a.letters(l) {
		a.post()
	}
	if gone || !known || before.serves != l.serves || !slices.Equal(before.knows, l.knows) {
		a.ring()
	}
}

func (a *alarm) ring() { wake(a.rings) }

func (a *alarm) post() { wake(a.posts) }

// wake leaves a token, if there is none yet.
func wake(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// wait returns true when there is something to write, and false when it is time to list: when it rings, after the time, or when ctx ends.
func (a *alarm) wait(ctx context.Context, after <-chan time.Time) (post bool) {
	select {
	case <-ctx.Done():
	case <-after:
	case <-a.rings:
	case <-a.posts:
		return true
	}
	return false
}
