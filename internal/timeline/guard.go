package timeline

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Guard ends a process whose API server has gone back in time. From then on it fails every request
// through [Guard.Wrap], so that the process writes nothing more because of a lost state. Its
// methods may be called concurrently.
type Guard struct {
	end   context.CancelCauseFunc
	proof atomic.Pointer[error]
}

// NewGuard returns a guard, and a context that it ends with the proof as its cause.
func NewGuard(parent context.Context) (*Guard, context.Context) {
	ctx, end := context.WithCancelCause(parent)
	return &Guard{end: end}, ctx
}

// Proof returns the proof that the API server has gone back in time; nil as long as there is none.
func (g *Guard) Proof() error {
	if p := g.proof.Load(); p != nil {
		return *p
	}
	return nil
}

// Compare compares the version of a resource that the API server has told with one seen before it
// was asked. It returns the proof if the resource went back. No version ("" or "0") proves nothing.
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

// Later returns the later of two versions of one resource, or the other one if one is no version.
func Later(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(a, b); err == nil && order >= 0 {
		return a
	}
	return b
}
