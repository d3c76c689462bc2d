package reserve

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// inputs is everything that a plan follows from.
type inputs struct {
	// name is that of the first policy, and the value of LabelReserve on all of them.
	name string
	// namespace, selector and ranges say which Services and addresses are asked about; empty: all.
	namespace string
	selector  labels.Selector
	ranges    []allocator.Range
	// prune takes out the reservations of Services that are gone.
	prune bool
	// services are all of the namespace, policies all of the cluster.
	services []corev1.Service
	policies []v1alpha1.ServiceCIDRPolicy
	// byAPIServer are the addresses that no policy can reserve: those of Service default/kubernetes.
	byAPIServer []netip.Addr
}

// plan is how the policies should be, and what an admin is told of it.
type plan struct {
	// policies are those of the name, as they should be, the first at the top.
	policies []*v1alpha1.ServiceCIDRPolicy
	// addresses are kept for services, which exist.
	addresses, services int
	// gone are Services that are not there any more and whose reservations stay; pruned are those
	// whose reservations are taken out.
	gone, pruned []string
	// elsewhere says of addresses that they are left out, because another policy reserves them.
	elsewhere []string
	// moved says of addresses that they are not reserved for the Service of before any more, which is
	// gone or has others. It may have lost them in a restore without a webhook.
	moved []string
}

// newPlan decides what each policy reserves. The error says that the name is taken.
func newPlan(in inputs) (plan, error) {
	p := plan{}
	settled := in.settled()
	wanted := in.wanted(&p)
	for i := range in.policies {
		if o := &in.policies[i]; in.mine(o) {
			p.policies = append(p.policies, in.revised(o, wanted, settled, &p))
		}
	}
	slices.SortFunc(p.policies, func(a, b *v1alpha1.ServiceCIDRPolicy) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name)) // x-9 before x-10
	})
	if err := in.add(&p, wanted); err != nil {
		return plan{}, err
	}
	p.gone, p.pruned = distinct(p.gone), distinct(p.pruned)
	return p, nil
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// mine reports whether a policy is one of those that this command keeps up to date.
func (in inputs) mine(o *v1alpha1.ServiceCIDRPolicy) bool {
	return o.Labels[v1alpha1.LabelReserve] == in.name
}

// settled has the Services that exist, by namespace/name: true where the reservations of a Service
// are its addresses and no others. One that is not asked about keeps what it has, and so does one
// that is being renumbered, which has no address for a moment.
func (in inputs) settled() map[string]bool {
	all := make(map[string]bool, len(in.services))
	for i := range in.services {
		s := &in.services[i]
		all[nameOf(s)] = in.asked(s) && !v1alpha1.BeingRenumbered(s)
	}
	return all
}

func nameOf(s *corev1.Service) string { return s.Namespace + "/" + s.Name }

func (in inputs) asked(s *corev1.Service) bool { return in.selector.Matches(labels.Set(s.Labels)) }

// inRange reports whether an address is asked about.
func (in inputs) inRange(a netip.Addr) bool {
	return len(in.ranges) == 0 || slices.ContainsFunc(in.ranges, func(r allocator.Range) bool { return r.Prefix().Contains(a) })
}

// wanted maps the addresses to be reserved to their Services. What other policies reserve is left
// out, and told of unless it is for the same Service.
func (in inputs) wanted(p *plan) map[netip.Addr]string {
	others := in.others()
	wanted, services := map[netip.Addr]string{}, map[string]bool{}
	for i := range in.services {
		s := &in.services[i]
		for _, a := range addressindex.ClusterIPs(s) { // none of a headless or ExternalName one
			if !in.asked(s) || !in.inRange(a) || slices.Contains(in.byAPIServer, a) {
				continue
			}
			if r, reserved := others.Reservation(a); reserved {
				if r.For.String() != nameOf(s) {
					p.elsewhere = append(p.elsewhere, fmt.Sprintf("%s of Service %s (reservation %s of ServiceCIDRPolicy %s)", a, nameOf(s), r.Name, r.Policy))
				}
				continue
			}
			wanted[a] = nameOf(s)
			services[nameOf(s)] = true
		}
	}
	p.addresses, p.services = len(wanted), len(services)
	return wanted
}

// others are the reservations that this command leaves as they are: those of other policies, and
// what an admin has written into these.
func (in inputs) others() *steering.Compiled {
	var all []*v1alpha1.ServiceCIDRPolicy
	for i := range in.policies {
		o := &in.policies[i]
		if in.mine(o) {
			o = o.DeepCopy()
			o.Spec.Reservations = slices.DeleteFunc(o.Spec.Reservations, func(r v1alpha1.Reservation) bool { return addressOf(r).IsValid() })
		}
		all = append(all, o)
	}
	return steering.Compile(steering.Inputs{Policies: all})
}

// addressOf is the address that a reservation keeps for a Service, the zero Addr if it keeps more
// than one, or for no Service: no such reservation is written here.
func addressOf(r v1alpha1.Reservation) netip.Addr {
	a, err := netip.ParseAddr(r.Address)
	if err != nil || r.For == "" {
		return netip.Addr{}
	}
	return a
}

// revised is a policy with the reservations of before that stay. What stays of wanted is taken out
// of it. An address that has become another Service's is kept for that one in the same policy: two
// policies cannot reserve one address for a moment.
func (in inputs) revised(o *v1alpha1.ServiceCIDRPolicy, wanted map[netip.Addr]string, settled map[string]bool, p *plan) *v1alpha1.ServiceCIDRPolicy {
	out := o.DeepCopy()
	out.Spec.Reservations = []v1alpha1.Reservation{}
	for _, r := range o.Spec.Reservations {
		a := addressOf(r)
		if service, ok := wanted[a]; ok {
			if r.For != service {
				p.moved = append(p.moved, fmt.Sprintf("%s from Service %s to %s", a, r.For, service))
			}
			r.For = service
			delete(wanted, a)
		} else if a.IsValid() && !in.stays(r, a, settled, p) {
			continue
		}
		out.Spec.Reservations = append(out.Spec.Reservations, r)
	}
	return out
}

// stays reports whether a reservation stays whose Service does not have the address now.
func (in inputs) stays(r v1alpha1.Reservation, a netip.Addr, settled map[string]bool, p *plan) bool {
	namespace, _, _ := strings.Cut(r.For, "/")
	has, exists := settled[r.For]
	switch {
	case in.namespace != "" && namespace != in.namespace, !in.inRange(a):
		return true // not asked about
	case exists:
		if has {
			p.moved = append(p.moved, fmt.Sprintf("%s from Service %s, which does not have it now", a, r.For))
		}
		return !has
	case in.prune:
		p.pruned = append(p.pruned, r.For)
		return false
	default:
		p.gone = append(p.gone, r.For)
		return true
	}
}

// add puts new reservations where there is room, and into further policies.
func (in inputs) add(p *plan, wanted map[netip.Addr]string) error {
	fresh := slices.SortedFunc(maps.Keys(wanted), netip.Addr.Compare)
	for i := 0; len(fresh) > 0; i++ {
		if i == len(p.policies) {
			name, err := in.nextName(p)
			if err != nil {
				return err
			}
			p.policies = append(p.policies, &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{v1alpha1.LabelReserve: in.name},
			}})
		}
		to := p.policies[i]
		n := min(room(to), len(fresh))
		for _, a := range fresh[:n] {
			to.Spec.Reservations = append(to.Spec.Reservations, v1alpha1.Reservation{Name: reservationName(a), Address: a.String(), For: wanted[a]})
		}
		fresh = fresh[n:]
	}
	return nil
}

// room is how many more addresses a policy may reserve.
func room(o *v1alpha1.ServiceCIDRPolicy) int {
	left := uint64(steering.MaxReserved)
	for _, r := range o.Spec.Reservations {
		if span, err := steering.ParseReservation(r.Address); err == nil {
			left -= min(left, span.Size())
		}
	}
	return int(left)
}

// reservationName tells the reservations of a policy apart. It has 39 characters at most.
func reservationName(a netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.StringExpanded())
}

// nextName is a name that no policy has: NAME, NAME-2, NAME-3 and so on.
func (in inputs) nextName(p *plan) (string, error) {
	used := map[string]bool{}
	for _, o := range in.policies {
		used[o.Name] = true
	}
	for _, o := range p.policies {
		used[o.Name] = true
	}
	if used[in.name] && len(p.policies) == 0 {
		return "", fmt.Errorf("ServiceCIDRPolicy %s is there, and this command has not made it; give another --name", in.name)
	}
	name := in.name
	for n := 2; used[name]; n++ {
		name = fmt.Sprintf("%s-%d", in.name, n)
	}
	return name, nil
}
