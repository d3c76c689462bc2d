package enforcement

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// Reasons of the conditions.
const (
	reasonEnforced      = "Enforced"
	reasonPolicyMissing = "PolicyMissing"
	reasonPolicyDiffers = "PolicyDiffers"
	reasonNotWritten    = "NotWritten"
	reasonTooLarge      = "TooLarge"
	reasonForeigners    = "ServicesOfOthers"
)

// state is how a policy is enforced. told: the API server was told of the policy as it is now.
type state struct {
	policy        policyState
	told, leftOut bool
	// problem is why an object could not be read or written, empty if there is none.
	problem string
}

// conditionsOf returns those of a policy of which other Services have n addresses, without times.
func conditionsOf(p *steering.Policy, s state, n int, first []string) []metav1.Condition {
	var out []metav1.Condition
	if p.EnforcedByAPIServer() {
		out = append(out, s.condition())
	}
	if n > 0 {
		text := strings.Join(first, ", ")
		if more := n - len(first); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, conditions.New(v1alpha1.PolicyViolated, metav1.ConditionTrue, reasonForeigners,
			fmt.Sprintf("Services that this policy does not select have addresses that it keeps for those that it selects: %s. They came while nothing guarded the range, or "+
				"before the policy, or had other labels then. Create them anew to give them other addresses.", text)))
	}
	return conditions.Observed(p.Generation, out...)
}

func (s state) condition() metav1.Condition {
	const policy = "the ValidatingAdmissionPolicy " + v1alpha1.ExclusiveName
	c := metav1.Condition{Type: v1alpha1.PolicyEnforced, Status: metav1.ConditionFalse}
	switch {
	case s.problem != "":
		c.Reason, c.Message = reasonNotWritten, fmt.Sprintf("The API server goes by what it was told last, or by nothing: %s.", s.problem)
	case !s.told:
		c.Reason, c.Message = v1alpha1.ReasonPending, "The API server is about to be told."
	case s.policy == policyMissing:
		c.Reason, c.Message = reasonPolicyMissing, "The webhook alone enforces the policy, for "+policy+" is not in the cluster, and the operator may not create it. "+
			"It is part of the manifests; apply them again: kubectl apply --server-side -k config/default, or -f install.yaml of this version. Where it was there before, start the "+
			"API servers again then: until 1.37 at least they do not read the ConfigMap any more (kubernetes#130887)."
	case s.policy == policyDiffers:
		c.Reason, c.Message = reasonPolicyDiffers, "Whether the API server enforces the policy cannot be told, for "+policy+" is not the one of this version of the operator. "+
			"Put it back: kubectl apply --server-side --force-conflicts -k config/default, or -f install.yaml of this version."
	case s.leftOut:
		c.Reason, c.Message = reasonTooLarge, "The ranges, selectors and reservations of all policies with enforcement: APIServer do not fit into one object; those of this one are "+
			"left out, and the webhook alone enforces them. Make selectors shorter, or raise the priority."
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasonEnforced, "The API server keeps out of the ranges what the policy keeps out."
	}
	return c
}

// report writes the conditions of a policy if they say something new.
func (r *Reconciler) report(ctx context.Context, name string) (reconcile.Result, error) {
	p := r.Policies.Current().Policy(name)
	o := &v1alpha1.ServiceCIDRPolicy{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, o); err != nil || p == nil || p.UID != o.UID {
		return reconcile.Result{}, client.IgnoreNotFound(err) // the change of policies that tells of it wakes us
	}
	n, first := r.violations.of(name)
	mine := conditions.Pick(o.Status.Conditions, v1alpha1.PolicyEnforced, v1alpha1.PolicyViolated)
	next, result := conditionsOf(p, r.enforcing.state(p), n, first), reconcile.Result{}
	if wait := r.enforcing.settles(r.Clock.Now()); wait > 0 && meta.IsStatusConditionTrue(next, v1alpha1.PolicyEnforced) {
		next, result.RequeueAfter = held(mine, next), wait
	}
	want := conditions.Dated(mine, next, r.Clock.Now())
	if equality.Semantic.DeepEqual(mine, want) {
		return result, nil
	}
	if err := r.writes.Wait(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return result, objects.IgnoreGone(objects.ApplyConditions(ctx, r.Client, o, want, v1alpha1.ManagerEnforcement))
}

// held leaves Enforced as it was said last, or unsaid, while API servers are about to go by what is
// new. A word for that second would have every policy say it after each change of leader.
func held(was, next []metav1.Condition) []metav1.Condition {
	return slices.Concat(conditions.Pick(was, v1alpha1.PolicyEnforced), conditions.Pick(next, v1alpha1.PolicyViolated))
}
