package renumber

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// Result is what became of a run.
type Result struct {
	// Moved is how many Services have their new addresses.
	Moved int
	// Left are those that do not, and why.
	Left []LeftOut
	// Held are the old addresses that are still kept.
	Held []Held
}

// MoveAll moves Services at a pace. One left alone is no error; after any other error none begins.
func (m Mover) MoveAll(ctx context.Context, p batch.Pace, items []Item) (Result, error) {
	var mu sync.Mutex
	var out Result
	_, err := batch.Each(ctx, p, "moving Services", items, func(ctx context.Context, i Item) error {
		held, err := m.Move(ctx, i)
		mu.Lock()
		defer mu.Unlock()
		out.Held = append(out.Held, held...)
		why, isLeft := errors.AsType[*LeftError](err)
		switch {
		case isLeft:
			out.Left = append(out.Left, LeftOut{Namespace: i.Namespace, Name: i.Name, Addresses: i.Old, Why: why.Why})
			return nil
		case err == nil:
			out.Moved++
		}
		return err
	})
	slices.SortFunc(out.Left, func(a, b LeftOut) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, err
}
