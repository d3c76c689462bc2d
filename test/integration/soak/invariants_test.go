package soak_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/traffic"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// acquisition is a Service that got an address, by its creation or by a change.
type acquisition struct {
	traffic.Event
	service string // namespace/name
	address string
	holders []string // other Services that had it at this moment, and had not been asked to give it up
}

// acquisitions replays API servers' logs. What a request gives up counts as free once it came, what
// it gets as taken once it was answered: addresses that two Services have here were really shared.
func acquisitions(events []traffic.Event) (all []acquisition) {
	type change struct {
		at time.Time
		do func()
	}
	var changes []change
	holders := map[string][]string{} // by address
	for _, e := range events {
		if e.Resource != "services" || !e.Succeeded() && (e.Verb != "delete" || e.Code < 500) {
			continue
		}
		service := e.Namespace + "/" + e.Name
		changes = append(changes, change{e.Received, func() {
			for address, those := range holders {
				if !slices.Contains(e.Addresses, address) {
					holders[address] = slices.DeleteFunc(those, func(other string) bool { return other == service })
				}
			}
		}}, change{e.Done, func() {
			for _, address := range e.Addresses {
				if !slices.Contains(holders[address], service) {
					all = append(all, acquisition{e, service, address, slices.Clone(holders[address])})
					holders[address] = append(holders[address], service)
				}
			}
		}})
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	for _, c := range changes {
		c.do()
	}
	return all
}

// Why an address is where no policy allows it.
const (
	isStranger = "a stranger in an exclusive range"
	isOutside  = "a tenant outside of its ranges"
)

// unsteered says why the address should not be the Service's, empty if it may be.
func (a acquisition) unsteered() string {
	switch inside := isExclusive(netip.MustParseAddr(a.address)); {
	case inside && a.Namespace != tenant:
		return isStranger
	case !inside && a.Namespace == tenant:
		return isOutside
	default:
		return ""
	}
}

// Who is the cause of a duplicate.
const (
	// byUpstream: the API server deleted a living Service's IPAddress, by name, in its repair or when
	// it deleted another Service that had the address before.
	byUpstream = "the API server"
	// byOutage: the IPAddress was missing, and no webhook answered that would have known.
	byOutage = "no webhook answered"
	byUs     = "the operator"
)

// duplicate is a Service that got an address which another Service had.
type duplicate struct {
	acquisition
	cause   string
	history []string // what became of the IPAddress meanwhile
}

// duplicates explains the acquisitions of addresses that another Service had.
func duplicates(events []traffic.Event, all []acquisition) (found []duplicate) {
	for _, a := range all {
		if len(a.holders) > 0 {
			d := duplicate{acquisition: a}
			d.explain(events)
			found = append(found, d)
		}
	}
	return found
}

// explain reads the IPAddress's writes until the Service had it: its last owner, and its deleter.
func (d *duplicate) explain(events []traffic.Event) {
	var owner, deletedBy string
	for _, e := range events {
		if e.Resource != "ipaddresses" || e.Name != d.address || e.Done.After(d.Done) || !e.Succeeded() {
			continue
		}
		d.history = append(d.history, fmt.Sprintf("%s %s by %s for %q", e.Done.Format("15:04:05.000"), e.Verb, e.User, e.Parent))
		switch {
		case e.Verb == "delete":
			deletedBy = e.User
		case e.Parent == d.service:
			// It is this Service's from here on.
		default:
			owner, deletedBy = e.Parent, ""
		}
	}
	d.history = d.history[max(0, len(d.history)-6):]
	switch {
	case deletedBy == "system:apiserver" && slices.Contains(d.holders, owner):
		d.cause = byUpstream
	case d.Chosen == traffic.FailedOpen:
		d.cause = byOutage
	default:
		d.cause = byUs
	}
}

// String is for the report.
func (d duplicate) String() string {
	return fmt.Sprintf("%s: %s got %s of %v at %s, chosen %s: %s", d.cause, d.service, d.address, d.holders,
		d.Done.Format("15:04:05.000"), d.Chosen, strings.Join(d.history, ", "))
}

// unsettled lists what is wrong and ends by waiting: addresses without IPAddress or ServiceCIDR,
// IPAddresses without Service, reservations that are not kept. Duplicates stay: they are left out.
func (e *environment) unsettled(ctx context.Context) []string {
	GinkgoHelper()
	found := slices.DeleteFunc(e.Breaches(ctx), isDuplicate)
	var prefixes []netip.Prefix
	for _, serviceCIDR := range e.ServiceCIDRs(ctx) {
		for _, cidr := range serviceCIDR.Spec.CIDRs {
			prefixes = append(prefixes, netip.MustParsePrefix(cidr))
		}
	}
	for _, service := range e.Services(ctx) {
		found = append(found, outOfRange(service.Name, inventory.ClusterIPs(&service), prefixes)...)
	}
	for _, address := range reserved {
		if e.Purpose(ctx, address) != cluster.Reservation && e.Owner(ctx, address) != tenant+"/reserved" {
			found = append(found, "nothing keeps the reserved address "+address)
		}
	}
	return found
}

// isDuplicate reports whether a breach is an address of two Services, or follows from one.
func isDuplicate(breach string) bool { return strings.Contains(breach, "is held by the Services") }

func outOfRange(service string, addresses []string, prefixes []netip.Prefix) (found []string) {
	for _, address := range addresses {
		where := netip.MustParseAddr(address)
		if !slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(where) }) {
			found = append(found, fmt.Sprintf("no ServiceCIDR has %s of %s", address, service))
		}
	}
	return found
}
