package steering

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Owner returns the policy that has an address exclusively, nil if there is none.
func (s *Compiled) Owner(a netip.Addr) *Policy {
	if s.ranges.Size() == 0 || slices.Contains(s.apiServer, a) {
		return nil
	}
	return bestOwner(s.around(a))
}

// Excluded reports whether a Service has an address that the Owner of the address does not let it
// have. A Service that a reservation is for is not excluded. sure is false where the labels of
// the Service, which may be left out, could say otherwise.
func (s *Compiled) Excluded(a netip.Addr, svc Service) (excluded, sure bool) {
	if r, ok := s.Reservation(a); ok && r.For == svc.NamespacedName || s.Owner(a) == nil {
		return false, true
	}
	_, by := mayHold(s.around(a))
	for _, p := range by {
		if p.selector.inNamespace(svc.NamespaceLabels) && p.selector.services.Empty() {
			return false, true
		}
		sure = sure || p.selector.inNamespace(svc.NamespaceLabels)
	}
	return !selected(by, svc), !sure
}

// Enforced is what the API server has to know to keep Services out by itself.
type Enforced struct {
	// Data is that of the ConfigMap, which the expressions of config/enforcement/policy.yaml read:
	//
	//	ipv4-lengths   32/0 25/9                        the lengths of the IPv4 ranges, the longest
	//	                                                first, and of the parts that they are in
	//	25-10.0.0.0-9  10.120.0.0/25 red selectors 0 3  each range of a part: policy, open to whom
	//	               10.120.1.0/25 red open
	//	               10.120.2.0/25 red asked red selectors 0 3
	//	               10.120.3.0/25 old cordoned
	//	32-0.0.0.0-0   10.120.0.9/32 red service team/web
	//	               10.120.0.8/32 red closed
	//	selectors      namespace In tenant red,green    lines of scope, operator, key and values;
	//	               service Exists app               a blank line ends a selector
	//
	// A range that is asked has, behind the policy by which it is by request only, what holds for an
	// address that a Service chooses.
	//
	// and ipv6-lengths in the same way, with _ for the colons of its keys. Each range has a line,
	// which begins with a line break, and not a key of its own: for each creation the API server
	// copies the map of a ConfigMap four times, and with 1,000 keys that takes longer than the rest
	// of the creation. Nor has a length one text: with 1,000 lines its evaluation takes 0.1 ms.
	Data map[string]string
	// LeftOut are the policies that would make it too large for an API object, or too dear to
	// evaluate: they are enforced by the webhook alone.
	LeftOut []string
}

// Of the room that the data have, selectors may have a part. The API server stops at 1,000,000
// units of cost: splitting a selector and comparing its lines takes up to 3 for each byte and
// address, looking a range up 0.2. A spec of controllers/enforcement evaluates the dearest data.
const selectorsPart = 8

// Enforce says about all addresses of policies with enforcement: APIServer what MayHold says, and
// which of them are not drawn. room is how many bytes it may have; the best policies come first.
// It costs a walk over their ranges and reservations, and several where there is not enough room.
// It is the same for all compilations between which no such policy has Changed.
func (s *Compiled) Enforce(room int) Enforced {
	var enforced []*Policy
	for _, p := range s.policies {
		if p.EnforcedByAPIServer() {
			enforced = append(enforced, p)
		}
	}
	fits := func(data map[string]string) bool {
		size := 0
		for key, value := range data {
			size += len(key) + len(value)
		}
		return size <= room && len(data[selectorsKey]) <= room/selectorsPart
	}
	out, n := Enforced{Data: s.tableOf(enforced)}, len(enforced)
	if !fits(out.Data) {
		n = max(0, sort.Search(n, func(n int) bool { return !fits(s.tableOf(enforced[:n])) })-1)
		out.Data = s.tableOf(enforced[:n])
	}
	for _, p := range enforced[n:] {
		out.LeftOut = append(out.LeftOut, p.Name)
	}
	return out
}

// tableOf is what the API server looks up to enforce these policies.
func (s *Compiled) tableOf(enforced []*Policy) map[string]string {
	t := table{s: s, enforced: sets.New(enforced...), ranges: map[netip.Prefix]string{}, positions: map[*Policy]int{}}
	var spans []allocator.Span // of the widest ranges that these policies have
	meets := func(at *ownedPrefix) bool { return len(spans) > 0 && spans[len(spans)-1].Overlaps(at.span) }
	for _, at := range s.ranges.AllSorted() { // a range comes before those inside of it
		if slices.ContainsFunc(at.holders, t.enforced.Has) && !meets(at) {
			spans = append(spans, at.span)
		}
		if meets(at) {
			t.addRange(at)
		}
	}
	for _, sp := range spans {
		for r := range s.reserved.meeting(sp) {
			for _, prefix := range prefixesOf(r.Span) {
				t.addReservation(prefix, r)
			}
		}
	}
	return t.render()
}

// table says for whom ranges are open. Of those that an address lies in, the one with the longest
// prefix decides; an address in none is open to all.
type table struct {
	s         *Compiled
	enforced  sets.Set[*Policy]
	ranges    map[netip.Prefix]string
	selectors []string
	positions map[*Policy]int // policy -> the position of its selector
}

// addRange enters a range if it is enforced; if it lies in one that is, and is not, as open.
func (t *table) addRange(at *ownedPrefix) {
	line, restricts := t.openTo(at), restriction(t.s.outside(at.prefix), t.enforced.Has)
	switch {
	case restricts != nil && cordons(restricts):
		line = restricts.Name + " cordoned"
	case restricts != nil:
		line = restricts.Name + " asked " + cmp.Or(line, restricts.Name+" open")
	case line == "":
		return
	}
	t.ranges[at.prefix] = line
}

// openTo says for which Services a range is open, empty if it lies in no enforced exclusive one.
func (t *table) openTo(at *ownedPrefix) string {
	owner, by := mayHold(t.s.outside(at.prefix))
	if owner == nil || !t.enforces(at.prefix) {
		return ""
	}
	if !t.enforced.Has(owner) || slices.ContainsFunc(by, func(p *Policy) bool { return p.selector.namespaces.Empty() && p.selector.services.Empty() }) {
		return owner.Name + " open"
	}
	var positions []string
	for _, p := range by {
		if i, ok := t.selector(p); ok {
			positions = append(positions, strconv.Itoa(i))
		}
	}
	if len(positions) == 0 {
		return owner.Name + " closed"
	}
	return owner.Name + " selectors " + strings.Join(positions, " ")
}

// enforces reports whether an enforced policy has a prefix for itself, or one that it lies in.
func (t *table) enforces(prefix netip.Prefix) bool {
	for at := range t.s.outside(prefix) {
		if t.enforced.Has(at.owner) {
			return true
		}
	}
	return false
}

// addReservation enters a reservation as far as its addresses are those of entered ranges.
func (t *table) addReservation(prefix netip.Prefix, r *Reservation) {
	entry := r.Policy + " closed"
	if r.For.Name != "" {
		entry = r.Policy + " service " + r.For.String()
	}
	if t.reserves(prefix) {
		t.ranges[prefix] = entry
	}
	for at := range t.s.inside(prefix) {
		if t.reserves(at.prefix) {
			t.ranges[at.prefix] = entry
		}
	}
}

// reserves reports whether a reservation is what decides about a prefix: it lies in a range that is
// enforced, and is not cordoned, in which reservations do not count.
func (t *table) reserves(prefix netip.Prefix) bool {
	if by := restriction(t.s.outside(prefix), t.enforced.Has); by != nil {
		return !cordons(by)
	}
	return t.enforced.Has(bestOwner(t.s.outside(prefix)))
}

// selector returns the position of a policy's selector, entered if new; none if it selects nothing.
func (t *table) selector(p *Policy) (int, bool) {
	if i, ok := t.positions[p]; ok {
		return i, true
	}
	namespace, ok := requirements("namespace", p.selector.namespaces)
	service, also := requirements("service", p.selector.services)
	if !ok || !also {
		return 0, false
	}
	t.positions[p] = len(t.selectors)
	t.selectors = append(t.selectors, strings.Join(slices.Concat(namespace, service), "\n"))
	return t.positions[p], true
}

const selectorsKey = "selectors"

// parts is up to how many parts the ranges of a length are in.
const parts = 32

// render writes the table as the expressions read it.
func (t *table) render() map[string]string {
	lines, lengths := map[string][]string{}, map[string][]string{}
	for rest := slices.SortedFunc(maps.Keys(t.ranges), longestFirst); len(rest) > 0; {
		of := rest
		if end := slices.IndexFunc(rest, func(p netip.Prefix) bool { return !sameLength(p, rest[0]) }); end > 0 {
			of = rest[:end]
		}
		rest = rest[len(of):]
		part := partOf(of)
		ofFamily := strings.ToLower(allocator.FamilyOf(of[0].Addr()).String()) + "-lengths"
		lengths[ofFamily] = append(lengths[ofFamily], fmt.Sprintf("%d/%d", of[0].Bits(), part))
		for _, prefix := range of {
			key := partKey(prefix, part)
			lines[key] = append(lines[key], "\n"+prefix.String()+" "+t.ranges[prefix])
		}
	}
	data := map[string]string{selectorsKey: strings.Join(t.selectors, "\n\n")}
	for key, of := range lines {
		data[key] = strings.Join(of, "")
	}
	for key, of := range lengths {
		data[key] = strings.Join(of, " ")
	}
	return data
}

func sameLength(a, b netip.Prefix) bool {
	return a.Bits() == b.Bits() && a.Addr().BitLen() == b.Addr().BitLen()
}

// longestFirst sorts by family, length and address.
func longestFirst(a, b netip.Prefix) int {
	return cmp.Or(cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen()), cmp.Compare(b.Bits(), a.Bits()), a.Addr().Compare(b.Addr()))
}

// partOf is the longest prefix length of which sorted ranges of one length are in no more than
// parts networks; zero where they are few.
func partOf(ranges []netip.Prefix) int {
	if len(ranges) <= parts {
		return 0
	}
	shared := make([]int, len(ranges)-1) // by neighbours: a network ends where they share fewer bits than its length
	for i := range shared {
		shared[i] = sharedBits(ranges[i].Addr(), ranges[i+1].Addr())
	}
	slices.Sort(shared)
	return shared[parts-1]
}

// sharedBits is with how many equal bits two addresses of a family begin.
func sharedBits(a, b netip.Addr) (n int) {
	x, y := a.AsSlice(), b.AsSlice()
	for i := range x {
		n = i*8 + bits.LeadingZeros8(x[i]^y[i])
		if x[i] != y[i] {
			break
		}
	}
	return n
}

// partKey is the key of the part that a range is in.
func partKey(p netip.Prefix, part int) string {
	network := netip.PrefixFrom(p.Addr(), part).Masked().String()
	return fmt.Sprintf("%d-%s", p.Bits(), strings.NewReplacer("/", "-", ":", "_").Replace(network))
}

// operators are those that selectors in API objects have; matchLabels become Equals.
var operators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.Equals: metav1.LabelSelectorOpIn, selection.In: metav1.LabelSelectorOpIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
	selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
}

// requirements are the lines that say what is required of the labels of a namespace or a Service.
// Keys and values of labels cannot have the blanks, commas and line breaks between them. ok is
// false where the selector selects nothing, whatever the labels are.
func requirements(scope string, of labels.Selector) (lines []string, ok bool) {
	list, ok := of.Requirements()
	for _, r := range list {
		words := []string{scope, string(operators[r.Operator()]), r.Key()}
		if values := r.ValuesUnsorted(); len(values) > 0 {
			words = append(words, strings.Join(slices.Sorted(slices.Values(values)), ","))
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines, ok
}

// prefixesOf returns the fewest prefixes that have the addresses of a span.
func prefixesOf(sp allocator.Span) []netip.Prefix {
	var out []netip.Prefix
	for first := sp.First; first.IsValid() && !sp.Last.Less(first); {
		p := netip.PrefixFrom(first, first.BitLen())
		for p.Bits() > 0 {
			wider := netip.PrefixFrom(first, p.Bits()-1)
			if wider.Masked().Addr() != first || sp.Last.Less(SpanOf(wider).Last) {
				break
			}
			p = wider
		}
		out = append(out, p)
		first = SpanOf(p).Last.Next()
	}
	return out
}
