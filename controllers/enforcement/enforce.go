package enforcement

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// together is how long changes are gathered: each is a write of all ranges. Two programs that write
// the objects in turn do it no faster, either.
const together = 500 * time.Millisecond

// settle is how long a new policy or binding may wait for API servers to take it up: they look for
// changed ones once a second (policyRefreshInterval in k8s.io/apiserver), and compile expressions
// then. What the ConfigMap of a binding says they read at once.
const settle = 1500 * time.Millisecond

// enforcing is how the API server was told. Zero: not at all. It is safe for concurrent use.
type enforcing struct {
	mu sync.Mutex
	// written is when an object was last written or deleted.
	written time.Time
	// seen are the policy and the binding that API servers take up, since is when they were first
	// seen: a leader that has just come does not know how long they have been there.
	seen  installation
	since time.Time
	// rules are what the API server enforces, nil at first; leftOut are policies that had no room.
	rules   *steering.Compiled
	leftOut []string
	policy  policyState
	// err is why an object could not be read or written, nil if they are as they should be.
	err error
}

// enforce brings the objects to what the policies want: none unless a policy wants to be enforced.
func (r *Reconciler) enforce(ctx context.Context) (reconcile.Result, error) {
	rules := r.Policies.Current()
	want := r.wanted.by(rules)
	f, err := find(ctx, r.objects, r.Namespace)
	if err == nil {
		due := plan(f, want.Data, r.Namespace)
		if wait := r.enforcing.wait(r.Clock.Now()); len(due) > 0 && wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
		for _, one := range due {
			r.enforcing.wrote(r.Clock.Now())
			if err = carryOut(ctx, r.Client, one, want.Data, r.Namespace); err != nil {
				break
			}
		}
	}
	r.reportSoon(r.enforcing.note(rules, want.LeftOut, f, err, r.Clock.Now())...)
	return reconcile.Result{}, err
}

// wanted is what the API server is to be given by the policies of rules; zero: nothing.
type wanted struct {
	rules    *steering.Compiled
	enforced steering.Enforced
}

// by returns what it is to be given by these rules. A cluster has hundreds of policies and
// thousands of reservations, and a change that no enforced policy has to do with is as good as
// none.
func (w *wanted) by(rules *steering.Compiled) steering.Enforced {
	before := cmp.Or(w.rules, steering.Compile(steering.Inputs{}))
	w.rules = rules
	if steering.AnyChanged(before, rules, (*steering.Policy).EnforcedByAPIServer) {
		w.enforced = enforced(rules)
	}
	return w.enforced
}

// enforced is what the API server is given: nothing unless a policy wants to be enforced.
func enforced(rules *steering.Compiled) (out steering.Enforced) {
	if slices.ContainsFunc(rules.Policies(), (*steering.Policy).EnforcedByAPIServer) {
		out = rules.Enforce(room)
	}
	return out
}

// wait returns how long to wait until the next write.
func (e *enforcing) wait(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(0, together-now.Sub(e.written))
}

// installation tells policies and bindings from those before them; empty for one that is missing.
type installation struct {
	policy, binding             types.UID
	policyChange, bindingChange int64 // generations
}

// installation is what of the two is there.
func (f found) installation() (i installation) {
	if f.policy != nil {
		i.policy, i.policyChange = f.policy.UID, f.policy.Generation
	}
	if f.binding != nil {
		i.binding, i.bindingChange = f.binding.UID, f.binding.Generation
	}
	return i
}

// settles returns how long to wait until API servers go by the policy and the binding.
func (e *enforcing) settles(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen.binding == "" {
		return settle // it was written and is not in the cache yet
	}
	return max(0, settle-now.Sub(e.since))
}

func (e *enforcing) wrote(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.written = now
}

// note keeps what has become of the objects, and returns the policies of which something else is to
// be told than before: also those that have changed in nothing that the API server was told, for
// their conditions are about a generation.
func (e *enforcing) note(rules *steering.Compiled, leftOut []string, f found, err error, now time.Time) (news []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if seen := f.installation(); seen != e.seen {
		e.seen, e.since = seen, now
	}
	before := enforcing{rules: e.rules, leftOut: e.leftOut, policy: e.policy, err: e.err}
	e.rules, e.leftOut, e.policy, e.err = rules, leftOut, f.installed(), err
	seen := before.rules
	if seen == nil || !before.saysAsMuch(e) {
		seen = steering.Compile(steering.Inputs{})
	}
	for _, p := range steering.Changed(seen, rules) {
		if p != nil && p.EnforcedByAPIServer() && before.of(p) != e.of(p) {
			news = append(news, p.Name)
		}
	}
	return news
}

// saysAsMuch reports whether two states say the same of a policy that has not changed.
func (e *enforcing) saysAsMuch(other *enforcing) bool {
	return e.policy == other.policy && e.problem() == other.problem() && slices.Equal(e.leftOut, other.leftOut)
}

// state says how a policy is enforced.
func (e *enforcing) state(p *steering.Policy) state {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of(p)
}

func (e *enforcing) of(p *steering.Policy) state {
	told := e.rules != nil && same(e.rules.Policy(p.Name), p)
	return state{policy: e.policy, told: told, leftOut: slices.Contains(e.leftOut, p.Name), problem: e.problem()}
}

// problem is the text of err, empty for none.
func (e *enforcing) problem() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// same reports whether two compilations of a policy keep the same addresses for the same Services,
// if nothing else has changed.
func same(a, b *steering.Policy) bool {
	return a != nil && b != nil && a.UID == b.UID && a.Generation == b.Generation && slices.Equal(a.Claimed, b.Claimed)
}
