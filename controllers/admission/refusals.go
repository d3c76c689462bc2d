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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

const (
	// remembered is how many refusals a policy shows.
	remembered = 10
	// publishing is how often new refusals are written: a client in a loop must not turn into writes.
	publishing = time.Second
)

// Refusals writes the latest refusals of this replica into the status of the policies. NewRefusals makes one; Add is safe for
// concurrent use.
type Refusals struct {
	client client.Client

	mu      sync.Mutex
	pending map[string][]v1alpha1.PolicyRefusal // by policy, the latest first
}

// NewRefusals returns a Refusals that reads and writes with c, which must not read from a cache.
func NewRefusals(c client.Client) *Refusals {
	return &Refusals{client: c, pending: map[string][]v1alpha1.PolicyRefusal{}}
}

// Add notes a refusal; it is written within about a second.
func (r *Refusals) Add(policy string, refusal v1alpha1.PolicyRefusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[policy] = latest(append(r.pending[policy], refusal))
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
	tick := time.NewTicker(publishing)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.publish(ctx)
		}
	}
}

// publish writes what is pending. What cannot be written waits for the next round; only the last ten of each policy do.
func (r *Refusals) publish(ctx context.Context) {
	r.mu.Lock()
	pending := r.pending
	r.pending = map[string][]v1alpha1.PolicyRefusal{}
	r.mu.Unlock()
	for policy, list := range pending {
		err := r.write(ctx, policy, list)
		if err == nil || apierrors.IsNotFound(err) {
			continue
		}
		if !apierrors.IsConflict(err) {
			log.FromContext(ctx).Error(err, "Refusals could not be written", "policy", policy)
		}
		r.mu.Lock()
		r.pending[policy] = latest(append(r.pending[policy], list...))
		r.mu.Unlock()
	}
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
