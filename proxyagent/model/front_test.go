package model

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// everyFront is a port with two endpoints, of which the second one is on this node.
func everyFront(f Family) ServicePort {
	var a []netip.Addr
	for next := f.Unspecified(); len(a) < 6; next = a[len(a)-1] {
		a = append(a, next.Next())
	}
	all := []netip.AddrPort{netip.AddrPortFrom(a[4], 8080), netip.AddrPortFrom(a[5], 8080)}
	return ServicePort{
		Name: PortName{Protocol: TCP}, ClusterIPs: a[:2], ExternalIPs: a[2:3], LoadBalancerIPs: a[3:4], Port: 80, NodePort: 30000,
		Cluster: all, Local: all[1:], HasEndpoints: true,
	}
}

// inWords is a front in words, with 1 and 2 for the endpoints of everyFront.
func inWords(f Front) string {
	last := func(a netip.Addr) byte { return a.AsSlice()[a.BitLen()/8-1] }
	text := fmt.Sprint("node:", f.At.Port())
	if !f.IsNodePort() {
		text = fmt.Sprintf("%d:%d", last(f.At.Addr()), f.At.Port())
	}
	for _, is := range []struct {
		so   bool
		word string
	}{
		{f.Outside, "outside"}, {f.Local, "local"}, {f.Exempt, "exempt"}, {len(f.Sources) > 0, "sources"},
		{f.Fate == Serve, "serve"}, {f.Fate == Refuse, "refuse"}, {f.Fate == Drop, "drop"},
	} {
		if is.so {
			text += " " + is.word
		}
	}
	if len(f.Usable) > 0 {
		text += " "
	}
	for _, e := range f.Usable {
		text += fmt.Sprint(last(e.Addr()) - 4)
	}
	return text
}

func TestFronts(t *testing.T) {
	type port = *ServicePort
	elsewhere, none := func(p port) { p.Local = nil }, func(p port) { p.Cluster, p.Local, p.HasEndpoints = nil, nil, false }
	inside, outside := func(p port) { p.InternalLocal = true }, func(p port) { p.ExternalLocal = true }
	ranges := func(p port) { p.SourceRanges = []netip.Prefix{netip.PrefixFrom(p.ClusterIPs[0], 8)} }
	for name, tc := range map[string]struct {
		changes []func(port)
		// at ClusterIPs, external and load balancer IPs, and at the node port
		cluster, external, balancer, node string
	}{
		"any endpoint":                {nil, "serve 12", "outside serve 12", "outside serve 12", "outside serve 12"},
		"balanced":                    {[]func(port){func(p port) { p.Balanced = true }}, "serve 12", "outside serve 12", "outside serve 12", "outside serve 12"},
		"local inside":                {[]func(port){inside}, "local serve 2", "outside serve 12", "outside serve 12", "outside serve 12"},
		"local outside":               {[]func(port){outside}, "serve 12", "outside local exempt serve 2", "outside local exempt serve 2", "outside local exempt serve 2"},
		"local, endpoints elsewhere":  {[]func(port){inside, outside, elsewhere}, "local drop", "outside local exempt drop", "outside local exempt drop", "outside local exempt drop"},
		"local, and no others":        {[]func(port){outside, func(p port) { p.Cluster = nil }}, "drop", "outside local serve 2", "outside local serve 2", "outside local serve 2"},
		"no endpoints":                {[]func(port){none}, "refuse", "outside refuse", "outside refuse", "outside refuse"},
		"no endpoints, local":         {[]func(port){none, inside, outside}, "local refuse", "outside local refuse", "outside local refuse", "outside local refuse"},
		"source ranges":               {[]func(port){ranges}, "serve 12", "outside serve 12", "outside sources serve 12", "outside serve 12"},
		"source ranges, elsewhere":    {[]func(port){ranges, outside, elsewhere}, "serve 12", "outside local exempt drop", "outside local exempt sources drop", "outside local exempt drop"},
		"source ranges, no endpoints": {[]func(port){ranges, none}, "refuse", "outside refuse", "outside refuse", "outside refuse"},
	} {
		for _, f := range []Family{IPv4, IPv6} {
			p := everyFront(f)
			for _, change := range tc.changes {
				change(&p)
			}
			want := fmt.Sprintf("1:80 %s, 2:80 %[1]s, 3:80 %s, 4:80 %s, node:30000 %s", tc.cluster, tc.external, tc.balancer, tc.node)
			var got []string
			for _, f := range p.Fronts() {
				got = append(got, inWords(f))
			}
			if got := strings.Join(got, ", "); got != want {
				t.Errorf("%s, %s:\n%s, want\n%s", f, name, got, want)
			}
		}
	}
}

func TestPortAtAFront(t *testing.T) {
	for _, f := range []Family{IPv4, IPv6} {
		for _, front := range everyFront(f).Fronts() {
			if at := PortAt(UDP, front.At).Fronts(); len(at) != 1 || at[0].At != front.At {
				t.Errorf("of the port at %s: %v", front.At, at)
			}
		}
	}
	if all := (ServicePort{}).Fronts(); len(all) > 0 {
		t.Errorf("a port without fronts has %v", all)
	}
}
