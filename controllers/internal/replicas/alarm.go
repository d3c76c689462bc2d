package replicas

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// alarm rings when a Lease has appeared, gone, or changed in what it knows. Renewals alone do not ring it. It saves waiting for the
// next round, no more: whoever is woken lists.
type alarm struct {
	rings chan struct{}
	// letters reads what a Lease says about borrowed addresses, and reports whether that has to be answered.
	letters func(lease) bool
	last    map[types.UID][]types.UID
}

func newAlarm() *alarm {
	return &alarm{rings: make(chan struct{}, 1), letters: func(lease) bool { return false }}
}

// follow keeps a watch open until ctx ends, and takes pause between two attempts.
func (a *alarm) follow(ctx context.Context, from store, pause func(context.Context)) {
	for ctx.Err() == nil {
		a.last = map[types.UID][]types.UID{}
		// An error has nothing to say that the loop, which lists by the same way, does not say itself.
		_ = from.follow(ctx, a.changed)
		pause(ctx)
	}
}

func (a *alarm) changed(l lease, gone bool) {
	before, known := a.last[l.uid]
	if gone {
		delete(a.last, l.uid)
	} else {
		a.last[l.uid] = l.knows
	}
	if !gone && a.letters(l) {
		a.ring()
	}
	if gone || !known || !slices.Equal(before, l.knows) {
		a.ring()
	}
}

func (a *alarm) ring() {
	select {
	case a.rings <- struct{}{}:
	default:
	}
}

// wait returns when it rings, after the time, or when ctx ends.
func (a *alarm) wait(ctx context.Context, after <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-after:
	case <-a.rings:
	}
}
