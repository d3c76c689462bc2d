package additional

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// inputs is all that is known of one Service and its additional addresses. decide reads only this.
type inputs struct {
	now  time.Time
	name types.NamespacedName
	// service is nil when there is none.
	service *service
	// held are the IPAddresses of ours that name the Service, in no order.
	held []held
	// offers are what can be had, for every slot that may be filled.
	offers map[slot]offer
}

// service is what matters of a Service.
type service struct {
	uid      types.UID
	version  string // resourceVersion
	created  time.Time
	deleting bool
	asks     steering.AdditionalRequest
}

// slot is a place for one address: of one family, from one ServiceCIDR.
type slot struct {
	serviceCIDR string
	family      allocator.Family
}

// held is an additional IPAddress.
type held struct {
	address netip.Addr
	uid     types.UID
	// serviceCIDR and service (a UID) are who it was drawn from, and for.
	serviceCIDR string
	service     types.UID
	// former: the Service had it before renumbering. It was drawn from nowhere, and takes no slot.
	former bool
	// deleted is when the object was deleted, which a finalizer holds; zero if it was not.
	deleted time.Time
}

func (h held) slot() slot { return slot{h.serviceCIDR, allocator.FamilyOf(h.address)} }

// offer says whether an address can be had for a slot. Zero value: the ServiceCIDR does not exist.
type offer struct {
	exists, deleting, ready bool
	// ranges are those of the family.
	ranges []allocator.Range
	// refusal says why this Service gets none, whether there is such a ServiceCIDR or not;
	// otherwise tiers are what to draw from. Both are known of empty slots only.
	refusal string
	tiers   []*allocator.Tier
}

// decision says what to do for a Service.
type decision struct {
	// release are the IPAddresses that it may not have any more.
	release []held
	// draw are the slots to fill.
	draw []slot
	// complaints say, each once, why an address is lacking, in the order of ServiceCIDRs asked for.
	complaints []string
}

// idle reports whether all is as it should be.
func (d decision) idle() bool {
	return len(d.release) == 0 && len(d.draw) == 0 && len(d.complaints) == 0
}

// decide says what to do for a Service.
func decide(in inputs) decision {
	filled, release := in.slots()
	d := decision{release: release}
	if in.service == nil || in.service.deleting {
		return d // nothing is begun for a Service that goes, and what it has it has to the end
	}
	d.unreadable(v1alpha1.AnnotationAdditionalFrom, in.service.asks.FromError)
	d.unreadable(v1alpha1.AnnotationFormerIPs, in.service.asks.FormerError)
	for _, name := range in.service.asks.From {
		d.fill(in, name, filled)
	}
	return d
}

// slots tells the addresses that the Service has by right, one for each slot, from those to be
// released. Of two for one slot, which a change of leader may leave behind, the lower one stays.
func (in inputs) slots() (filled map[slot]held, release []held) {
	filled = map[slot]held{}
	byAddress := func(a, b held) int { return a.address.Compare(b.address) }
	for _, h := range slices.SortedFunc(slices.Values(in.held), byAddress) {
		_, twice := filled[h.slot()]
		switch {
		case !in.rightful(h), twice && !h.former:
			release = append(release, h)
		case !h.former:
			filled[h.slot()] = h
		}
	}
	return filled, release
}

// rightful reports whether the Service may keep an address. A ServiceCIDR that is gone or going
// takes nothing away; one that was created anew with another range does.
func (in inputs) rightful(h held) bool {
	switch {
	case in.service == nil || !in.service.isOf(h):
		return false
	case h.former:
		return in.service.asks.KeepsFormer(h.address)
	case !in.service.asks.Keeps(h.serviceCIDR, allocator.FamilyOf(h.address)):
		return false
	}
	o := in.offers[h.slot()]
	return !o.exists || slices.ContainsFunc(o.ranges, func(r allocator.Range) bool { return r.Contains(h.address) })
}

// isOf tells the Service of an address from another one of the same name. A former address has no
// UID until renumbering writes it: its Service existed when the API server let go of the address.
func (s *service) isOf(h held) bool {
	if h.former && h.service == "" {
		return !s.created.After(h.deleted)
	}
	return s.uid == h.service
}

// fill decides about the slots of one ServiceCIDR.
func (d *decision) fill(in inputs, name string, filled map[slot]held) {
	// Where no policy allows it, only a Service with an address there learns of the ServiceCIDR.
	var open, offered bool
	known := filled[slot{name, allocator.IPv4}].address.IsValid() || filled[slot{name, allocator.IPv6}].address.IsValid()
	for _, f := range in.service.asks.Families {
		at := slot{name, f}
		o := in.offers[at]
		_, has := filled[at]
		open = open || o.exists && !o.deleting && (known || o.refusal == "")
		offered = offered || has || len(o.ranges) > 0
		switch text := o.complaint(at, known); {
		case has:
		case text != "":
			d.complain(text)
		case len(o.ranges) > 0:
			d.draw = append(d.draw, at)
		}
	}
	if open && !offered {
		d.complain(fmt.Sprintf("ServiceCIDR %s has no range of a family of the Service", name))
	}
}

// complaint says why a slot cannot be filled; empty if it can or its ServiceCIDR lacks the family.
func (o offer) complaint(at slot, known bool) string {
	switch {
	case o.exists && !o.deleting && len(o.ranges) == 0 && (known || o.refusal == ""):
		return ""
	case o.refusal != "":
		return o.refusal
	case !o.exists:
		return fmt.Sprintf("ServiceCIDR %s does not exist", at.serviceCIDR)
	case o.deleting:
		return fmt.Sprintf("ServiceCIDR %s is being deleted", at.serviceCIDR)
	case !o.ready:
		return fmt.Sprintf("ServiceCIDR %s is not ready", at.serviceCIDR)
	case len(o.tiers) == 0:
		return full(at) // reservations keep all of it
	default:
		return ""
	}
}

func full(at slot) string {
	return fmt.Sprintf("no %s address is left in ServiceCIDR %s", at.family, at.serviceCIDR)
}

func (d *decision) unreadable(annotation string, err error) {
	if err != nil {
		d.complain(fmt.Sprintf("the annotation %s cannot be read: %v", annotation, err))
	}
}

// complain adds what was not said yet: both families often lack an address for one reason.
func (d *decision) complain(text string) {
	if !slices.Contains(d.complaints, text) {
		d.complaints = append(d.complaints, text)
	}
}
