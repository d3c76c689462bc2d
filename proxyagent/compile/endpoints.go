package compile

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// endpoints are usable ones of a Service, sorted by port, protocol and address, once per address.
type endpoints []*model.Endpoint

// endpointsOf returns the endpoints of a Service that can serve the family, of all its ports.
func endpointsOf(s *model.Service, f model.Family) endpoints {
	out := make(endpoints, 0, len(s.Endpoints))
	for i := range s.Endpoints {
		if e := &s.Endpoints[i]; whyNoEndpoint(e.Addr, f) == "" {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *model.Endpoint) int {
		if c := compareKeys(a, b); c != 0 {
			return c
		}
		return comparePreference(a, b)
	})
	return slices.CompactFunc(out, func(a, b *model.Endpoint) bool { return compareKeys(a, b) == 0 })
}

// of returns the endpoints of one port: those of the same name and protocol.
func (e endpoints) of(port string, protocol model.Protocol) endpoints {
	from := sort.Search(len(e), func(i int) bool { return comparePort(e[i], port, protocol) >= 0 })
	length := sort.Search(len(e)-from, func(i int) bool { return comparePort(e[from+i], port, protocol) > 0 })
	return e[from : from+length]
}

func comparePort(e *model.Endpoint, port string, protocol model.Protocol) int {
	return cmp.Or(strings.Compare(e.Port, port), cmp.Compare(e.Protocol, protocol))
}

func compareKeys(a, b *model.Endpoint) int {
	return cmp.Or(comparePort(a, b.Port, b.Protocol), a.Addr.Compare(b.Addr))
}

// comparePreference orders endpoints of one address; the first counts. Two come from a move between
// slices, or from a pod network that gives the address of a terminating pod to a new one. The one
// that does not terminate is the pod that is there, and a ready one knows more. The rest only makes
// the result independent of the order of slices.
func comparePreference(a, b *model.Endpoint) int {
	return cmp.Or(
		falseFirst(a.Terminating, b.Terminating),
		falseFirst(!a.Ready, !b.Ready),
		falseFirst(!a.Serving, !b.Serving),
		falseFirst(a.Node == "", b.Node == ""),
		strings.Compare(a.Node, b.Node),
		slices.Compare(a.Hints.ForZones(), b.Hints.ForZones()),
		slices.Compare(a.Hints.ForNodes(), b.Hints.ForNodes()),
		cmp.Compare(a.Weight, b.Weight),
	)
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
