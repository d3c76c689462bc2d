package servicecidr

import (
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/refusal"
	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

// namesShown bounds what a condition or an event lists by name.
const namesShown = 10

const (
	// ReasonEnoughFree of the condition NearlyFull: no band is.
	ReasonEnoughFree = "EnoughFree"
	// ReasonFullSoon of the condition NearlyFull: the forecast says so, and nothing else.
	ReasonFullSoon = "FullSoon"
)

// ready is upstream's condition to the letter: an empty reason included.
func ready() metav1.Condition {
	return conditions.New(networkingv1.ServiceCIDRConditionReady, metav1.ConditionTrue, "", "Kubernetes Service CIDR is ready")
}

// terminatingPrefix is how our own words for a ServiceCIDR that is being deleted begin.
const terminatingPrefix = "The ServiceCIDR is being deleted: "

// terminating keeps upstream's reason; why is ours, and kube-controller-manager's is as good.
func terminating(why string) metav1.Condition {
	return conditions.New(networkingv1.ServiceCIDRConditionReady, metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating, terminatingPrefix+why)
}

// deletionBlocked names what blocks, if anything does.
func deletionBlocked(in inputs) metav1.Condition {
	if in.orphans == 0 {
		return conditions.New(v1alpha1.ConditionDeletionBlocked, metav1.ConditionFalse, "NothingInUse", "No address would be left without a ServiceCIDR.")
	}
	remedy := ". Delete these, or create a ServiceCIDR that holds their addresses."
	if in.orphans == 1 {
		remedy = ". Delete it, or create a ServiceCIDR that holds its address."
	}
	before := plural(in.orphans, "address", "addresses") + " would be left without a ServiceCIDR: "
	return conditions.New(v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue, "AddressesInUse", framed(before, in.blockers, in.orphans, remedy))
}

// usageConditions tell how full the bands are and what else uses the networks.
func usageConditions(in inputs) []metav1.Condition { return append(fullness(in), networkOverlap(in)) }

// fullness tells how full the bands are. Cordoned ranges are left out.
func fullness(in inputs) []metav1.Condition {
	if !in.deleted.IsZero() {
		return unused(networkingv1.ServiceCIDRReasonTerminating, terminatingPrefix+"no address is drawn from it.")
	}
	all := in.bands
	if in.bands = slices.DeleteFunc(slices.Clone(all), func(b bandUse) bool { return b.cordoned != "" }); len(all) > 0 && len(in.bands) == 0 {
		return unused("Cordoned", fmt.Sprintf("ServiceCIDRPolicy %q has cordoned it: no address of it is given out.", all[0].cordoned))
	}
	return []metav1.Condition{
		nearlyFull(in),
		bandFull(in, allocator.Dynamic, v1alpha1.ConditionDynamicBandFull,
			"Services that ask for no particular address are given one from the static band, or from another ServiceCIDR, or none; create a ServiceCIDR."),
		bandFull(in, allocator.Static, v1alpha1.ConditionStaticBandFull,
			"No address is left that dynamic allocation keeps away from; create a ServiceCIDR for fixed addresses."),
	}
}

// unused are the conditions of a ServiceCIDR of which no address is given out, so that it is not
// full for any Service.
func unused(reason, why string) (out []metav1.Condition) {
	for _, kind := range []string{v1alpha1.ConditionNearlyFull, v1alpha1.ConditionDynamicBandFull, v1alpha1.ConditionStaticBandFull} {
		out = append(out, conditions.New(kind, metav1.ConditionFalse, reason, why))
	}
	return out
}

// nearlyFull is worded in steps, lest each allocation writes the object: exact figures are metrics.
func nearlyFull(in inputs) metav1.Condition {
	c := conditions.New(v1alpha1.ConditionNearlyFull, metav1.ConditionFalse, ReasonEnoughFree, "Every band has addresses enough left.")
	var bands []string
	for _, b := range in.bands {
		switch {
		case b.scarce(in.limits.FreePercent):
			c.Reason = "FewFree"
		case b.soon(in.limits.Within):
			if c.Reason != "FewFree" {
				c.Reason = ReasonFullSoon
			}
		default:
			continue
		}
		bands = append(bands, b.describe())
	}
	if len(bands) > 0 {
		c.Status = metav1.ConditionTrue
		c.Message = strings.Join(bands, ". ") + ". Create another ServiceCIDR before allocation fails."
	}
	return c
}

// describe says how full a band is, in steps of 5 %, and when it will be full, in doubling steps.
func (b bandUse) describe() string {
	percent := 100 - int(float64(b.available())/float64(b.usage.Size)*100)
	text := fmt.Sprintf("The %s band of %s is over %d %% in use", b.band, b.cidr, min(percent/5*5, 99))
	if b.full() {
		text = fmt.Sprintf("The %s band of %s is full", b.band, b.cidr)
	} else if d, ok := b.left(); ok {
		text += ", full in " + roughly(d)
	}
	return text
}

func bandFull(in inputs, band allocator.Band, kind, consequence string) metav1.Condition {
	var full []string
	for _, b := range in.bands {
		if b.band == band && b.full() {
			full = append(full, b.cidr.String())
		}
	}
	if len(full) == 0 {
		return conditions.New(kind, metav1.ConditionFalse, "AddressesFree", fmt.Sprintf("The %s band has addresses left.", band))
	}
	return conditions.New(kind, metav1.ConditionTrue, "NoAddressFree", fmt.Sprintf("The %s band of %s is full. %s", band, strings.Join(full, " and "), consequence))
}

// networkOverlap names what overlaps.
func networkOverlap(in inputs) metav1.Condition {
	if len(in.overlaps) == 0 {
		return conditions.New(v1alpha1.ConditionNetworkOverlap, metav1.ConditionFalse, "NoOverlap", "No node, pod or declared network overlaps.")
	}
	names := make([]string, 0, len(in.overlaps))
	for _, n := range in.overlaps {
		names = append(names, fmt.Sprintf("%s (%s)", n.Prefix, n.Owner))
	}
	return conditions.New(v1alpha1.ConditionNetworkOverlap, metav1.ConditionTrue, "Overlap",
		framed("Overlaps ", names, uint64(len(names)), ". Traffic to these addresses may be taken for Service traffic; move one of the two."))
}

// writesRefused names what is refused, and what an admin can do about each. The words of the API
// server stand at the end: they may be many.
func writesRefused(refused []refusal.Refused) metav1.Condition {
	if len(refused) == 0 {
		return conditions.New(v1alpha1.ConditionWritesRefused, metav1.ConditionFalse, "WritesTaken", "The API server takes the operator's writes of IPAddresses.")
	}
	texts := make([]string, 0, len(refused))
	for _, r := range refused {
		texts = append(texts, fmt.Sprintf("The API server refuses to %s IPAddresses for %s. Allow it to the operator's ServiceAccount%s. It said: %s",
			r.Operation, r.For, r.Remedy, r.Said))
	}
	return conditions.New(v1alpha1.ConditionWritesRefused, metav1.ConditionTrue, "Refused", strings.Join(texts, "\n"))
}

// framed puts a list into the middle of a sentence: the first names, and how many there are beyond
// them. The whole fits into an event, and the remedy at the end must not be cut off.
func framed[T any](before string, names []T, total uint64, after string) string {
	text, shown := before, uint64(0)
	for _, n := range names[:min(len(names), namesShown)] {
		next := text + fmt.Sprint(n)
		if shown > 0 {
			next = text + ", " + fmt.Sprint(n)
		}
		if len(next)+len(" and 18446744073709551615 more")+len(after) > wording.NoteLimit {
			break
		}
		text, shown = next, shown+1
	}
	if more := total - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + after
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// roughly words a duration in steps that double, so that a forecast is not rewritten as it creeps.
func roughly(d time.Duration) string {
	if d < time.Hour {
		return "less than an hour"
	}
	hours := 1
	for time.Duration(hours*2)*time.Hour <= d {
		hours *= 2
	}
	if hours >= 32 {
		return fmt.Sprintf("more than %s", plural(uint64(hours/24), "day", "days"))
	}
	return fmt.Sprintf("more than %s", plural(uint64(hours), "hour", "hours"))
}
