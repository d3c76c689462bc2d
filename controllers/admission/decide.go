package admission

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/ledger"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// world is what is known about one request. decide reads nothing else.
type world struct {
	service, old *service
	// subject is what policies see of the Service.
	subject  steering.Service
	snapshot *steering.Snapshot
	// chosen are the addresses that the request names.
	chosen []choice
}

// choice is an address that a request names, and what the books say about it.
type choice struct {
	address netip.Addr
	state   allocator.State
	// rest is set while the address rests.
	rest *ledger.Rest
	// ours: this process filled it in, in an earlier round of the same request.
	ours bool
}

// verdict is the answer to a request, as far as it can be given without drawing an address. The zero verdict lets the request pass.
type verdict struct {
	// refusal is set when the Service may not have what it asks for.
	refusal *steering.Refusal
	// take are addresses that the request names, to be taken in memory; what we keep there for the Service has to make room.
	take []netip.Addr
	// have are the addresses that the Service will have anyway, as they stand in the request or the Service before it.
	have []string
	// fill are the addresses to be drawn, behind those.
	fill     []slot
	warnings []string
}

// slot is an address to be found.
type slot struct {
	is4 bool
	// kept are the reservations for the Service, which come before everything that is drawn.
	kept  []steering.Reservation
	route *steering.Route
}

// decide judges a request.
func decide(w world) verdict {
	if r := refuse(w); r != nil {
		return verdict{refusal: r}
	}
	v := verdict{}
	if v.refusal, v.warnings = w.additional(); v.refusal != nil {
		return v
	}
	for _, c := range w.chosen {
		if !c.ours {
			v.take = append(v.take, c.address)
		}
	}
	for _, is4 := range missing(w.service, w.old, w.snapshot.Families()) {
		v.fill = append(v.fill, w.slot(is4))
	}
	v.have = keeps(w.service, w.old)
	return v
}

// refuse finds an address that the request names and that is somebody else's.
func refuse(w world) *steering.Refusal {
	for _, c := range w.chosen {
		if c.ours {
			continue
		}
		if r := w.snapshot.MayHold(c.address, w.subject); r != nil {
			return r
		}
		if r := w.refuseResting(c); r != nil {
			return r
		}
	}
	return nil
}

// refuseResting keeps a resting address for the Service that had it.
func (w world) refuseResting(c choice) *steering.Refusal {
	if c.rest == nil || c.rest.Service == w.subject.NamespacedName || c.state != allocator.Cooling {
		return nil
	}
	if _, reserved := w.snapshot.Reservation(c.address); reserved {
		return nil // for this Service, or it would have been refused before
	}
	d, policy := w.snapshot.CoolDown(c.address)
	if policy == nil {
		return nil
	}
	return &steering.Refusal{Policy: policy.Name, Message: fmt.Sprintf(
		"ServiceCIDRPolicy %q: the address %s rests until %s after Service %s had it; choose another address, or leave the choice to the cluster",
		policy.Name, c.address, c.rest.Released.Add(d).UTC().Format(time.RFC3339), c.rest.Service)}
}

// slot says where an address of a family comes from.
func (w world) slot(is4 bool) slot {
	s := slot{is4: is4, route: w.snapshot.Route(w.subject, is4)}
	for _, r := range w.snapshot.ReservedFor(w.subject.NamespacedName) {
		if r.Span.First.Is4() == is4 {
			s.kept = append(s.kept, r)
		}
	}
	return s
}

// additional judges the annotation that asks for additional addresses, when it is new.
func (w world) additional() (*steering.Refusal, []string) {
	asked := w.service.Metadata.Annotations[v1alpha1.AnnotationAdditionalFrom]
	if w.old != nil && w.old.Metadata.Annotations[v1alpha1.AnnotationAdditionalFrom] == asked {
		return nil, nil
	}
	names, err := steering.ParseFrom(asked)
	if err != nil {
		return &steering.Refusal{Message: fmt.Sprintf("annotation %s: %v; write names of ServiceCIDRs, separated by commas",
			v1alpha1.AnnotationAdditionalFrom, err)}, nil
	}
	var unknown []string
	for _, name := range names {
		if !w.snapshot.Knows(name) {
			unknown = append(unknown, name)
		}
		for _, is4 := range []bool{true, false} {
			if _, refusal := w.snapshot.Additional(w.subject, name, is4); refusal != nil {
				return refusal, nil
			}
		}
	}
	if len(unknown) > 0 {
		return nil, []string{fmt.Sprintf("annotation %s: there is no ServiceCIDR %s yet; the Service gets its address when there is",
			v1alpha1.AnnotationAdditionalFrom, strings.Join(unknown, ", "))}
	}
	return nil, nil
}
