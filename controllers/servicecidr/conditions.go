package servicecidr

import (
	"fmt"
	"math"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/wording"
)

// namesShown bounds what a condition or an event lists by name.
const namesShown = 10

// ready is upstream's condition to the letter: an empty reason included.
func ready() metav1.Condition {
	return metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue,
		Message: "Kubernetes Service CIDR is ready",
	}
}

// terminatingPrefix is how our own words for a ServiceCIDR that is being deleted begin.
const terminatingPrefix = "The ServiceCIDR is being deleted: "

// terminating keeps upstream's reason; why is ours, and kube-controller-manager's words are as good.
func terminating(why string) metav1.Condition {
	return metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse,
		Reason: networkingv1.ServiceCIDRReasonTerminating, Message: terminatingPrefix + why,
	}
}

// deletionBlocked names what blocks in no more than limit bytes.
func deletionBlocked(w world, limit int) metav1.Condition {
	remedy := ". Delete these, or create a ServiceCIDR that holds their addresses."
	if w.orphans == 1 {
		remedy = ". Delete it, or create a ServiceCIDR that holds its address."
	}
	before := plural(w.orphans, "address", "addresses") + " would be left without a ServiceCIDR: "
	return metav1.Condition{
		Type: v1alpha1.ConditionDeletionBlocked, Status: metav1.ConditionTrue, Reason: "AddressesInUse",
		Message: framed(before, w.blockers, w.orphans, remedy, limit),
	}
}

func deletionFree() metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionDeletionBlocked, Status: metav1.ConditionFalse, Reason: "NothingInUse",
		Message: "No address would be left without a ServiceCIDR.",
	}
}

// usageConditions tell how full the bands are and what else uses the networks.
func usageConditions(w world) []metav1.Condition {
	return []metav1.Condition{
		nearlyFull(w),
		bandFull(w, allocator.Dynamic, v1alpha1.ConditionDynamicBandFull,
			"Services that ask for no particular address are given one from the static band, or from another ServiceCIDR, or none; create a ServiceCIDR."),
		bandFull(w, allocator.Static, v1alpha1.ConditionStaticBandFull,
			"No address is left that dynamic allocation keeps away from; create a ServiceCIDR for fixed addresses."),
		networkOverlap(w, math.MaxInt),
	}
}

// nearlyFull is worded in steps, so that the object is not written for every single allocation: the exact
// figures are metrics.
func nearlyFull(w world) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionNearlyFull, Status: metav1.ConditionFalse, Reason: "EnoughFree",
		Message: "Every band has free addresses enough.",
	}
	var bands []string
	for _, b := range w.bands {
		switch {
		case b.scarce(w.limits.FreePercent):
			c.Reason = "FewFree"
		case b.soon(w.limits.Within):
			if c.Reason != "FewFree" {
				c.Reason = "FullSoon"
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

// describe says how full a band is, in steps of five percent, and when it will be full, in steps that double.
func (b bandUse) describe() string {
	percent := 100 - int(float64(b.usage.Free)/float64(b.usage.Size)*100)
	text := fmt.Sprintf("The %s band of %s is over %d %% in use", b.band, b.cidr, min(percent/5*5, 99))
	if b.full() {
		text = fmt.Sprintf("The %s band of %s is full", b.band, b.cidr)
	} else if d, ok := b.left(); ok {
		text += ", full in " + roughly(d)
	}
	return text
}

func bandFull(w world, band allocator.Band, kind, consequence string) metav1.Condition {
	var full []string
	for _, b := range w.bands {
		if b.band == band && b.full() {
			full = append(full, b.cidr.String())
		}
	}
	if len(full) == 0 {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "AddressesFree",
			Message: fmt.Sprintf("The %s band has free addresses.", band)}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "NoAddressFree",
		Message: fmt.Sprintf("The %s band of %s is full. %s", band, strings.Join(full, " and "), consequence)}
}

// networkOverlap names what overlaps in no more than limit bytes.
func networkOverlap(w world, limit int) metav1.Condition {
	if len(w.overlaps) == 0 {
		return metav1.Condition{Type: v1alpha1.ConditionNetworkOverlap, Status: metav1.ConditionFalse, Reason: "NoOverlap",
			Message: "No node, pod or declared network overlaps."}
	}
	names := make([]string, 0, len(w.overlaps))
	for _, n := range w.overlaps {
		names = append(names, fmt.Sprintf("%s (%s)", n.Prefix, n.Owner))
	}
	return metav1.Condition{Type: v1alpha1.ConditionNetworkOverlap, Status: metav1.ConditionTrue, Reason: "Overlap",
		Message: framed("Overlaps ", names, uint64(len(names)),
			". Traffic to these addresses may be taken for Service traffic; move one of the two.", limit)}
}

// note is what the event of a condition says: the condition's own words, with fewer names where they are too long.
func note(w world, c metav1.Condition) string {
	switch {
	case len(c.Message) <= noteLimit:
		return c.Message
	case c.Type == v1alpha1.ConditionDeletionBlocked:
		return deletionBlocked(w, noteLimit).Message
	case c.Type == v1alpha1.ConditionNetworkOverlap:
		return networkOverlap(w, noteLimit).Message
	default:
		return wording.Cut(c.Message, noteLimit)
	}
}
