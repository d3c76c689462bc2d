package enforcement

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/wording"
)

// Reasons of the conditions.
const (
	reasonEnforced     = "Enforced"
	reasonPending      = "Pending"
	reasonNotSupported = "NotSupported"
	reasonNotWritten   = "NotWritten"
	reasonTooLarge     = "TooLarge"
	reasonForeigners   = "ServicesOfOthers"
)

// state is how far the API server has what it needs to enforce a policy.
type state struct {
	written, leftOut bool
	err              error
}

// conditions are those of a policy, of which n addresses are had by others. Times are the caller's to add.
func conditions(p *steering.Policy, s state, n int, first []string) []metav1.Condition {
	var out []metav1.Condition
	if enforced(p) {
		out = append(out, s.condition())
	}
	if n > 0 {
		text := strings.Join(first, ", ")
		if more := n - len(first); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, metav1.Condition{Type: v1alpha1.PolicyViolated, Status: metav1.ConditionTrue, Reason: reasonForeigners,
			Message: fmt.Sprintf("Services that this policy does not select have addresses that it keeps for others: %s. They came while nothing guarded the range, or "+
				"before the policy, or had other labels then. Create them anew to give them other addresses.", text)})
	}
	for i := range out {
		out[i].ObservedGeneration = p.Generation
	}
	return out
}

func (s state) condition() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.PolicyEnforced, Status: metav1.ConditionFalse}
	switch {
	case notServed(s.err):
		c.Reason, c.Message = reasonNotSupported, "The API server does not serve what this takes, so the webhook alone keeps others out: ValidatingAdmissionPolicy v1 "+
			"(Kubernetes 1.30 and later), and ExclusiveRanges, which config/crd defines."
	case s.err != nil:
		c.Reason, c.Message = reasonNotWritten, fmt.Sprintf("The webhook alone keeps others out: %v.", s.err)
	case s.leftOut:
		c.Reason, c.Message = reasonTooLarge, "The ranges, selectors and reservations of all policies with enforcement: APIServer do not fit into one object; those of this one are left out, "+
			"and the webhook alone keeps others out. Make selectors shorter, or raise the priority."
	case !s.written:
		c.Reason, c.Message = reasonPending, "The API server is about to be told."
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasonEnforced, "The API server keeps others out of the ranges."
	}
	c.Message = wording.Cut(c.Message, messageLimit)
	return c
}

// messageLimit is what the API takes for the message of a condition, in bytes.
const messageLimit = 32768

// report writes the conditions of a policy if they say something new.
func (r *Reconciler) report(ctx context.Context, name string) (reconcile.Result, error) {
	p := r.Policies.Current().Policy(name)
	o := &v1alpha1.ServiceCIDRPolicy{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, o); err != nil || p == nil || p.UID != o.UID {
		return reconcile.Result{}, client.IgnoreNotFound(err) // the change of policies that tells of it wakes us
	}
	n, first := r.violations.of(name)
	want := conditions(p, r.objects.state(p), n, first)
	if says(o.Status.Conditions, want) {
		return reconcile.Result{}, nil
	}
	if left := r.pace.left(name, r.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := r.pace.wait(ctx); err != nil {
		return reconcile.Result{}, err
	}
	for i := range want {
		want[i].LastTransitionTime = metav1.NewTime(r.Clock.Now())
		if was := meta.FindStatusCondition(o.Status.Conditions, want[i].Type); was != nil && was.Status == want[i].Status {
			want[i].LastTransitionTime = was.LastTransitionTime
		}
	}
	if err := r.apply(ctx, o, want); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return reconcile.Result{}, fmt.Errorf("writing conditions of ServiceCIDRPolicy %s: %w", name, err)
	}
	r.pace.wrote(name, r.Clock.Now())
	return reconcile.Result{}, nil
}

// says reports whether of our conditions those that are wanted are there, and no other.
func says(have, want []metav1.Condition) bool {
	for _, kind := range []string{v1alpha1.PolicyEnforced, v1alpha1.PolicyViolated} {
		is, should := meta.FindStatusCondition(have, kind), meta.FindStatusCondition(want, kind)
		if (is == nil) != (should == nil) {
			return false
		}
		if is != nil {
			should := *should
			should.LastTransitionTime = is.LastTransitionTime
			if is.Status != should.Status || !equality.Semantic.DeepEqual(*is, should) {
				return false
			}
		}
	}
	return true
}

// apply writes our conditions, and takes away those of them that are not wanted. The UID keeps them from a policy of the same name that was created since.
func (r *Reconciler) apply(ctx context.Context, o *v1alpha1.ServiceCIDRPolicy, want []metav1.Condition) error {
	list := []any{} // and not nothing: a status that nobody owns anything of any more would be null, which the schema refuses
	for i := range want {
		one, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want[i])
		if err != nil {
			return fmt.Errorf("converting a condition: %w", err)
		}
		list = append(list, one)
	}
	body := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ServiceCIDRPolicy",
		"metadata": map[string]any{"name": o.Name, "uid": string(o.UID)}, "status": map[string]any{"conditions": list},
	}}
	return r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(body),
		client.FieldOwner(v1alpha1.ManagerEnforcement), client.ForceOwnership)
}

const (
	// every is how often the conditions of a policy are written at most; writesASecond bounds those of all policies together.
	every         = 2 * time.Second
	writesASecond = 100
	// eventsASecond bounds the events on Services, of which there may be many at once: condition and metric count them all.
	eventsASecond, eventsAtOnce = 5, 50
)

// pace bounds writes. The zero value is ready; it is safe for concurrent use.
type pace struct {
	mu     sync.Mutex
	last   map[string]time.Time
	writes *rate.Limiter
	events *rate.Limiter
}

func (p *pace) limiters() (writes, events *rate.Limiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writes == nil {
		p.writes, p.events = rate.NewLimiter(writesASecond, writesASecond), rate.NewLimiter(eventsASecond, eventsAtOnce)
	}
	return p.writes, p.events
}

// wait returns when there is room for one more write, or with the error of ctx.
func (p *pace) wait(ctx context.Context) error {
	writes, _ := p.limiters()
	return writes.Wait(ctx)
}

// mayTell reports whether there is room for one more event.
func (p *pace) mayTell() bool {
	_, events := p.limiters()
	return events.Allow()
}

// left returns how long a policy has to wait for its next write.
func (p *pace) left(name string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[name].Add(every).Sub(now)
}

// wrote notes a write, and forgets those that hold up nothing any more.
func (p *pace) wrote(name string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[string]time.Time{}
	}
	p.last[name] = now
	maps.DeleteFunc(p.last, func(_ string, at time.Time) bool { return now.Sub(at) > every })
}
