package additional

import (
	"fmt"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// verdict says what to do for a Service.
type verdict struct {
	// release are the IPAddresses that it may not have any more.
	release []held
	// draw are the slots to fill.
	draw []slot
	// complaints say, each once, why an address is lacking; in the order of the wish.
	complaints []string
}

// idle reports whether all is as it should be.
func (v verdict) idle() bool {
	return len(v.release) == 0 && len(v.draw) == 0 && len(v.complaints) == 0
}

// decide judges a Service.
func decide(w world) verdict {
	filled, release := w.sort()
	v := verdict{release: release}
	if w.service == nil || w.service.deleting {
		return v // nothing is begun for a Service that goes, and what it has it has to the end
	}
	if junk := w.service.wish.Junk; junk != nil {
		v.complaints = []string{fmt.Sprintf("the annotation %s cannot be read: %v", v1alpha1.AnnotationAdditionalFrom, junk)}
	}
	for _, name := range w.service.wish.From {
		v.fill(w, name, filled)
	}
	return v
}

// sort tells the addresses that the Service has by right, one for each slot, from those to be released. Of two for one slot, which a
// change of leader may leave behind, the lower one stays.
func (w world) sort() (filled map[slot]held, release []held) {
	filled = map[slot]held{}
	byAddress := func(a, b held) int { return a.address.Compare(b.address) }
	for _, h := range slices.SortedFunc(slices.Values(w.held), byAddress) {
		if _, twice := filled[h.slot()]; twice || !w.rightful(h) {
			release = append(release, h)
			continue
		}
		filled[h.slot()] = h
	}
	return filled, release
}

// rightful reports whether the Service may keep an address. A ServiceCIDR that is gone, or going, takes nothing away; one that was
// made anew with another range does.
func (w world) rightful(h held) bool {
	if w.service == nil || h.service != w.service.uid || !w.service.wish.Keeps(h.serviceCIDR, h.address.Is4()) {
		return false
	}
	o := w.offers[h.slot()]
	return !o.exists || slices.ContainsFunc(o.ranges, func(r allocator.Range) bool { return r.Contains(h.address) })
}

// fill decides about the slots of one ServiceCIDR.
func (v *verdict) fill(w world, name string, filled map[slot]held) {
	var open, offered bool
	for _, is4 := range w.service.wish.Families() {
		at := slot{name, is4}
		o := w.offers[at]
		_, has := filled[at]
		open = open || o.exists && !o.deleting
		offered = offered || has || len(o.ranges) > 0
		switch text := o.complaint(at); {
		case has:
		case text != "":
			v.complain(text)
		case len(o.ranges) > 0:
			v.draw = append(v.draw, at)
		}
	}
	if open && !offered {
		v.complain(fmt.Sprintf("ServiceCIDR %s has no range of a family of the Service", name))
	}
}

// complaint says why the slot cannot be filled; empty when it can, or when the ServiceCIDR is not of that family.
func (o offer) complaint(at slot) string {
	switch {
	case !o.exists:
		return fmt.Sprintf("ServiceCIDR %s does not exist", at.serviceCIDR)
	case o.deleting:
		return fmt.Sprintf("ServiceCIDR %s is being deleted", at.serviceCIDR)
	case len(o.ranges) == 0:
		return ""
	case o.refusal != "":
		return o.refusal
	case !o.ready:
		return fmt.Sprintf("ServiceCIDR %s is not ready", at.serviceCIDR)
	case len(o.tiers) == 0:
		return full(at) // reservations keep all of it
	default:
		return ""
	}
}

func full(at slot) string {
	return fmt.Sprintf("no %s address is left in ServiceCIDR %s", at.family(), at.serviceCIDR)
}

// complain adds what was not said yet: both families often lack for one reason.
func (v *verdict) complain(text string) {
	if !slices.Contains(v.complaints, text) {
		v.complaints = append(v.complaints, text)
	}
}
