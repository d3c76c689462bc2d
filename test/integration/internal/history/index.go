package history

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// target is what a request writes. The log does not name the object of a creation without an
// answer: it is empty.
type target struct{ resource, object string }

// index fills in silent and denied.
func (g *gatherer) index() {
	g.silent, g.denied = map[target][]Request{}, map[netip.Addr][]Request{}
	for _, r := range g.requests {
		if !r.known() {
			t := target{r.Resource, r.Name}
			if r.Name != "" && r.Namespace != "" {
				t.object = r.Namespace + "/" + r.Name
			}
			g.silent[t] = append(g.silent[t], r)
		}
		if r.Resource == "services" && !r.Granted() {
			for _, a := range r.Asked {
				g.denied[a] = append(g.denied[a], r)
			}
		}
	}
}

// byAddress divides operations.
func byAddress(all []Operation) map[netip.Addr][]Operation {
	out := map[netip.Addr][]Operation{}
	for _, o := range all {
		out[o.Address] = append(out[o.Address], o)
	}
	return out
}

// lasts is how long an API server works at a request, at most.
const lasts = time.Minute

// open is when the first request came, since a moment, that may have written an object and of which
// no answer tells; false if there is none.
func (g *gatherer) open(resource, object string, creation bool, since, until time.Time) (from time.Time, ok bool) {
	for _, of := range [][]Request{g.silent[target{resource, object}], g.silent[target{resource, ""}]} {
		for _, r := range of[begun(of, since.Add(-lasts)):] {
			if r.Received.After(until) {
				break
			}
			may := r.Verb != "create" || creation
			if r.Name == "" {
				may = creation && strings.HasPrefix(object, r.Namespace)
			}
			if !may || !r.Done.IsZero() && r.Done.Before(since) {
				continue
			}
			if first := latest(r.Received, since); !ok || first.Before(from) {
				from, ok = first, true
			}
			break
		}
	}
	return from, ok
}

// begun is the place of the first request that came at a moment, or later.
func begun(of []Request, moment time.Time) int {
	i, _ := slices.BinarySearchFunc(of, moment, func(r Request, t time.Time) int { return r.Received.Compare(t) })
	return i
}
