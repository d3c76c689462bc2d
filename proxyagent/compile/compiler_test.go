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

// services are the Changes of Services in the words of asked; a minus stands before deleted ones.
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

// allocations are the Changes of IPAddresses, in the words of allocationsOf, and of those gone.
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

// want applies Changes and compares what became of each port: NAME:PORT and its frontends before
// and now, in the words of servedAs.
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

// TestStory follows two Services through events that contend for an address, and their changes.
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
		s.want("a third claims it from outside", s.services("c day=0 cluster=10.96.0.3 lb=10.96.0.9"), "+ c:http cluster=10.96.0.3")
		s.want("it moves to the third", s.allocations("10.96.0.9=+c", ""), "- a:http cluster=10.96.0.1 cluster=10.96.0.9",
			"- c:http cluster=10.96.0.3",
			"+ a:http cluster=10.96.0.1", "+ c:http cluster=10.96.0.3 cluster=10.96.0.9")
		s.want("it goes", s.allocations("", "10.96.0.9"), "- c:http cluster=10.96.0.3 cluster=10.96.0.9",
			"+ c:http cluster=10.96.0.3 lb=10.96.0.9")
		s.want("the older Service is deleted", s.services("-a"), "- a:http cluster=10.96.0.1", "- b:http ext=203.0.113.1",
			"+ b:http cluster=10.96.0.1 ext=203.0.113.1")
		wantEqual(t, "disputes", []string(nil), disputesAs(s.c.Disputes()))
		s.want("all are deleted", s.services("-b", "-c"), "- b:http cluster=10.96.0.1 ext=203.0.113.1", "- c:http cluster=10.96.0.3 lb=10.96.0.9")
		wantEqual(t, "what is left behind", [8]int{}, [8]int{len(s.c.records), len(s.c.clusters), len(s.c.outside), len(s.c.fronts),
			len(s.c.nodePorts), len(s.c.winners), len(s.c.disputed), len(s.c.additional)})
	})
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

// TestCost pins that an event costs what the Services that it touches cost, however many there are.
func TestCost(t *testing.T) {
	s := tell(t, model.IPv4, model.Settings{})
	for i := range 200 { // they share an address, at different ports
		s.c.Apply(s.services(asked(fmt.Sprintf("s%03d cluster=10.96.0.%d lb=203.0.113.1 x:%d/TCP", i, i, 1000+i))))
	}
	if s.c.evaluations != 200 {
		t.Errorf("200 Services were looked at %d times", s.c.evaluations)
	}
	const seven, rival = "s007 cluster=10.96.0.7 lb=203.0.113.1 x:1007/TCP", "r cluster=10.96.0.201 lb=203.0.113.1 x:1007/TCP"
	ready := s.services(seven)
	ready.Services[name("s007")].Endpoints = someEndpoints(model.IPv4, "1 ready")
	local := addrs(model.IPv4, "192.0.2.1")
	for _, step := range []struct {
		event   string
		changes model.Changes
		want    int
	}{
		{"an endpoint becomes ready", ready, 1},
		{"a node port comes", s.services(seven + "@30000"), 1},
		{"another port of the shared address", s.services("s007 cluster=10.96.0.7 lb=203.0.113.1 x:8007/TCP"), 1},
		{"it is deleted", s.services("-s007"), 1},
		{"it comes", s.services(seven), 1},
		{"one comes that claims the same", s.services(rival), 2},
		{"an endpoint of one of those", ready, 1},
		{"one moves to another address", s.services("r cluster=10.96.0.202 lb=203.0.113.1 x:1007/TCP"), 2},
		{"an IPAddress for another Service", s.allocations("10.96.0.7=+s006", ""), 2},
		{"an interface comes", model.Changes{LocalAddrs: &local}, 0},
		{"the node leaves", model.Changes{Node: &model.Node{Leaving: true}}, 0},
		{"the node has a zone", model.Changes{Node: &model.Node{Zone: "zone-a"}}, 201},
		{"nothing", model.Changes{}, 0},
	} {
		before := s.c.evaluations
		s.c.Apply(step.changes)
		if s.c.evaluations-before != step.want {
			t.Errorf("%s: %d Services were looked at, want %d", step.event, s.c.evaluations-before, step.want)
		}
	}
}

// TestEqualPorts changes every field in turn, those too that will be added: each must be noticed.
func TestEqualPorts(t *testing.T) {
	if !equalPorts(&model.ServicePort{}, &model.ServicePort{}) {
		t.Error("the zero values are not equal")
	}
	for i := range reflect.TypeFor[model.ServicePort]().NumField() {
		var changed model.ServicePort
		switch v := reflect.ValueOf(&changed).Elem().Field(i); v.Kind() {
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int:
			v.SetInt(1)
		case reflect.Uint16:
			v.SetUint(1)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		default:
			changed.Name.Port = "http"
		}
		if equalPorts(&changed, &model.ServicePort{}) {
			t.Errorf("another %s is not noticed", reflect.TypeFor[model.ServicePort]().Field(i).Name)
		}
	}
}
