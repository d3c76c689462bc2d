package renumber

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// KindPlan is the kind of a plan in a file.
const KindPlan = "RenumberingPlan"

// Keep says who serves the old addresses while they are still in use.
type Keep string

// The ways to keep an old address.
const (
	KeepAgent       Keep = "agent"       // the node agent serves it as an additional address
	KeepExternalIPs Keep = "externalIPs" // spec.externalIPs of the Service: any proxy serves it, and masquerades
	KeepService     Keep = "service"     // a second Service with the same selector has it: any proxy serves it
	KeepNone        Keep = "none"        // no proxy serves it: connections to it break
)

// keeps are all of them, keepWords the same as text.
var keeps = []Keep{KeepAgent, KeepExternalIPs, KeepService, KeepNone}

const keepWords = "agent, externalIPs, service, none"

// Plan is which Services are moved, and where to.
type Plan struct {
	// From and To are the ranges.
	From []netip.Prefix `json:"from"`
	To   []netip.Prefix `json:"to"`
	Keep Keep           `json:"keep"`
	// LoadBalancers says that Services of type LoadBalancer are moved too.
	LoadBalancers bool `json:"includeLoadBalancers,omitempty"`
	// Problems are why the plan as a whole cannot be run.
	Problems []string `json:"problems,omitempty"`
	// Elsewhere is who else knows From and not To, NotLookedAt what could not be looked at for that.
	Elsewhere   []Elsewhere `json:"knownElsewhere,omitempty"`
	NotLookedAt []string    `json:"notLookedAt,omitempty"`
	// Services are moved in this order: those that were asked for by name last.
	Services []Item `json:"services"`
	// LeftOut are Services with addresses in From that are not moved.
	LeftOut []LeftOut `json:"leftOut,omitempty"`
}

// Item is one Service that is moved.
type Item struct {
	Namespace string             `json:"namespace"`
	Name      string             `json:"name"`
	UID       types.UID          `json:"uid"`
	Type      corev1.ServiceType `json:"type"`
	// Old and New are spec.clusterIPs before and after; in families without a range they are equal.
	Old []netip.Addr `json:"old"`
	New []netip.Addr `json:"new"`
	// Balancer is a load balancer's status when the plan was made: it is moved while it has that.
	Balancer corev1.LoadBalancerStatus `json:"loadBalancer,omitzero"`
	// Named: an admin asked for this Service by name, so it moves even if something names its address.
	Named bool `json:"named,omitempty"`
}

// Key is the Service's name.
func (i Item) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: i.Namespace, Name: i.Name}
}

// Back is the item with old and new exchanged.
func (i Item) Back() Item {
	i.Old, i.New = i.New, i.Old
	return i
}

// leaves are the addresses that the Service gives up.
func (i Item) leaves() []netip.Addr { return without(i.Old, i.New) }

// takes are those that it gets.
func (i Item) takes() []netip.Addr { return without(i.New, i.Old) }

// without returns the addresses of the first list that are not in the second.
func without(all, others []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return slices.Contains(others, a) })
}

// LeftOut is a Service that is not moved.
type LeftOut struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Addresses []netip.Addr `json:"addresses"`
	Why       string       `json:"why"`
}

// Target is a range that Services are moved to.
type Target struct {
	allocator.Range
	ServiceCIDR string
	// Ready: API servers allocate from it.
	Ready bool
}

// Inputs is everything that a plan is made of.
type Inputs struct {
	From []allocator.Range
	To   []Target
	Keep Keep
	// Services are those that are looked at.
	Services []corev1.Service
	// Taken are all addresses that a Service or an IPAddress has.
	Taken sets.Set[netip.Addr]
	Rules Rules
}

// Validate reports what is wrong with a plan that may come from an edited file, not from NewPlan.
func (p Plan) Validate() error {
	if !slices.Contains(keeps, p.Keep) {
		return fmt.Errorf("keep %q is none of %s", p.Keep, keepWords)
	}
	seen, gets := sets.Set[types.NamespacedName]{}, sets.Set[netip.Addr]{}
	for _, i := range p.Services {
		families := func(a, b netip.Addr) bool { return a.IsValid() && b.IsValid() && a.Is4() == b.Is4() }
		switch {
		case i.Namespace == "" || i.Name == "" || i.UID == "":
			return fmt.Errorf("in its list, Service %s has no namespace, no name or no uid", i.Key())
		case i.Key() == apiServers && !i.Named:
			return fmt.Errorf("in its list, Service %s is that of the API servers, which has to be asked for by name: make the plan with --include", i.Key())
		case len(i.Old) == 0 || len(i.Old) > 2 || !slices.EqualFunc(i.Old, i.New, families):
			return fmt.Errorf("in its list, Service %s has old addresses %v and new ones %v: give as many, of the same families, in the same order", i.Key(), i.Old, i.New)
		case len(i.takes()) == 0:
			return fmt.Errorf("in its list, Service %s has the same addresses before and after", i.Key())
		case !lie(i.leaves(), p.From) || !lie(i.takes(), p.To):
			return fmt.Errorf("in its list, Service %s goes from %v to %v: what it leaves must lie in %v, and what it gets in %v", i.Key(), i.leaves(), i.takes(), p.From, p.To)
		case seen.Has(i.Key()) || gets.HasAny(i.takes()...):
			return fmt.Errorf("in its list, Service %s is listed twice, or another one gets its address", i.Key())
		}
		seen.Insert(i.Key())
		gets.Insert(i.takes()...)
	}
	return nil
}

// lie reports whether every address lies in one of the ranges.
func lie(all []netip.Addr, in []netip.Prefix) bool {
	return !slices.ContainsFunc(all, func(a netip.Addr) bool {
		return !slices.ContainsFunc(in, func(p netip.Prefix) bool { return p.Contains(a) })
	})
}

// NewPlan chooses new addresses for Services, for none if there are problems. It is pure.
func NewPlan(in Inputs) Plan {
	p := Plan{Keep: in.Keep, LoadBalancers: in.Rules.IncludeLoadBalancers, Services: []Item{}, Problems: in.problems()}
	for _, r := range in.From {
		p.From = append(p.From, r.Prefix())
	}
	for _, t := range in.To {
		p.To = append(p.To, t.Prefix())
	}
	firsts := in.firsts()
	draw := drawer{from: in.From, to: in.To, taken: in.Taken.Union(sets.New(firsts...))}
	problems, short := len(p.Problems) > 0, 0
	for _, s := range in.order() {
		item := in.item(&s)
		why := in.Rules.judge(&s, item.Named)
		if why == "" && in.Keep == KeepService {
			why = noSecond(&s)
		}
		switch {
		case why != "":
		case problems:
			why = "the plan has problems"
		case item.Key() == apiServers:
			why = in.fillFirst(&item, firsts)
		default:
			if why = draw.fill(&item); why != "" {
				short++
			}
		}
		if why != "" {
			p.LeftOut = append(p.LeftOut, LeftOut{Namespace: s.Namespace, Name: s.Name, Addresses: inside(in.From, item.Old), Why: why})
			continue
		}
		p.Services = append(p.Services, item)
	}
	if short > 0 {
		p.Problems = append(p.Problems, fmt.Sprintf("%s has no address left for %d of the Services: create a larger ServiceCIDR, or leave Services out with -n or -l", prefixes(p.To), short))
	}
	return p
}

// order returns the Services with addresses in the old ranges, ordinary ones first.
func (in Inputs) order() (out []corev1.Service) {
	for _, s := range in.Services {
		if len(inside(in.From, addresses(&s))) > 0 {
			out = append(out, s)
		}
	}
	last := func(s *corev1.Service) int {
		if in.Rules.Named.Has(nameOf(s)) {
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b corev1.Service) int {
		return cmp.Or(cmp.Compare(last(&a), last(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (in Inputs) item(s *corev1.Service) Item {
	return Item{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Type: s.Spec.Type, Old: addresses(s), Balancer: s.Status.LoadBalancer, Named: in.Rules.Named.Has(nameOf(s))}
}

func nameOf(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// problems are why no Service can be moved.
func (in Inputs) problems() (out []string) {
	for _, from := range in.From {
		for _, to := range in.To {
			if to.Prefix().Overlaps(from.Prefix()) {
				out = append(out, fmt.Sprintf("%s and %s overlap: move to a range that has no address of the old one", from, to))
			}
		}
		if !slices.ContainsFunc(in.To, func(to Target) bool { return to.Family() == from.Family() }) {
			out = append(out, fmt.Sprintf("%s is %s, and none of the new ranges is: name one in --to, or give the CIDR of the other family alone in --range", from, from.Family()))
		}
	}
	for _, to := range in.To {
		if !to.Ready {
			out = append(out, fmt.Sprintf("ServiceCIDR %s (%s) is not ready, so that no API server allocates from it: see its conditions", to.ServiceCIDR, to))
		}
	}
	return out
}

// inside returns those addresses that lie in one of the ranges.
func inside(ranges []allocator.Range, all []netip.Addr) (out []netip.Addr) {
	for _, a := range all {
		if slices.ContainsFunc(ranges, func(r allocator.Range) bool { return r.Prefix().Contains(a) }) {
			out = append(out, a)
		}
	}
	return out
}

func prefixes(all []netip.Prefix) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}
