package enforcement

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

const (
	// again is how often the objects are written in any case: somebody may have changed them.
	again = time.Minute
	// together is how long changes are gathered: each is a write of all ranges.
	together = 500 * time.Millisecond
)

// installed is how the objects that the API server is given are. The zero value knows nothing; it is safe for concurrent use.
type installed struct {
	mu sync.Mutex
	// written is when the objects were last written or deleted, content what they were given; nil if they were deleted.
	written time.Time
	content *steering.Enforced
	// rules are what content was made of.
	rules *steering.Compiled
	// err is why they could not be written, nil if they are there.
	err error
}

// enforce writes the objects, or deletes them if no policy wants them.
func (r *Reconciler) enforce(ctx context.Context) (reconcile.Result, error) {
	rules := r.Policies.Current()
	var want *steering.Enforced
	if slices.ContainsFunc(rules.Policies(), enforced) {
		enforced := rules.Enforce(room)
		want = &enforced
	}
	wait, changed := r.installed.due(want, r.Clock.Now())
	switch {
	case want == nil && !changed:
		return reconcile.Result{}, nil
	case wait > 0:
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	var err error
	if want != nil {
		err = install(ctx, r.Client, want.Spec)
	} else {
		err = uninstall(ctx, r.Client)
	}
	if news := r.installed.note(want, rules, err, r.Clock.Now()); news || changed {
		for _, p := range rules.Policies() {
			if enforced(p) {
				r.reportSoon(p.Name)
			}
		}
	}
	if err != nil && !notServed(err) { // the policies tell of kinds that are not served, and an upgrade brings them
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// enforced reports whether a policy wants to be enforced by the API server.
func enforced(p *steering.Policy) bool {
	return p.Exclusive && p.Enforcement == v1alpha1.EnforcementAPIServer
}

// due returns how long to wait until the objects are written, 0 for now, and whether they will have another content.
func (o *installed) due(want *steering.Enforced, now time.Time) (wait time.Duration, changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	age := now.Sub(o.written)
	if reflect.DeepEqual(want, o.content) && o.err == nil && !o.written.IsZero() {
		return max(0, again-age), false
	}
	return max(0, together-age), true
}

// note keeps what has become of the objects, and reports whether that is something new.
func (o *installed) note(content *steering.Enforced, rules *steering.Compiled, err error, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	news := o.written.IsZero() || (err == nil) != (o.err == nil)
	o.written, o.content, o.rules, o.err = now, content, rules, err
	return news
}

func (o *installed) state(p *steering.Policy) state {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := state{err: o.err, written: o.content != nil && o.err == nil && same(o.rules.Policy(p.Name), p)}
	s.leftOut = s.written && slices.Contains(o.content.LeftOut, p.Name)
	return s
}

// same reports whether two compilations of a policy keep the same addresses for the same Services, if nothing else has changed.
func same(a, b *steering.Policy) bool {
	return a != nil && b != nil && a.UID == b.UID && a.Generation == b.Generation && slices.Equal(a.Claimed, b.Claimed)
}
