package renumber

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// firsts are the addresses that API servers with the new ranges give to default/kubernetes; none
// unless it is about to leave. No other Service gets them, or an API server could not create it.
func (in Inputs) firsts() (out []netip.Addr) {
	if !slices.ContainsFunc(in.order(), func(s corev1.Service) bool { return nameOf(&s) == apiServers }) {
		return nil
	}
	for _, t := range in.To {
		out = append(out, t.Prefix().Masked().Addr().Next())
	}
	return out
}

// fillFirst chooses the new addresses of default/kubernetes from firsts, or says why it cannot.
func (in Inputs) fillFirst(i *Item, firsts []netip.Addr) string {
	out := slices.Clone(i.Old)
	for n, old := range i.Old {
		at := slices.IndexFunc(firsts, func(a netip.Addr) bool { return a.Is4() == old.Is4() })
		switch {
		case len(inside(in.From, []netip.Addr{old})) == 0 || at < 0:
		case in.Taken.Has(firsts[at]):
			return fmt.Sprintf("a Service or an IPAddress has %s, which API servers with the new range give to it: free that first", firsts[at])
		default:
			out[n] = firsts[at]
		}
	}
	i.New = out
	return ""
}
