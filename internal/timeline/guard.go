package timeline

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Guard ends a process whose API server has gone back in time. From then on it fails every request
// that goes through [Guard.Wrap], so that nothing is written any more because of a state that was
// lost. Its methods may be called concurrently.
type Guard struct {
	end   context.CancelCauseFunc
	proof atomic.Pointer[error]
}

// NewGuard returns a guard, and a context that it ends with the proof as its cause.
func NewGuard(parent context.Context) (*Guard, context.Context) {
	ctx, end := context.WithCancelCause(parent)
	return &Guard{end: end}, ctx
}

// Proof returns what proves that the API server has gone back in time; nil as long as nothing does.
func (g *Guard) Proof() error {
	if p := g.proof.Load(); p != nil {
		return *p
	}
	return nil
}

// Compare holds the version of a resource that the API server has told against one that was seen
// before it was asked. It returns the proof if the resource went back. What is no version (an empty
// one, or "0") proves nothing.
func (g *Guard) Compare(resource, seen, told string) error {
	if order, err := resourceversion.CompareResourceVersion(told, seen); err != nil || order >= 0 {
		return nil
	}
	proof := fmt.Errorf("the API server's storage has gone back in time: %s had resource version %s and has %s now, as after a restore of etcd without --bump-revision. "+
		"What this process knows may never have happened, so it ends; started anew it reads everything again", resource, seen, told)
	if g.proof.CompareAndSwap(nil, &proof) {
		g.end(proof)
	}
	return g.Proof()
}

// Later returns the later of two versions of one resource, and the other one where one is no
// version.
func Later(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(a, b); err == nil && order >= 0 {
		return a
	}
	return b
}
