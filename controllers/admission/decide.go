package admission

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// inputs are what is known about one request. decide reads nothing else.
type inputs struct {
	request
	// subject is what policies see of the Service.
	subject  steering.Service
	policies *steering.Compiled
	// chosen are the addresses that the request names, with who has them.
	chosen []choice
}

type choice struct {
	address netip.Addr
	state   allocator.State
	// coolDown is set while the address cools down.
	coolDown *addressindex.CoolDown
	// holder is another Service that lives and has the address, whether its IPAddress is there or not.
	holder types.NamespacedName
}

// decision is the answer to a request before an address is drawn. The zero decision lets it pass.
type decision struct {
	// refusal is set when the Service may not have what it asks for.
	refusal *steering.Refusal
	// take are addresses that the request names, to be put in flight; our IPAddress there makes room.
	take []netip.Addr
	// have are the addresses that the Service has without a draw, as they stand in its spec.
	have []string
	// fill are the addresses to be drawn, behind those.
	fill     []slot
	warnings []string
}

type slot struct {
	family allocator.Family
	// reserved are the reservations for the Service, which come before everything that is drawn.
	reserved []steering.Reservation
	route    *steering.Route
}

func decide(in inputs) decision {
	if r := refuse(in); r != nil {
		return decision{refusal: r}
	}
	d := decision{}
	if d.refusal, d.warnings = in.additional(); d.refusal != nil {
		return d
	}
	for _, c := range in.chosen {
		d.take = append(d.take, c.address)
	}
	for _, f := range in.missing(in.policies.Families()) {
		reserved := in.policies.ReservedFor(in.subject.NamespacedName, f)
		d.fill = append(d.fill, slot{f, reserved, in.policies.Route(in.subject, f)})
	}
	for _, c := range in.keeps {
		d.have = append(d.have, c.text)
	}
	return d
}

// refuse finds an address that the request names and that another Service has. It also checks what
// an earlier request of the same name was given, because that one may have had other labels.
func refuse(in inputs) *steering.Refusal {
	if c := in.misspelt; c.text != "" {
		return &steering.Refusal{Message: fmt.Sprintf("spec.clusterIPs: write the address in its shortest form, in lower case: %s instead of %s",
			c.address, c.text)}
	}
	for _, c := range in.chosen {
		if r := in.policies.MayHold(c.address, in.subject); r != nil {
			return r
		}
		if r := in.refuseCooling(c); r != nil {
			return r
		}
		if c.holder.Name != "" {
			return steering.Taken("", c.address, fmt.Sprintf("Service %s has the address %s", c.holder, c.address))
		}
	}
	return nil
}

// refuseCooling keeps a cooling address for the Service that had it.
func (in inputs) refuseCooling(c choice) *steering.Refusal {
	if c.coolDown == nil || c.coolDown.Service == in.subject.NamespacedName || c.state != allocator.Cooling {
		return nil
	}
	if _, reserved := in.policies.Reservation(c.address); reserved {
		return nil // for this Service, or it would have been refused before
	}
	d, policy := in.policies.CoolDown(c.address)
	if policy == nil {
		return nil
	}
	return steering.Cools(policy.Name, c.address, c.coolDown.Released.Add(d), c.coolDown.Service, in.subject.NamespacedName)
}

// additional checks the annotation that asks for additional addresses, when it is new. What the
// Service asks for already it keeps: where a range was cordoned since, or given to another policy,
// the owner of the Service can still ask for more, and for less.
func (in inputs) additional() (*steering.Refusal, []string) {
	asked := in.service.Metadata.Annotations[v1alpha1.AnnotationAdditionalFrom]
	var before []string
	if in.old != nil {
		if in.old.Metadata.Annotations[v1alpha1.AnnotationAdditionalFrom] == asked {
			return nil, nil
		}
		before, _ = steering.ParseFrom(in.old.Metadata.Annotations[v1alpha1.AnnotationAdditionalFrom]) // what it asked for, if it was well-formed
	}
	names, err := steering.ParseFrom(asked)
	if err != nil {
		return &steering.Refusal{Message: fmt.Sprintf("annotation %s: %v; write names of ServiceCIDRs, separated by commas",
			v1alpha1.AnnotationAdditionalFrom, err)}, nil
	}
	var unknown []string
	for _, name := range names {
		if slices.Contains(before, name) {
			continue
		}
		if refusal := in.policies.AllowsAdditional(in.subject, name); refusal != nil {
			return &steering.Refusal{Message: fmt.Sprintf("annotation %s: %s", v1alpha1.AnnotationAdditionalFrom, refusal.Message)}, nil
		}
		for _, f := range allocator.Families {
			if _, refusal := in.policies.Additional(in.subject, name, f); refusal != nil {
				return refusal, nil
			}
		}
		if !in.policies.Knows(name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, []string{fmt.Sprintf("annotation %s: there is no ServiceCIDR %s yet; the Service gets its address when there is",
			v1alpha1.AnnotationAdditionalFrom, strings.Join(unknown, ", "))}
	}
	return nil, nil
}
