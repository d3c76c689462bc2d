package compile

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// story is a Compiler that gets one change after the other.
type story struct {
	t *testing.T
	c *Compiler
	f model.Family
}

func tell(t *testing.T, f model.Family, set model.Settings) *story {
	set.Family = f
	s := &story{t, New(set), f}
	s.c.Apply(model.Changes{})
	return s
}

// services are the Changes of Services in the words of asked; a name alone, after a minus, is one that is gone.
func (s *story) services(all ...asked) model.Changes {
	ch := model.Changes{Services: map[model.ServiceName]*model.Service{}}
	for _, a := range all {
		if a[0] == '-' {
			ch.Services[name(string(a[1:]))] = nil
			continue
		}
		x := a.claimant(s.f)
		ch.Services[x.Name] = &x
	}
	return ch
}

// allocations are the Changes of IPAddresses in the words of allocationsOf, and those that are gone.
func (s *story) allocations(now, gone string) model.Changes {
	ch := model.Changes{Allocations: map[netip.Addr]*model.Allocation{}}
	for a, x := range allocationsOf(s.f, now) {
		ch.Allocations[a] = &x
	}
	for _, a := range addrs(s.f, gone) {
		ch.Allocations[a] = nil
	}
	return ch
}

// want applies Changes and compares what became of each port: NAME:PORT and its frontends before and now, in the words of servedAs.
func (s *story) want(what string, ch model.Changes, want ...string) model.Delta {
	s.t.Helper()
	d := s.c.Apply(ch)
	before, now := model.Plan{Ports: d.Before}, model.Plan{Ports: map[model.PortName]model.ServicePort{}}
	for n, p := range d.Ports {
		if p != nil {
			now.Ports[n] = *p
		}
	}
	var got []string
	for _, l := range servedAs(before) {
		got = append(got, "- "+l)
	}
	for _, l := range servedAs(now) {
		got = append(got, "+ "+l)
	}
	wantEqual(s.t, what, inFamily(s.f, want), got)
	return d
}

// TestStory follows two Services that fight for an address through events, and what each of them changes.
func TestStory(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		s := tell(t, f, model.Settings{})
		s.want("a first Service", s.services("b day=2 cluster=10.96.0.1 ext=203.0.113.1"), "+ b:http cluster=10.96.0.1 ext=203.0.113.1")
		s.want("the same again", s.services("b day=2 cluster=10.96.0.1 ext=203.0.113.1"))
		s.want("an older Service comes late", s.services("a day=1 cluster=10.96.0.1"), "- b:http cluster=10.96.0.1 ext=203.0.113.1",
			"+ a:http cluster=10.96.0.1", "+ b:http ext=203.0.113.1")
		wantEqual(t, "disputes", inFamily(f, []string{"b<a at=10.96.0.1 ClaimedByOlderService"}), disputesAs(s.c.Disputes()))
		s.want("its IPAddress", s.allocations("10.96.0.1=a", ""))
		wantEqual(t, "disputes", inFamily(f, []string{"b<a at=10.96.0.1 AllocatedToOtherService"}), disputesAs(s.c.Disputes()))
		s.want("the IPAddress moves", s.allocations("10.96.0.1=b", ""),
			"- a:http cluster=10.96.0.1", "- b:http ext=203.0.113.1", "+ b:http cluster=10.96.0.1 ext=203.0.113.1")
		s.want("the IPAddress goes", s.allocations("", "10.96.0.1"), "- b:http cluster=10.96.0.1 ext=203.0.113.1",
			"+ a:http cluster=10.96.0.1", "+ b:http ext=203.0.113.1")
		s.want("an additional address", s.allocations("10.96.0.9=+a", ""), "- a:http cluster=10.96.0.1",
			"+ a:http cluster=10.96.0.1 cluster=10.96.0.9")
		s.want("a third claims the additional address from outside", s.services("c day=0 cluster=10.96.0.3 lb=10.96.0.9"),
			"+ c:http cluster=10.96.0.3")
		s.want("it moves to the third", s.allocations("10.96.0.9=+c", ""), "- a:http cluster=10.96.0.1 cluster=10.96.0.9",
			"- c:http cluster=10.96.0.3",
			"+ a:http cluster=10.96.0.1", "+ c:http cluster=10.96.0.3 cluster=10.96.0.9")
		s.want("it goes", s.allocations("", "10.96.0.9"), "- c:http cluster=10.96.0.3 cluster=10.96.0.9",
			"+ c:http cluster=10.96.0.3 lb=10.96.0.9")
		s.want("the older Service is deleted", s.services("-a"), "- a:http cluster=10.96.0.1", "- b:http ext=203.0.113.1",
			"+ b:http cluster=10.96.0.1 ext=203.0.113.1")
		wantEqual(t, "disputes", []string(nil), disputesAs(s.c.Disputes()))
		s.want("it is deleted again", s.services("-a"))
		s.want("a port is renamed", s.services("b day=2 cluster=10.96.0.1 ext=203.0.113.1 web:80/TCP"),
			"- b:http cluster=10.96.0.1 ext=203.0.113.1",
			"+ b:web cluster=10.96.0.1 ext=203.0.113.1")
		s.want("recreated with another address", s.services("b day=5 cluster=10.96.0.7 web:80/TCP"),
			"- b:web cluster=10.96.0.1 ext=203.0.113.1",
			"+ b:web cluster=10.96.0.7")
		s.want("all are deleted", s.services("-b", "-c"), "- b:web cluster=10.96.0.7", "- c:http cluster=10.96.0.3 lb=10.96.0.9")
		wantEqual(t, "what is left behind", [8]int{}, [8]int{len(s.c.records), len(s.c.clusters), len(s.c.outside), len(s.c.fronts),
			len(s.c.nodePorts), len(s.c.winners), len(s.c.disputed), len(s.c.additional)})
	})
}

// TestAgeDecidesAgain has a Service that is recreated between two Applies, and so is younger.
func TestAgeDecidesAgain(t *testing.T) {
	s := tell(t, model.IPv4, model.Settings{})
	s.want("two", s.services("a day=1 cluster=10.96.0.1 http:80/TCP@30000", "b day=2 cluster=10.96.0.1 http:80/TCP@30000"),
		"+ a:http cluster=10.96.0.1 @30000")
	s.want("the older one is younger now", s.services("a day=3 cluster=10.96.0.1 http:80/TCP@30000"),
		"- a:http cluster=10.96.0.1 @30000", "+ b:http cluster=10.96.0.1 @30000")
}

// TestSurroundings has changes that are about no Service, and which ports follow them.
func TestSurroundings(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		s := tell(t, f, model.Settings{NodePortCIDRs: prefixes(f, "192.0.2.0/24")})
		web := aService(f, "web", 0, "10.96.0.1")
		web.InternalLocal = true
		web.Endpoints = someEndpoints(f, "1 ready here")
		s.c.Apply(model.Changes{Services: map[model.ServiceName]*model.Service{web.Name: &web}})
		apply := func(ch model.Changes, globals bool, ports, allocated int) {
			t.Helper()
			d := s.c.Apply(ch)
			wantEqual(t, "Globals, ports and allocations", []any{globals, ports, allocated}, []any{d.Globals != nil, len(d.Ports), len(d.Allocated)})
			wantEqual(t, "Empty", !globals && ports == 0 && allocated == 0, d.Empty())
		}
		local, ranges := addrs(f, "192.0.2.1 10.0.0.1"), prefixes(f, "10.96.0.0/16")
		apply(model.Changes{LocalAddrs: &local}, true, 0, 0)
		apply(model.Changes{LocalAddrs: &local}, false, 0, 0)
		apply(model.Changes{Ranges: &ranges}, true, 0, 1)
		apply(model.Changes{Ranges: &ranges}, false, 0, 0)
		apply(model.Changes{Node: &model.Node{Name: "node-a"}}, false, 1, 0)
		apply(model.Changes{Node: &model.Node{Name: "node-a", Leaving: true}}, false, 0, 0)
		apply(model.Changes{Node: &model.Node{Name: "node-a", Zone: "zone-a"}}, false, 0, 0)
		apply(model.Changes{Node: &model.Node{Name: "node-b"}}, false, 1, 0)
		ranges = nil
		apply(model.Changes{Ranges: &ranges}, true, 0, 1)
	})
}

// TestEmpty has a Compiler without any Apply.
func TestEmpty(t *testing.T) {
	c := New(model.Settings{Family: model.IPv4})
	if p := c.Plan(); len(p.Ports) > 0 || len(p.Allocated) > 0 || p.Globals.Family != 0 {
		t.Errorf("before the first Apply the Plan is %+v", p)
	}
	d := c.Apply(model.Changes{})
	if d.Globals == nil || len(d.Ports) > 0 || len(d.Allocated) > 0 {
		t.Errorf("the first Delta is %+v, want the Globals", d)
	}
	if d := c.Apply(model.Changes{}); !d.Empty() {
		t.Errorf("the second Delta is %+v, want none", d)
	}
	if d := c.Apply(model.Changes{Services: map[model.ServiceName]*model.Service{name("gone"): nil}}); !d.Empty() {
		t.Errorf("without a Service that was not there the Delta is %+v, want none", d)
	}
}

// TestPlanIsTheCallers has a Plan that its owner writes to, and Deltas that stay what they were.
func TestPlanIsTheCallers(t *testing.T) {
	s := tell(t, model.IPv4, model.Settings{})
	ranges := prefixes(model.IPv4, "10.96.0.0/16")
	s.c.Apply(model.Changes{Ranges: &ranges})
	d := s.c.Apply(s.services("a cluster=10.96.0.1"))
	p := s.c.Plan()
	clear(p.Ports)
	clear(p.Allocated)
	s.c.Apply(s.services("a cluster=10.96.0.2"))
	wantEqual(t, "the Plan", []string{"a:http cluster=10.96.0.2"}, servedAs(s.c.Plan()))
	wantEqual(t, "allocated", 1, len(s.c.Plan().Allocated))
	for _, x := range d.Ports {
		wantEqual(t, "the first Delta", addrs(model.IPv4, "10.96.0.1"), x.ClusterIPs)
	}
}

// TestClaimants looks up the Services of an address.
func TestClaimants(t *testing.T) {
	s := tell(t, model.IPv4, model.Settings{})
	s.c.Apply(s.services("c cluster=10.96.0.1", "b cluster=10.96.0.1 ext=10.96.0.1", "a cluster=10.96.0.2 lb=10.96.0.1"))
	s.c.Apply(s.allocations("10.96.0.1=+d 10.96.0.3=+c", ""))
	for addr, want := range map[string][]model.ServiceName{
		"10.96.0.1": {name("a"), name("b"), name("c")}, "10.96.0.2": {name("a")}, "10.96.0.3": {name("c")}, "10.96.0.4": nil,
	} {
		wantEqual(t, addr, want, s.c.Claimants(netip.MustParseAddr(addr)))
	}
}

// crowd gives the Compiler many Services with three endpoints each.
func crowd(f model.Family, count int) (*Compiler, []model.Service) {
	st := stateOf()
	all := make([]model.Service, count)
	for i := range all {
		all[i] = oneOfMany(f, i)
		st.Services[all[i].Name] = all[i]
		st.Allocations[all[i].ClusterIPs[0]] = model.Allocation{Addr: all[i].ClusterIPs[0], Service: all[i].Name}
	}
	st.Node.Name = "node-a"
	st.Ranges = prefixes(f, "10.0.0.0/8")
	return compilerOf(model.Settings{Family: f}, st), all
}

func oneOfMany(f model.Family, i int) model.Service {
	addr := func(net byte) netip.Addr {
		a := addrs(f, fmt.Sprintf("10.%d.0.0", net))[0].AsSlice()
		a[len(a)-1], a[len(a)-2] = byte(i), byte(i>>8)
		b, _ := netip.AddrFromSlice(a)
		return b
	}
	s := aService(f, fmt.Sprintf("service-%05d", i), i%7, "")
	s.ClusterIPs = []netip.Addr{addr(96)}
	for e := range 3 {
		s.Endpoints = append(s.Endpoints, model.Endpoint{Port: "http", Protocol: model.TCP, Addr: netip.AddrPortFrom(addr(byte(e)), 8080),
			Ready: true, Node: "node-b"})
	}
	return s
}

// TestCost pins that the cost of an event does not depend on how many Services there are: how many of them are looked at, and what is
// allocated for it.
func TestCost(t *testing.T) {
	type cost struct {
		evaluated int
		allocated float64
	}
	costs := func(count int) map[string]cost {
		c, all := crowd(model.IPv4, count)
		toggle := false
		measure := func(ch func(toggle bool) model.Changes) cost {
			changes := [2]model.Changes{ch(false), ch(true)}
			run := func() {
				toggle = !toggle
				c.Apply(changes[map[bool]int{false: 0, true: 1}[toggle]])
			}
			run()
			run()
			before := c.evaluations
			run()
			evaluated := c.evaluations - before
			return cost{evaluated, testing.AllocsPerRun(100, run)}
		}
		only := func(s *model.Service) model.Changes {
			return model.Changes{Services: map[model.ServiceName]*model.Service{all[7].Name: s}}
		}
		return map[string]cost{
			"an endpoint becomes ready": measure(func(toggle bool) model.Changes {
				s := all[7]
				s.Endpoints = append([]model.Endpoint(nil), s.Endpoints...)
				s.Endpoints[1].Ready = toggle
				return only(&s)
			}),
			"a node port comes and goes": measure(func(toggle bool) model.Changes {
				s := all[7]
				if s.Ports = []model.Port{aPort("http:80/TCP")}; toggle {
					s.Ports = []model.Port{aPort("http:80/TCP@30000")}
				}
				return only(&s)
			}),
			"a Service comes and goes": measure(func(toggle bool) model.Changes {
				if toggle {
					return only(nil)
				}
				return only(&all[7])
			}),
			"an IPAddress moves to another Service and back": measure(func(toggle bool) model.Changes {
				x := model.Allocation{Service: all[6].Name, Additional: true}
				if toggle {
					x = model.Allocation{Service: all[7].Name}
				}
				return model.Changes{Allocations: map[netip.Addr]*model.Allocation{all[7].ClusterIPs[0]: &x}}
			}),
			"an interface comes and goes": measure(func(toggle bool) model.Changes {
				local := addrs(model.IPv4, "192.0.2.1")
				if toggle {
					local = nil
				}
				return model.Changes{LocalAddrs: &local}
			}),
			"nothing": measure(func(bool) model.Changes { return model.Changes{} }),
		}
	}
	few, many := costs(100), costs(10_000)
	for event, want := range map[string]int{
		"an endpoint becomes ready": 1, "a node port comes and goes": 1, "a Service comes and goes": 1,
		"an IPAddress moves to another Service and back": 2, "an interface comes and goes": 0, "nothing": 0,
	} {
		if many[event].evaluated != want {
			t.Errorf("%s: %d Services were looked at, want %d", event, many[event].evaluated, want)
		}
		if few[event] != many[event] {
			t.Errorf("%s costs %+v with 100 Services and %+v with 10,000", event, few[event], many[event])
		}
	}
}

// TestSharedAddressCost pins that Services which share an address at different ports do not cost one another anything.
func TestSharedAddressCost(t *testing.T) {
	s := tell(t, model.IPv4, model.Settings{})
	for i := range 200 {
		s.c.Apply(s.services(asked(fmt.Sprintf("s%03d cluster=10.96.0.%d lb=203.0.113.1 x:%d/TCP@%d", i, i, 1000+i, 30000+i))))
	}
	if s.c.evaluations != 200 {
		t.Errorf("200 Services were looked at %d times", s.c.evaluations)
	}
	s.want("one moves", s.services("s007 cluster=10.96.0.7 lb=203.0.113.1 x:8007/TCP@30007"),
		"- s007:x cluster=10.96.0.7 lb=203.0.113.1 @30007",
		"+ s007:x cluster=10.96.0.7 lb=203.0.113.1 @30007")
	if s.c.evaluations != 201 {
		t.Errorf("one more change looked at %d Services", s.c.evaluations-200)
	}
}

// TestSharedClaimCost pins that Services which fight for an address and a node port are only looked at together when claims change.
func TestSharedClaimCost(t *testing.T) {
	s := tell(t, model.IPv4, model.Settings{})
	s.c.Apply(s.services("a cluster=10.96.0.1 ext=203.0.113.1 x:80/TCP@30000", "b cluster=10.96.0.1 ext=203.0.113.1 x:80/TCP@30000",
		"c cluster=10.96.0.3 ext=10.96.0.1 x:80/TCP@30000"))
	before := s.c.evaluations
	ch := s.services("a cluster=10.96.0.1 ext=203.0.113.1 x:80/TCP@30000")
	ch.Services[name("a")].Endpoints = someEndpoints(model.IPv4, "1 ready")
	if s.c.Apply(ch); s.c.evaluations-before != 1 {
		t.Errorf("an endpoint looked at %d Services", s.c.evaluations-before)
	}
	before = s.c.evaluations
	if s.c.Apply(s.services("a cluster=10.96.0.2 ext=203.0.113.1 x:80/TCP@30000")); s.c.evaluations-before != 3 {
		t.Errorf("another ClusterIP looked at %d Services", s.c.evaluations-before)
	}
}

// TestIndex puts claims in and takes them out, some of them twice.
func TestIndex(t *testing.T) {
	aRecord := func(n string, day int) *record {
		return &record{name: name(n), claims: claims{created: someday.AddDate(0, 0, day)}}
	}
	oldest, a, b, external := aRecord("z", 1), aRecord("a", 2), aRecord("b", 2), aRecord("a/external", 0)
	x := index[string]{}
	for _, c := range []claim{{by: b}, {by: oldest}, {external, bySpec}, {by: a}, {by: oldest}} {
		x.set("k", c, true)
	}
	want := func(what string, names ...string) {
		t.Helper()
		var got []string
		for _, c := range x["k"] {
			got = append(got, c.by.name.Name)
		}
		wantEqual(t, what, names, got)
	}
	want("by class, age and name", "z", "a", "b", "external")
	if x.first("k") != oldest || x.first("other") != nil {
		t.Errorf("the first are %v and %v", x.first("k"), x.first("other"))
	}
	x.set("k", claim{by: oldest}, false)
	x.set("k", claim{by: oldest}, false)
	x.set("other", claim{by: oldest}, false)
	want("without the oldest, removed twice", "a", "b", "external")
	x.set("k", claim{by: a}, false)
	x.set("k", claim{external, bySpec}, false)
	x.set("k", claim{by: b}, false)
	wantEqual(t, "keys of an empty index", 0, len(x))
}

// TestEqual changes every field of the compared values in turn, those too that will be added: each must be noticed.
func TestEqual(t *testing.T) {
	eachField(t, func(a, b model.ServicePort) bool { return equalPorts(&a, &b) })
	eachField(t, equalGlobals)
}

func eachField[T any](t *testing.T, equal func(a, b T) bool) {
	t.Helper()
	var zero T
	if !equal(zero, zero) {
		t.Errorf("%T: the zero values are not equal", zero)
	}
	for i := range reflect.TypeFor[T]().NumField() {
		changed := zero
		field := reflect.ValueOf(&changed).Elem().Field(i)
		setAny(t, field)
		if equal(zero, changed) || equal(changed, zero) {
			t.Errorf("%T: another %s is not noticed", zero, reflect.TypeFor[T]().Field(i).Name)
		}
	}
}

// setAny sets a value to something that is not its zero value.
func setAny(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct:
		switch p := v.Addr().Interface().(type) {
		case *model.PortName:
			p.Port = "http"
		case *model.LocalSource:
			p.CIDR = netip.MustParsePrefix("10.0.0.0/8")
		default:
			t.Fatalf("%s: teach this test to set one", v.Type())
		}
	default:
		t.Fatalf("%s: teach this test to set one", v.Type())
	}
}
