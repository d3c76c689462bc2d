package policy

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// Reasons of the condition Programmed that say nothing new: Accepted or Conflicting has the fault.
const (
	ReasonInvalid   = "Invalid"
	ReasonOutranked = "Outranked"
)

// Reasons of the conditions.
const (
	reasonValid         = "Valid"
	reasonNoConflict    = "NoConflict"
	reasonProgrammed    = "Programmed"
	reasonMissing       = "ServiceCIDRNotFound"
	reasonDeleting      = "ServiceCIDRDeleting"
	reasonUnready       = "ServiceCIDRNotReady"
	reasonNoRange       = "NoRange"
	reasonNotReserved   = "ReservationsNotInPlace"
	reasonNotYetWritten = "ReservationsPending"
)

// conditionsOf returns those of a policy. Times are the caller's to add.
func conditionsOf(in inputs) []metav1.Condition {
	out := []metav1.Condition{accepted(in), conflicting(in), programmed(in)}
	return conditions.Observed(in.generation, append(out, ready(in, out[0], out[2]))...)
}

func accepted(in inputs) metav1.Condition {
	switch {
	case len(in.policy.Invalid) > 0:
		return conditions.New(v1alpha1.PolicyAccepted, metav1.ConditionFalse, ReasonInvalid,
			listed(in.policy.Invalid, "; ")+". Correct this in the spec; until then "+followed(in.policy)+".")
	case !in.asks:
		return conditions.New(v1alpha1.PolicyAccepted, metav1.ConditionTrue, reasonValid,
			"The policy names no ServiceCIDRs: it steers no Service, and keeps its reservations.")
	default:
		return conditions.New(v1alpha1.PolicyAccepted, metav1.ConditionTrue, reasonValid, "The policy can be followed.")
	}
}

// followed says what becomes of a policy with mistakes.
func followed(p *steering.Policy) string {
	switch p.Standing {
	case steering.AsBefore:
		return fmt.Sprintf("the policy is followed as it was in generation %d, the last whose selectors could be read", p.FollowedGeneration)
	case steering.Closed:
		return "the policy selects no Service, and if it is exclusive its ranges are closed to all: " +
			"since the operator was started it has seen no form of the policy whose selectors could be read"
	case steering.ClosedUnknown:
		return "the policy selects no Service and no range: since the operator was started it has seen no form of the policy " +
			"whose selectors could be read, so it cannot tell which ranges to close, and they are open; name them in spec.serviceCIDRs instead"
	default:
		return "what is wrong is left out"
	}
}

func conflicting(in inputs) metav1.Condition {
	if len(in.policy.Conflicts) == 0 {
		return conditions.New(v1alpha1.PolicyConflicting, metav1.ConditionFalse, reasonNoConflict, "No other policy wants the same.")
	}
	return conditions.New(v1alpha1.PolicyConflicting, metav1.ConditionTrue, ReasonOutranked,
		listed(in.policy.Conflicts, "; ")+". Change one of the policies, or the order of their priorities.")
}

// programmed says what is still missing. The reason is that of the first thing that does not come
// by itself.
func programmed(in inputs) metav1.Condition {
	var reasons, texts []string
	add := func(reason, text string) { reasons, texts = append(reasons, reason), append(texts, text) }
	if names := in.policy.Missing; len(names) > 0 {
		add(reasonMissing, named(names, "does not exist", "do not exist")+
			"; create what is missing, or take it out of spec.serviceCIDRs.")
	}
	if names := in.policy.Deleting; len(names) > 0 {
		add(reasonDeleting, named(names, "is being deleted, and gives out no address any more",
			"are being deleted, and give out no addresses any more")+"; give the policy another range.")
	}
	if names := in.policy.Unready; len(names) > 0 {
		add(reasonUnready, named(names, "is not ready yet", "are not ready yet")+"; see the condition Ready there.")
	}
	if in.asks && len(in.ranges) == 0 && len(texts) == 0 {
		add(reasonNoRange, noRange(in))
	}
	if in.absent > 0 {
		add(notReserved(in))
	}
	if lost := in.policy.Lost; len(lost) > 0 && !slices.Contains(reasons, reasonNoRange) { // whose text leads to Conflicting
		add(ReasonOutranked, "The policy does not have all that it asks for: "+listed(lost, "; ")+".")
	}
	if len(in.policy.Invalid) > 0 && len(texts) == 0 {
		add(ReasonInvalid, "Not all of the spec can be followed; see the condition Accepted.")
	}
	if len(texts) == 0 {
		return conditions.New(v1alpha1.PolicyProgrammed, metav1.ConditionTrue, reasonProgrammed, "The ranges are ready, and the reservations are in place.")
	}
	first := max(0, slices.IndexFunc(reasons, func(r string) bool { return r != reasonUnready && r != reasonNotYetWritten }))
	return conditions.New(v1alpha1.PolicyProgrammed, metav1.ConditionFalse, reasons[first], strings.Join(texts, " "))
}

// noRange says why a policy that asks for ranges has none, although all that it names are there.
func noRange(in inputs) string {
	switch {
	case len(in.policy.Conflicts) > 0:
		return "The policy has no range left; see the condition Conflicting."
	case len(in.policy.Invalid) > 0:
		return "The policy has no range; see the condition Accepted."
	case in.selects:
		return "No ServiceCIDR has the labels of spec.serviceCIDRSelector; label one, or correct the selector."
	default:
		return "The ServiceCIDRs of the policy have no usable range."
	}
}

// notReserved counts the reserved addresses that are not in place, and names the first.
func notReserved(in inputs) (reason, text string) {
	var shown []string
	for _, one := range in.first {
		why := one.why
		if why == "" {
			why = "it is being written"
		}
		shown = append(shown, fmt.Sprintf("%s of %s (%s)", one.address, one.reservation, why))
	}
	if more := in.absent - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	text = fmt.Sprintf("%d of %d reserved addresses %s not in place: %s.",
		in.absent, in.reserved, plural(in.absent, "is", "are"), strings.Join(shown, ", "))
	if in.absent == in.pending {
		return reasonNotYetWritten, text
	}
	return reasonNotReserved, text + " An address is kept as soon as no Service and no IPAddress has it any more."
}

// itemsShown bounds a condition's list.
const itemsShown = 10

// named names ServiceCIDRs and says something about them.
func named(names []string, one, many string) string {
	quoted := make([]string, 0, len(names))
	for _, n := range names {
		quoted = append(quoted, fmt.Sprintf("%q", n))
	}
	return plural(len(names), "ServiceCIDR ", "ServiceCIDRs ") + listed(quoted, ", ") + " " + plural(len(names), one, many)
}

// listed joins the first items and says how many there are beyond them.
func listed(items []string, by string) string {
	if more := len(items) - itemsShown; more > 0 {
		items = append(slices.Clone(items[:itemsShown]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(items, by)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
