package history

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Final is the state in the end, read between two moments after all requests.
type Final struct {
	From, To  time.Time
	Services  []corev1.Service
	Addresses []networkingv1.IPAddress
}

// Windows are how long the operator may take an address for that of a Service which has it not.
type Windows struct {
	// InFlight is how long an address is kept that was drawn for a Service which never came.
	InFlight time.Duration
	// Cooling is how long an address is kept after a Service had it.
	Cooling time.Duration
	// Believed is how long an IPAddress is left alone whose Service is not there.
	Believed time.Duration
	// Lag is how late the operator may hear of a write.
	Lag time.Duration
}

// Operations makes operations of requests. The state in the end may be nil. Faults are writes that
// have happened without a request; told counts those that had a request, but no answer.
func Operations(requests []Request, end *Final, windows Windows) (all []Operation, told int, faults []string) {
	g := gatherer{end: end, windows: windows, requests: slices.Clone(requests)}
	if end != nil {
		g.requests = until(requests, end.To)
	}
	slices.SortStableFunc(g.requests, func(a, b Request) int { return a.Received.Compare(b.Received) })
	g.index()
	g.services()
	g.ipAddresses()
	g.written = byAddress(g.all)
	g.refusals()
	g.final()
	return g.all, g.told, g.faults
}

// until are the requests as they are known at a moment: what comes later is none, and what is
// answered later has no answer yet.
func until(requests []Request, moment time.Time) (known []Request) {
	for _, r := range requests {
		if r.Done.After(moment) {
			r.Done, r.Code, r.Answer = time.Time{}, 0, nil
		}
		if !r.Received.After(moment) {
			known = append(known, r)
		}
	}
	return known
}

// gatherer has indexes of what each version and each refusal asks for: an hour of faults has
// hundreds of thousands of requests.
type gatherer struct {
	requests []Request // in the order in which they came, as those of both indexes
	// silent are the requests of which no answer tells, by what they write.
	silent map[target][]Request
	// denied are the requests for Services that were not granted, by the addresses that they have.
	denied map[netip.Addr][]Request
	// written are the operations of writes.
	written map[netip.Addr][]Operation
	end     *Final
	windows Windows
	all     []Operation
	told    int
	faults  []string
}

// version is a state of an object, and the request that has brought it about.
type version struct {
	Object
	call, ret time.Time
	text      string
	creates   bool
}

// order sorts the versions of one object: its end comes last.
func (v version) order() uint64 {
	if v.Ends {
		return math.MaxUint64
	}
	return v.Version
}

// lives are the versions of all objects of a resource, by their UIDs.
func (g *gatherer) lives(resource string) map[string][]version {
	out := map[string][]version{}
	for _, r := range g.requests {
		if r.Resource == resource && r.Granted() && r.Answer != nil && r.Answer.UID != "" {
			o := *r.Answer
			o.Name = cmp.Or(o.Name, r.Name)
			out[o.UID] = append(out[o.UID], version{o, r.Received, r.Done, r.String(), r.Code == 201})
		}
	}
	for uid := range out {
		slices.SortStableFunc(out[uid], func(a, b version) int { return cmp.Compare(a.order(), b.order()) })
	}
	return out
}

// tell fills in a version of which no answer tells, which must have come between two moments.
func (g *gatherer) tell(resource string, v version, since, until time.Time) version {
	from, ok := g.open(resource, v.Name, v.creates, since, until)
	if !ok {
		g.faults = append(g.faults, fmt.Sprintf("%s %s: %s, between %s and %s, without a request", resource, v.Name, v.text, clock(since), clock(until)))
		from = since
	}
	g.told++
	v.call, v.ret, v.text = from, until, v.text+" by a request without an answer"
	return v
}

// complete adds to the versions of one object what no answer shows.
func (g *gatherer) complete(resource string, of []version, last *Object) []version {
	if len(of) == 0 {
		of = []version{{Object: *last, ret: g.end.To, text: "found"}}
	}
	if resource == "ipaddresses" && !of[0].creates && of[0].Parent == "" {
		of[0].Parent = unknown
	}
	if first := of[0]; !first.creates {
		first.creates, first.Ends, first.text = true, false, "created"
		of = append([]version{g.tell(resource, first, first.Created, of[0].ret)}, of...)
	}
	for i := range of[1:] { // an answer may show what a request without an answer has changed before
		if from, ok := g.open(resource, of[i+1].Name, false, of[i].call, of[i+1].ret); ok && from.Before(of[i+1].call) {
			of[i+1].call = from
		}
	}
	newest := of[len(of)-1]
	switch {
	case g.end == nil || newest.Ends && last == nil:
	case last == nil:
		gone := version{Object: newest.Object, text: "deleted"}
		gone.Ends = true
		of = append(of, g.tell(resource, gone, newest.call, g.end.To))
	case !newest.Ends && last.Version != newest.Version && !slices.Equal(last.Addresses, newest.Addresses):
		of = append(of, g.tell(resource, version{Object: *last, text: "changed"}, newest.call, g.end.To))
	}
	return of
}

// services makes Take and Release of the changes of Services.
func (g *gatherer) services() {
	var last []*Object
	if g.end != nil {
		last = objects(g.end.Services, serviceOf)
	}
	for uid, of := range g.versions("services", last) {
		id := of[0].Name + "#" + uid[:min(8, len(uid))]
		var has []netip.Addr
		for _, v := range of {
			if v.Ends {
				v.Addresses = nil
			}
			g.change(id, has, v)
			has = v.Addresses
		}
		if g.end == nil {
			g.pending(id, has, of[len(of)-1])
		}
	}
}

func (g *gatherer) change(id string, has []netip.Addr, v version) {
	for _, a := range has {
		if !slices.Contains(v.Addresses, a) {
			g.all = append(g.all, Operation{Address: a, Kind: Release, Service: id, Call: v.call, Return: v.ret, Text: v.text})
		}
	}
	for _, a := range v.Addresses {
		if !slices.Contains(has, a) {
			g.all = append(g.all, Operation{Address: a, Kind: Take, Service: id, Call: v.call, Return: v.ret, Text: v.text})
		}
	}
}

// pending adds a Release without a return where a request without an answer may have been one.
func (g *gatherer) pending(id string, has []netip.Addr, latest version) {
	from, ok := g.open("services", name(id), false, latest.call, time.Unix(math.MaxInt32, 0))
	if !ok {
		return
	}
	for _, a := range has {
		g.all = append(g.all, Operation{Address: a, Kind: Release, Service: id, Call: from, Text: "a request without an answer"})
	}
}

// ipAddresses makes Put and Drop of the beginnings and ends of IPAddresses.
func (g *gatherer) ipAddresses() {
	var last []*Object
	if g.end != nil {
		last = objects(g.end.Addresses, ipAddressOf)
	}
	for uid, of := range g.versions("ipaddresses", last) {
		a, err := netip.ParseAddr(of[0].Name)
		if err != nil {
			continue
		}
		for _, v := range of {
			switch {
			case v.Ends:
				g.all = append(g.all, Operation{Address: a, Kind: Drop, IPAddress: uid, Call: v.call, Return: v.ret, Text: v.text})
			case v.creates:
				g.all = append(g.all, Operation{Address: a, Kind: Put, IPAddress: uid, Parent: v.Parent, Beside: v.Beside, Call: v.call, Return: v.ret,
					Text: v.text + ", for " + v.Parent})
			}
		}
	}
}

// refused are the words of the API server, which the operator uses as well.
var refused = regexp.MustCompile(`failed to allocate IP ([0-9a-f.:]+): provided IP is already allocated`)

// refusals makes Refuse of requests that were refused an address.
func (g *gatherer) refusals() {
	for _, r := range g.requests {
		found := refused.FindStringSubmatch(r.Message)
		if r.Resource != "services" || found == nil || !r.known() {
			continue
		}
		a, err := netip.ParseAddr(found[1])
		if err != nil || g.inWindow(r, a) {
			continue
		}
		g.all = append(g.all, Operation{Address: a, Kind: Refuse, Service: r.Namespace + "/" + r.Name,
			Call: r.Received.Add(-g.windows.Lag), Return: r.Done, Text: r.String()})
	}
}

// inWindow reports whether another request explains a refusal by the time at which it came.
func (g *gatherer) inWindow(refusal Request, a netip.Addr) bool {
	for _, r := range g.denied[a] {
		if r.Received.Equal(refusal.Received) && r.Name == refusal.Name || r.Received.After(refusal.Done) {
			continue
		}
		about := refused.FindStringSubmatch(r.Message)
		if (about == nil || about[1] != a.String()) && (r.Done.IsZero() || r.Done.Add(g.windows.InFlight).After(refusal.Received)) {
			return true
		}
	}
	return slices.ContainsFunc(g.written[a], func(o Operation) bool {
		return g.windows.Cooling > 0 && o.Kind == Release && !o.Call.After(refusal.Done) && o.Return.Add(g.windows.Cooling).After(refusal.Received)
	})
}

// final makes Find of the state in the end, for each address that an operation is about.
func (g *gatherer) final() {
	if g.end == nil {
		return
	}
	found := map[netip.Addr]*Operation{}
	for _, o := range g.all {
		found[o.Address] = &Operation{Address: o.Address, Kind: Find, Call: g.end.From, Return: g.end.To, Text: "the state in the end"}
	}
	for _, s := range g.end.Services {
		for _, a := range serviceOf(&s).Addresses {
			if o := found[a]; o != nil {
				o.Services = append(o.Services, s.Namespace+"/"+s.Name+"#"+string(s.UID)[:min(8, len(s.UID))])
			}
		}
	}
	for _, ip := range g.end.Addresses {
		if a, err := netip.ParseAddr(ip.Name); err == nil && found[a] != nil {
			found[a].IPAddress, found[a].Beside = string(ip.UID), g.believed(a) || beside(ip.ObjectMeta)
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(found), netip.Addr.Compare) {
		g.all = append(g.all, *found[a])
	}
}

// believed reports whether an IPAddress without its Service may stand at an address in the end.
func (g *gatherer) believed(a netip.Addr) bool {
	return slices.ContainsFunc(g.written[a], func(o Operation) bool {
		return o.Return.Add(g.windows.Believed).After(g.end.From)
	})
}

// versions are those of each object of a resource, by UID. last are the objects in the end.
func (g *gatherer) versions(resource string, last []*Object) iter.Seq2[string, []version] {
	lives, ends := g.lives(resource), map[string]*Object{}
	for _, o := range last {
		ends[o.UID] = o
	}
	all := slices.AppendSeq(slices.Collect(maps.Keys(lives)), maps.Keys(ends))
	slices.Sort(all)
	return func(yield func(string, []version) bool) {
		for _, uid := range slices.Compact(all) {
			if !yield(uid, g.complete(resource, lives[uid], ends[uid])) {
				return
			}
		}
	}
}

func objects[T any](all []T, read func(*T) *Object) (out []*Object) {
	for i := range all {
		out = append(out, read(&all[i]))
	}
	return out
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
