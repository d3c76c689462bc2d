package watch

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// parseAddr reads an address as the API writes it: without leading zeros, which some programs read
// as octal, without zone, and not mapped into IPv6, which would be a second name of the address.
func parseAddr(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return netip.Addr{}, false
	}
	return a, true
}

// parsePrefix reads a CIDR by the same rules. Bits behind the prefix length are cleared.
func parsePrefix(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// virtual reports whether a Service can be reached at an address. The API mostly checks this, but
// programs write a load balancer's status: 127.0.0.1 there would take all traffic within the node.
func virtual(a netip.Addr) bool { return !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() }

// reachable reports whether an address can be one that an endpoint has, by the rules of the API.
func reachable(a netip.Addr) bool { return virtual(a) && !a.IsLinkLocalUnicast() }

// parseVirtual is parseAddr for addresses of Services.
func parseVirtual(s string) (netip.Addr, bool) {
	a, ok := parseAddr(s)
	return a, ok && virtual(a)
}

// parse reads texts one by one; what cannot be read is malformed.
func parse[T any](what string, in []string, one func(string) (T, bool), bad *malformed) []T {
	var out []T
	for _, s := range in {
		if v, ok := one(s); ok {
			out = append(out, v)
		} else {
			bad.add(what, s)
		}
	}
	return out
}

// sourceRanges reads the source ranges of a load balancer, and reports whether some are lost
// because they cannot be read: what they were meant to close must not be open then. The API lets
// spaces around them pass, and as many of them as fit into an object; what is kept has a bound.
func sourceRanges(texts []string, bad *malformed) (ranges []netip.Prefix, lost bool) {
	before := bad.count
	ranges = parse("loadBalancerSourceRange", texts, func(s string) (netip.Prefix, bool) { return parsePrefix(strings.TrimSpace(s)) }, bad)
	ranges = merged(ranges)
	v6 := slices.IndexFunc(ranges, func(p netip.Prefix) bool { return p.Addr().Is6() })
	if v6 < 0 {
		v6 = len(ranges)
	}
	bound := func(of []netip.Prefix) []netip.Prefix { return of[:min(len(of), model.MaxSources+1)] }
	return slices.Concat(bound(ranges[:v6]), bound(ranges[v6:])), bad.count > before
}

// merged returns the fewest prefixes that cover the same addresses, sorted, in the time of sorting.
func merged(all []netip.Prefix) (out []netip.Prefix) {
	slices.SortFunc(all, netip.Prefix.Compare)
	for _, p := range all {
		n := len(out)
		if n > 0 && out[n-1].Overlaps(p) {
			continue // inside of that one, which sorts before it
		}
		for ; n > 0 && p.Bits() > 0 && out[n-1].Bits() == p.Bits() && parent(out[n-1]) == parent(p); n-- {
			p = parent(p)
		}
		out = append(out[:n], p)
	}
	return out
}

// parent is the prefix that is shorter by a bit.
func parent(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked() }

// shownMalformed is how many malformed pieces are shown with their value.
const shownMalformed = 3

// malformed collects what cannot be used of one object, in bounded size. The zero value is none.
type malformed struct {
	count    int
	examples []string
}

// add counts one more; what names the field, and value may be anything.
func (bad *malformed) add(what, value string) {
	bad.count++
	if len(bad.examples) < shownMalformed {
		bad.examples = append(bad.examples, fmt.Sprintf("%s %q", what, value[:min(len(value), 64)]))
	}
}

// String returns examples of what was found, in one line; it is empty when there was nothing.
func (bad *malformed) String() string {
	text := strings.Join(bad.examples, ", ")
	if more := bad.count - len(bad.examples); more > 0 {
		return fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

// head is what an informer asks of a stored object. An ObjectMeta would be six times as large.
type head struct{ namespace, name, version string }

func headOf(o metav1.Object) head {
	return head{namespace: wordOf(o.GetNamespace()).Value(), name: o.GetName(), version: o.GetResourceVersion()}
}

// GetObjectMeta makes all that embeds a head a [metav1.ObjectMetaAccessor]. It builds its result.
func (h *head) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: h.namespace, Name: h.name, ResourceVersion: h.version}
}

// key is namespace/name, or the name of an object without namespace.
func (h *head) key() string { return cache.ObjectName{Namespace: h.namespace, Name: h.name}.String() }

// object is what the stores hold.
type object interface {
	comparable
	metav1.ObjectMetaAccessor
	key() string
}

// word is a string of few values that is held often, as a node's name: 8 bytes, and one text. Where
// only its Value is held, those share a text that come between two garbage collections.
type word = unique.Handle[string]

func wordOf(s string) word { return unique.Make(s) }
