package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

const (
	// gathering is how long refusals of one policy are collected, so that a loop makes few writes.
	gathering = time.Second
	// writesASecond is how often statuses are written at most, whichever policy, by each replica.
	writesASecond = 10
	// eventsASecond and eventsAtOnce bound the events about policies. The status has the rest.
	eventsASecond, eventsAtOnce = 1, 10
	// writeTimeout ends a write, so that the other policies get their turn.
	writeTimeout = 5 * time.Second
)

// Refusals writes the latest refusals of this replica into the status of the policies. NewRefusals
// makes one; Add is safe for concurrent use.
type Refusals struct {
	client client.Client
	events events.EventRecorder
	// told bounds the events, of which client-go makes one object for each policy.
	told  *rate.Limiter
	queue workqueue.TypedDelayingInterface[string]

	mu      sync.Mutex
	pending map[string][]v1alpha1.PolicyRefusal // policy -> what is not written yet, folded
}

// NewRefusals returns a Refusals that reads and writes with c, which must not read from a cache. It
// records events on policies, where admins look; the user of a refused Service has the answer.
func NewRefusals(c client.Client, recorder events.EventRecorder) *Refusals {
	return &Refusals{
		client: c, events: recorder, told: rate.NewLimiter(eventsASecond, eventsAtOnce),
		queue: workqueue.NewTypedDelayingQueue[string](), pending: map[string][]v1alpha1.PolicyRefusal{},
	}
}

// Add notes refusals. They are written in about a second, ten policies a second, oldest first.
func (r *Refusals) Add(policy string, refusals ...v1alpha1.PolicyRefusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[policy] = fold(append(r.pending[policy], refusals...))
	r.queue.AddAfter(policy, gathering)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica refuses.
func (r *Refusals) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (r *Refusals) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, r.queue.ShutDown)()
	pace := rate.NewLimiter(writesASecond, 1)
	for {
		policy, ended := r.queue.Get()
		if ended || pace.Wait(ctx) != nil {
			return nil // asked to stop
		}
		r.publish(ctx, policy)
		r.queue.Done(policy)
	}
}

// publish writes the refusals of a policy. If that fails they are due again, after other policies.
func (r *Refusals) publish(ctx context.Context, policy string) {
	r.mu.Lock()
	list := r.pending[policy]
	delete(r.pending, policy)
	r.mu.Unlock()
	if len(list) == 0 {
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
	r.Add(policy, list...)
}

// write merges refusals into the status, where other replicas write theirs: with the version that
// was read, so that none is lost. Pending refusals count only what is not written, so a merge that
// meets a conflict is repeated with the same counts.
func (r *Refusals) write(ctx context.Context, name string, list []v1alpha1.PolicyRefusal) error {
	policy := &v1alpha1.ServiceCIDRPolicy{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, policy); err != nil {
		return fmt.Errorf("reading ServiceCIDRPolicy %s: %w", name, err)
	}
	patch := client.MergeFromWithOptions(policy.DeepCopy(), client.MergeFromWithOptimisticLock{})
	policy.Status.Refusals = fold(append(policy.Status.Refusals, list...))
	if err := r.client.Status().Patch(ctx, policy, patch, client.FieldOwner(v1alpha1.ManagerAdmission)); err != nil {
		return fmt.Errorf("writing refusals of ServiceCIDRPolicy %s: %w", name, err)
	}
	if r.told.Allow() {
		r.events.Eventf(policy, nil, corev1.EventTypeWarning, "ServiceRefused", "Admit", "Refused Service %s: %s", list[0].Service, list[0].Message)
	}
	return nil
}
