package watch

import (
	"fmt"
	"net/netip"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
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
func virtual(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast()
}

// reachable reports whether an address can be one that an endpoint has, by the rules of the API.
func reachable(a netip.Addr) bool {
	return virtual(a) && !a.IsLinkLocalUnicast()
}

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
	return head{namespace: o.GetNamespace(), name: o.GetName(), version: o.GetResourceVersion()}
}

// GetObjectMeta makes all that embeds a head a [metav1.ObjectMetaAccessor]. It builds its result.
func (h *head) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: h.namespace, Name: h.name, ResourceVersion: h.version}
}

// key is namespace/name, or the name of an object without namespace.
func (h *head) key() string {
	return cache.ObjectName{Namespace: h.namespace, Name: h.name}.String()
}

// object is what the stores hold.
type object interface {
	comparable
	metav1.ObjectMetaAccessor
	key() string
}

// word is a string of few values that is held often, as a node's name: 8 bytes, and one text.
type word = unique.Handle[string]

func wordOf(s string) word { return unique.Make(s) }
