package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

const (
	// remembered is how many refusals a policy shows.
	remembered = 10
	// settling is how long a refusal waits for others of its policy, so that a client in a loop does not turn into writes.
	settling = time.Second
	// writing is how often the status of a policy is written at most, whichever policy: ten times a second by each replica.
	writing = 100 * time.Millisecond
	// writeTimeout ends a write, so that others get their turn.
	writeTimeout = 5 * time.Second
)

// Refusals writes the latest refusals of this replica into the status of the policies. NewRefusals makes one; Add is safe for
// concurrent use.
type Refusals struct {
	client client.Client

	mu      sync.Mutex
	pending map[string][]v1alpha1.PolicyRefusal // by policy, the latest first
	due     map[string]time.Time                // when those are to be written
}

// NewRefusals returns a Refusals that reads and writes with c, which must not read from a cache.
func NewRefusals(c client.Client) *Refusals {
	return &Refusals{client: c, pending: map[string][]v1alpha1.PolicyRefusal{}, due: map[string]time.Time{}}
}

// Add notes a refusal. It is written about a second later; when more than ten policies wait, those that wait longest come first, ten in a second.
func (r *Refusals) Add(policy string, refusal v1alpha1.PolicyRefusal) {
	r.add(policy, []v1alpha1.PolicyRefusal{refusal}, time.Now().Add(settling))
}

// add keeps the last ten of a policy, due as they were if there are some already.
func (r *Refusals) add(policy string, list []v1alpha1.PolicyRefusal, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, waits := r.pending[policy]; !waits {
		r.due[policy] = due
	}
	r.pending[policy] = latest(append(r.pending[policy], list...))
}

// take returns the policy that is due longest with its refusals, which are not pending any more; empty if none is due.
func (r *Refusals) take(now time.Time) (policy string, list []v1alpha1.PolicyRefusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, due := range r.due {
		if !now.Before(due) && (policy == "" || due.Before(r.due[policy])) {
			policy = name
		}
	}
	list = r.pending[policy]
	delete(r.pending, policy)
	delete(r.due, policy)
	return policy, list
}

// latest returns the last ten refusals, the latest first, each once.
func latest(all []v1alpha1.PolicyRefusal) []v1alpha1.PolicyRefusal {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b v1alpha1.PolicyRefusal) int {
		return cmp.Or(b.Time.Compare(a.Time.Time), cmp.Compare(a.Service, b.Service))
	})
	out = slices.CompactFunc(out, func(a, b v1alpha1.PolicyRefusal) bool { return a.Time.Equal(&b.Time) && a.Service == b.Service })
	return out[:min(len(out), remembered)]
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica refuses.
func (r *Refusals) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (r *Refusals) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) { r.publish(ctx, time.Now()) }, writing)
	return nil
}

// publish writes what is due longest. What cannot be written is due again later, behind the others.
func (r *Refusals) publish(ctx context.Context, now time.Time) {
	policy, list := r.take(now)
	if policy == "" {
		return
	}
	writeCtx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := r.write(writeCtx, policy, list)
	if err == nil || apierrors.IsNotFound(err) {
		return
	}
	if !apierrors.IsConflict(err) { // another replica has written its own
		log.FromContext(ctx).Error(err, "Refusals could not be written", "policy", policy)
	}
	r.add(policy, list, now.Add(settling))
}

// write merges refusals into the status, where other replicas write theirs: with the version that was read, so that none is lost.
func (r *Refusals) write(ctx context.Context, name string, list []v1alpha1.PolicyRefusal) error {
	policy := &v1alpha1.ServiceCIDRPolicy{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, policy); err != nil {
		return fmt.Errorf("reading ServiceCIDRPolicy %s: %w", name, err)
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": policy.ResourceVersion},
		"status":   map[string]any{"refusals": latest(append(slices.Clone(policy.Status.Refusals), list...))},
	})
	if err != nil {
		return fmt.Errorf("writing refusals: %w", err)
	}
	err = r.client.Status().Patch(ctx, policy, client.RawPatch(types.MergePatchType, body), client.FieldOwner(v1alpha1.ManagerAdmission))
	if err != nil {
		return fmt.Errorf("writing refusals of ServiceCIDRPolicy %s: %w", name, err)
	}
	return nil
}
