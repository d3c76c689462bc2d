package history

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is what an operation does with an address.
type Kind string

const (
	// Take gives the address to a Service.
	Take Kind = "take"
	// Release takes the address from a Service.
	Release Kind = "release"
	// Refuse tells a Service that the address is allocated already.
	Refuse Kind = "refuse"
	// Put writes an IPAddress at the address.
	Put Kind = "put"
	// Drop removes the IPAddress at the address.
	Drop Kind = "drop"
	// Keep keeps the address for some Services, which may have it together. Without any it ends that.
	Keep Kind = "keep"
	// Find looks at all of that in the end.
	Find Kind = "find"
)

// Operation is what one request does with one address, between Call and Return.
type Operation struct {
	Address netip.Addr
	Kind    Kind
	// Service has the name, namespace/name, behind which an operation that is granted has a UID.
	Service string
	// Services are those of Keep, by their names, and those of Find.
	Services []string
	// IPAddress is the UID of the one that is put, dropped or found.
	IPAddress string
	// Parent is what the IPAddress names, unknown if no answer shows it.
	Parent string
	// Beside says that the IPAddress stays when its Service does not have the address as ClusterIP.
	Beside bool

	// Call and Return bound the moment of the effect. A zero Return: there may be none.
	Call, Return time.Time
	// Text says which request it is.
	Text string
	// Excused says why the operation is granted whatever the address is.
	Excused string
}

// Kept keeps an address for Services, by their names, from the beginning.
func Kept(address string, services ...string) Operation {
	return Operation{Address: netip.MustParseAddr(address), Kind: Keep, Services: services, Call: time.Unix(1, 0), Return: time.Unix(2, 0), Text: "a policy"}
}

// unknown is the parent of an IPAddress whose creation no answer shows.
const unknown = "?"

// state is an address at one moment. It is compared with ==.
type state struct {
	owners    string // Services with UIDs, sorted, with a space behind each
	ipAddress string // the UID
	parent    string
	beside    bool
	kept      string // names of Services, with a space behind each
}

// name is that of a Service without its UID.
func name(service string) string {
	before, _, _ := strings.Cut(service, "#")
	return before
}

func join(services []string) string {
	if len(services) == 0 {
		return ""
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(services))), " ") + " "
}

// others are the Services that have the address, without one of them.
func (s state) others(service string) []string {
	return slices.DeleteFunc(strings.Fields(s.owners), func(o string) bool { return o == service })
}

func (s state) keptFor(service string) bool {
	return slices.Contains(strings.Fields(s.kept), name(service))
}

// mayTake reports whether a Service may be given the address.
func (s state) mayTake(service string) bool {
	switch {
	case s.kept != "":
		return s.keptFor(service) && !slices.ContainsFunc(s.others(service), func(o string) bool { return !s.keptFor(o) })
	case len(s.others(service)) > 0:
		return false
	default:
		return s.ipAddress == "" || s.parent == unknown || s.parent == name(service) && !s.beside
	}
}

// mayRefuse reports whether a Service may be told that the address is allocated.
func (s state) mayRefuse(service string) bool {
	return len(s.others(service)) > 0 || s.ipAddress != "" || s.kept != "" && !s.keptFor(service)
}

// inOrder reports whether the IPAddress has a Service, if it is for one.
func (s state) inOrder() bool {
	return s.ipAddress == "" || s.beside || s.parent == unknown ||
		slices.ContainsFunc(strings.Fields(s.owners), func(o string) bool { return name(o) == s.parent })
}

// step is what an operation makes of an address, false if it cannot be.
func (s state) step(o Operation) (state, bool) {
	switch o.Kind {
	case Take:
		ok := o.Excused != "" || s.mayTake(o.Service)
		s.owners = join(append(strings.Fields(s.owners), o.Service))
		return s, ok
	case Release:
		ok := len(s.others(o.Service)) < len(strings.Fields(s.owners))
		s.owners = join(s.others(o.Service))
		return s, ok
	case Refuse:
		return s, o.Excused != "" || s.mayRefuse(o.Service)
	case Put:
		ok := s.ipAddress == ""
		s.ipAddress, s.parent, s.beside = o.IPAddress, o.Parent, o.Beside
		return s, ok
	case Drop:
		ok := s.ipAddress == o.IPAddress
		s.ipAddress, s.parent, s.beside = "", "", false
		return s, ok
	case Keep:
		s.kept = join(o.Services)
		return s, true
	default:
		return s, s.owners == join(o.Services) && s.ipAddress == o.IPAddress && (o.Excused != "" || s.inOrder() || o.Beside)
	}
}

// steps are the states that an operation may lead to: a pending one may have had no effect.
func (s state) steps(o Operation) (out []any) {
	if next, ok := s.step(o); ok {
		out = append(out, next)
	}
	if o.Return.IsZero() && !slices.Contains(out, any(s)) {
		out = append(out, s)
	}
	return out
}

// model is an address that no Service has.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(s, input, _ any) []any { return s.(state).steps(input.(Operation)) },
}).ToModel()
