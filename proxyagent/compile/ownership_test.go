package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// asked is a Service as its owner wrote it; see claimant.
type asked string

// claimant parses a Service: name, age as day=N, held, a word for each address (cluster=, lb=,
// ext=) and port (NAME:NUMBER/PROTOCOL@NODEPORT). Without any, it has one called http, 80/TCP.
func (a asked) claimant(f model.Family) model.Service {
	words := strings.Fields(string(a))
	s := model.Service{Name: name(words[0]), Created: someday}
	for _, w := range words[1:] {
		key, value, isPair := strings.Cut(w, "=")
		switch {
		case w == "held":
			s.Held = true
		case w == "foreign":
			s.Foreign = true
		case !isPair:
			s.Ports = append(s.Ports, aPort(w))
		case key == "day":
			s.Created = someday.AddDate(0, 0, int(value[0]-'0'))
		case key == "cluster":
			s.ClusterIPs = append(s.ClusterIPs, addrs(f, value)...)
		case key == "lb":
			s.LoadBalancerIPs = append(s.LoadBalancerIPs, addrs(f, value)...)
		case key == "ext":
			s.ExternalIPs = append(s.ExternalIPs, addrs(f, value)...)
		default:
			panic("what is " + w)
		}
	}
	if len(s.Ports) == 0 {
		s.Ports = []model.Port{aPort("http:80/TCP")}
	}
	return s
}

func aPort(w string) model.Port {
	var p model.Port
	head, rest, _ := strings.Cut(w, ":")
	rest, nodePort, _ := strings.Cut(rest, "@")
	number, protocol, _ := strings.Cut(rest, "/")
	p.Name = head
	p.Protocol, _ = model.ParseProtocol(protocol)
	p.Port, p.NodePort = aNumber(number), aNumber(nodePort)
	return p
}

func aNumber(s string) uint16 {
	n, err := strconv.ParseUint(cmp.Or(s, "0"), 10, 16)
	if err != nil {
		panic(err)
	}
	return uint16(n)
}

// allocationsOf parses IPAddresses: ADDRESS=SERVICE, with + before the Service for an additional
// address, +* for a former one, and nothing behind = for a parent that is no Service.
func allocationsOf(f model.Family, s string) map[netip.Addr]model.Allocation {
	out := map[netip.Addr]model.Allocation{}
	for w := range strings.FieldsSeq(s) {
		addr, service, _ := strings.Cut(w, "=")
		parent, additional := strings.CutPrefix(service, "+")
		parent, former := strings.CutPrefix(parent, "*")
		a := addrs(f, addr)[0]
		out[a] = model.Allocation{Addr: a, Service: name(parent), Additional: additional, Former: former}
	}
	return out
}

// servedAs writes the Plan's frontends, a line for each port: NAME:PORT, addresses and @NODEPORT.
func servedAs(p model.Plan) []string {
	var out []string
	for _, x := range p.Ports {
		line := x.Name.Service.Name + ":" + x.Name.Port
		for _, a := range x.ClusterIPs {
			line += " cluster=" + a.String()
		}
		for _, a := range x.LoadBalancerIPs {
			line += " lb=" + a.String()
		}
		for _, a := range x.ExternalIPs {
			line += " ext=" + a.String()
		}
		if x.NodePort != 0 {
			line += fmt.Sprint(" @", x.NodePort)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// disputesAs writes disputes: LOSER<WINNER at ADDRESS REASON.
func disputesAs(ds []model.Dispute) (out []string) {
	for _, d := range ds {
		out = append(out, fmt.Sprintf("%s<%s at=%s %s", d.Loser.Name, d.Winner.Name, d.Addr, d.Reason))
	}
	return out
}

// inFamily writes the addresses behind = in lines as those of the family.
func inFamily(f model.Family, lines []string) (out []string) {
	for _, l := range lines {
		words := strings.Fields(l)
		for i, w := range words {
			if key, value, ok := strings.Cut(w, "="); ok {
				words[i] = key + "=" + in(f, value)
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// TestClaims has Services that claim the same, and says which one gets it.
func TestClaims(t *testing.T) {
	for name, tc := range map[string]struct {
		services, allocations string
		set                   model.Settings
		// want has frontends and disputes; enforce and ignore have them where these modes differ.
		want, enforce, ignore string
	}{
		// ClusterIPs.
		"one Service, no IPAddress": {services: "a cluster=10.96.0.1", want: "a:http cluster=10.96.0.1", enforce: "a< at=10.96.0.1 NotAllocated"},
		"the IPAddress names a Service that does not claim it": {
			services: "a cluster=10.96.0.1; b cluster=10.96.0.2", allocations: "10.96.0.1=b 10.96.0.2=b",
			want: "a:http cluster=10.96.0.1; b:http cluster=10.96.0.2", enforce: "b:http cluster=10.96.0.2; a< at=10.96.0.1 NotAllocated",
		},
		"the IPAddress names a Service that is gone": {
			services: "a cluster=10.96.0.1", allocations: "10.96.0.1=gone", want: "a:http cluster=10.96.0.1",
			enforce: "a< at=10.96.0.1 NotAllocated",
		},
		"two Services, the IPAddress names the younger one": {
			services: "a day=1 cluster=10.96.0.1; b day=2 cluster=10.96.0.1", allocations: "10.96.0.1=b",
			want:   "b:http cluster=10.96.0.1; a<b at=10.96.0.1 AllocatedToOtherService",
			ignore: "a:http cluster=10.96.0.1; b<a at=10.96.0.1 ClaimedByOlderService",
		},
		"two Services, no IPAddress: the older one": {
			services: "a day=2 cluster=10.96.0.1; b day=1 cluster=10.96.0.1",
			want:     "b:http cluster=10.96.0.1; a<b at=10.96.0.1 ClaimedByOlderService",
			enforce:  "a< at=10.96.0.1 NotAllocated; b< at=10.96.0.1 NotAllocated",
		},
		"two Services of one age: the first by namespace and name": {
			services: "x/a cluster=10.96.0.1; c cluster=10.96.0.1; b cluster=10.96.0.1",
			want:     "b:http cluster=10.96.0.1; c<b at=10.96.0.1 ClaimedByOlderService; a<b at=10.96.0.1 ClaimedByOlderService",
			enforce:  "b< at=10.96.0.1 NotAllocated; c< at=10.96.0.1 NotAllocated; a< at=10.96.0.1 NotAllocated",
		},
		"a ClusterIP belongs to one Service as a whole, whatever the ports are": {
			services: "a day=1 cluster=10.96.0.1 http:80/TCP; b day=2 cluster=10.96.0.1 https:443/TCP", allocations: "10.96.0.1=a",
			want:   "a:http cluster=10.96.0.1; b<a at=10.96.0.1 AllocatedToOtherService",
			ignore: "a:http cluster=10.96.0.1; b<a at=10.96.0.1 ClaimedByOlderService",
		},
		"the loser of a ClusterIP keeps what else it has": {
			services: "a day=1 cluster=10.96.0.1; b day=2 cluster=10.96.0.1 lb=203.0.113.1 http:80/TCP@30000", allocations: "10.96.0.1=a",
			want:   "a:http cluster=10.96.0.1; b:http lb=203.0.113.1 @30000; b<a at=10.96.0.1 AllocatedToOtherService",
			ignore: "a:http cluster=10.96.0.1; b:http lb=203.0.113.1 @30000; b<a at=10.96.0.1 ClaimedByOlderService",
		},

		// Additional addresses.
		"an additional address is served in every mode": {
			services: "a cluster=10.96.0.1", allocations: "10.96.0.1=a 10.96.0.2=+a", want: "a:http cluster=10.96.0.1 cluster=10.96.0.2",
		},
		"an additional address that is the ClusterIP already": {
			services: "a cluster=10.96.0.1", allocations: "10.96.0.1=+a", want: "a:http cluster=10.96.0.1",
		},
		"an additional address of a Service without a ClusterIP in the family": {
			services: "a http:80/TCP@30000 lb=203.0.113.1 ext=203.0.113.2", allocations: "10.96.0.2=+a", want: "a:http cluster=10.96.0.2",
		},
		"an additional address that is another's ClusterIP": {
			services: "a day=1 cluster=10.96.0.1; b day=2 cluster=10.96.0.2", allocations: "10.96.0.1=a 10.96.0.2=+a",
			want:   "a:http cluster=10.96.0.1 cluster=10.96.0.2; b<a at=10.96.0.2 AllocatedToOtherService",
			ignore: "a:http cluster=10.96.0.1; b:http cluster=10.96.0.2; a<b at=10.96.0.2 ClusterIPOfOtherService",
		},

		"a former address that is the ClusterIP still": {
			services: "a cluster=10.96.0.1", allocations: "10.96.0.1=+*a", want: "a:http cluster=10.96.0.1",
		},

		// Services that are held.
		"a Service that is held has all that it had": {
			services: "a held cluster=10.96.0.1 lb=203.0.113.1 ext=203.0.113.2 http:80/TCP@30000", allocations: "10.96.0.1=+*a 10.96.0.2=+a",
			want: "a:http cluster=10.96.0.1 cluster=10.96.0.2 lb=203.0.113.1 ext=203.0.113.2 @30000",
		},
		"a Service that is held, and whose IPAddress has no finalizer, as long as it is there": {
			services: "a held cluster=10.96.0.1", allocations: "10.96.0.1=a", want: "a:http cluster=10.96.0.1",
		},
		"a Service that is held, and whose IPAddress is gone": {
			services: "a held cluster=10.96.0.1 lb=203.0.113.1 http:80/TCP@30000", want: "a:http lb=203.0.113.1 @30000; a< at=10.96.0.1 NotAllocated",
		},
		"a Service that is held, and whose address a Service has that is not seen here": {
			services: "a held cluster=10.96.0.1", allocations: "10.96.0.1=unseen", want: "a< at=10.96.0.1 NotAllocated",
		},
		"a Service that is held, and whose address another one has, of which the IPAddress does not know yet": {
			services: "a day=1 held cluster=10.96.0.1; b day=2 cluster=10.96.0.1", allocations: "10.96.0.1=a",
			want:    "b:http cluster=10.96.0.1; a<b at=10.96.0.1 ClaimedByOlderService",
			enforce: "a< at=10.96.0.1 NotAllocated; b< at=10.96.0.1 NotAllocated",
		},
		"a Service that is held, and another one claims the address that is kept for it": {
			services: "a day=1 held cluster=10.96.0.1; b day=2 cluster=10.96.0.1", allocations: "10.96.0.1=+*a",
			want:   "a:http cluster=10.96.0.1; b<a at=10.96.0.1 AllocatedToOtherService",
			ignore: "b:http cluster=10.96.0.1; a<b at=10.96.0.1 ClaimedByOlderService",
		},
		"a Service that is held, and others have got its node port and its load balancer IP": {
			services:    "a day=1 held cluster=10.96.0.1 lb=203.0.113.1 x:80/TCP@30000; b day=2 cluster=10.96.0.2 ext=203.0.113.1 x:80/TCP@30000",
			allocations: "10.96.0.1=+*a 10.96.0.2=b",
			want:        "a:x cluster=10.96.0.1; b:x cluster=10.96.0.2 ext=203.0.113.1 @30000; a<b at=203.0.113.1 ClaimedByOlderService",
		},

		// External and load balancer IPs.
		"external IPs are switched off": {
			services: "a cluster=10.96.0.1 lb=203.0.113.1 ext=203.0.113.2", allocations: "10.96.0.1=a", set: model.Settings{NoExternalIPs: true},
			want: "a:http cluster=10.96.0.1 lb=203.0.113.1",
		},
		"an external IP that is the ClusterIP of an older Service": {
			services: "a day=1 cluster=10.96.0.1; b day=2 cluster=10.96.0.2 ext=10.96.0.1", allocations: "10.96.0.1=a 10.96.0.2=b",
			want: "a:http cluster=10.96.0.1; b:http cluster=10.96.0.2; b<a at=10.96.0.1 ClusterIPOfOtherService",
		},
		"an external IP that is the ClusterIP of a younger Service, at another port": {
			services:    "a day=2 cluster=10.96.0.1 https:443/TCP; b day=1 cluster=10.96.0.2 ext=10.96.0.1 lb=10.96.0.1",
			allocations: "10.96.0.1=a 10.96.0.2=b",
			want:        "a:https cluster=10.96.0.1; b:http cluster=10.96.0.2; b<a at=10.96.0.1 ClusterIPOfOtherService",
		},
		"an external IP that is a ClusterIP which no Service gets": {
			services: "a cluster=10.96.0.1; b cluster=10.96.0.2 ext=10.96.0.1", allocations: "10.96.0.2=b",
			want:    "a:http cluster=10.96.0.1; b:http cluster=10.96.0.2; b<a at=10.96.0.1 ClusterIPOfOtherService",
			enforce: "b:http cluster=10.96.0.2; a< at=10.96.0.1 NotAllocated; b< at=10.96.0.1 ClusterIPOfOtherService",
		},
		"an external IP that is the ClusterIP of a Service that another proxy serves": {
			services: "a foreign day=2 cluster=10.96.0.1; b day=1 cluster=10.96.0.2 ext=10.96.0.1", allocations: "10.96.0.1=a 10.96.0.2=b",
			want: "b:http cluster=10.96.0.2; b<a at=10.96.0.1 ClusterIPOfOtherService",
		},
		"an external IP that is the ClusterIP of a Service that another proxy serves, without its IPAddress": {
			services: "a foreign day=2 cluster=10.96.0.1; b day=1 cluster=10.96.0.2 ext=10.96.0.1", allocations: "10.96.0.2=b",
			want:    "b:http cluster=10.96.0.2; b<a at=10.96.0.1 ClusterIPOfOtherService",
			enforce: "b:http cluster=10.96.0.2; b< at=10.96.0.1 ClusterIPOfOtherService",
		},
		"external and load balancer IPs that an IPAddress gives to a Service which is not known": {
			services: "b cluster=10.96.0.2 ext=10.96.0.1 lb=10.96.0.3", allocations: "10.96.0.1=gone 10.96.0.2=b 10.96.0.3=gone",
			want:   "b:http cluster=10.96.0.2; b<gone at=10.96.0.1 ClusterIPOfOtherService; b<gone at=10.96.0.3 ClusterIPOfOtherService",
			ignore: "b:http cluster=10.96.0.2 lb=10.96.0.3 ext=10.96.0.1",
		},
		"an external IP that an IPAddress gives to a Service as an additional address before it is known": {
			services: "b cluster=10.96.0.2 ext=10.96.0.1", allocations: "10.96.0.1=+late 10.96.0.2=b",
			want: "b:http cluster=10.96.0.2; b<late at=10.96.0.1 ClusterIPOfOtherService",
		},
		"an external IP that an IPAddress gives to a Service that claims another address": {
			services: "a day=2 cluster=10.96.0.3; b day=1 cluster=10.96.0.2 ext=10.96.0.1", allocations: "10.96.0.1=a 10.96.0.2=b 10.96.0.3=a",
			want:   "a:http cluster=10.96.0.3; b:http cluster=10.96.0.2; b<a at=10.96.0.1 ClusterIPOfOtherService",
			ignore: "a:http cluster=10.96.0.3; b:http cluster=10.96.0.2 ext=10.96.0.1",
		},
		"an external IP that an IPAddress gives to the Service itself, and an older one claims it": {
			services: "a day=1 cluster=10.96.0.3 ext=10.96.0.1; b day=2 cluster=10.96.0.2 ext=10.96.0.1", allocations: "10.96.0.1=b 10.96.0.2=b 10.96.0.3=a",
			want:   "a:http cluster=10.96.0.3; b:http cluster=10.96.0.2 ext=10.96.0.1; a<b at=10.96.0.1 ClusterIPOfOtherService",
			ignore: "a:http cluster=10.96.0.3 ext=10.96.0.1; b:http cluster=10.96.0.2; b<a at=10.96.0.1 ClaimedByOlderService",
		},
		"an external IP that is a load balancer IP of another proxy's Service": {
			services:    "a foreign day=2 cluster=10.96.0.1 lb=203.0.113.1; b day=1 cluster=10.96.0.2 ext=203.0.113.1 http:80/TCP https:443/TCP",
			allocations: "10.96.0.1=a 10.96.0.2=b",
			want:        "b:http cluster=10.96.0.2; b:https cluster=10.96.0.2 ext=203.0.113.1; b<a at=203.0.113.1 ClaimedByOlderService",
		},
		"an additional address and the ClusterIP of Services that another proxy serves": {
			services: "a foreign cluster=10.96.0.1; b cluster=10.96.0.2 lb=10.96.0.3; c day=1 cluster=10.96.0.1", allocations: "10.96.0.1=a 10.96.0.2=b 10.96.0.3=+a",
			want:   "b:http cluster=10.96.0.2; c<a at=10.96.0.1 AllocatedToOtherService; b<a at=10.96.0.3 ClusterIPOfOtherService",
			ignore: "b:http cluster=10.96.0.2; c<a at=10.96.0.1 ClaimedByOlderService; b<a at=10.96.0.3 ClusterIPOfOtherService",
		},
		"a Service that another proxy serves loses without a word": {
			services: "a day=1 cluster=10.96.0.1 ext=203.0.113.1; b foreign day=2 cluster=10.96.0.1 ext=203.0.113.1 lb=10.96.0.1", allocations: "10.96.0.1=a",
			want: "a:http cluster=10.96.0.1 ext=203.0.113.1",
		},
		"external and load balancer IPs that are the Service's own ClusterIP": {
			services: "a cluster=10.96.0.1 ext=10.96.0.1 lb=10.96.0.1", allocations: "10.96.0.1=a", want: "a:http cluster=10.96.0.1",
		},
		"enforce has no back door through externalIPs": {
			services: "a cluster=10.96.0.1 ext=10.96.0.1", want: "a:http cluster=10.96.0.1", enforce: "a< at=10.96.0.1 NotAllocated",
		},
		"the loser of a ClusterIP does not get it as external IP": {
			services: "a day=2 cluster=10.96.0.1; b day=1 cluster=10.96.0.1 ext=10.96.0.1", allocations: "10.96.0.1=a",
			want:   "a:http cluster=10.96.0.1; b<a at=10.96.0.1 AllocatedToOtherService",
			ignore: "b:http cluster=10.96.0.1; a<b at=10.96.0.1 ClaimedByOlderService",
		},
		"one address as external and as load balancer IP of one Service": {
			services: "a cluster=10.96.0.1 ext=203.0.113.1 lb=203.0.113.1", allocations: "10.96.0.1=a",
			want: "a:http cluster=10.96.0.1 lb=203.0.113.1",
		},
		"a load balancer IP goes before an older external IP": {
			services: "a day=2 cluster=10.96.0.1 lb=203.0.113.1; b day=1 cluster=10.96.0.2 ext=203.0.113.1", allocations: "10.96.0.1=a 10.96.0.2=b",
			want: "a:http cluster=10.96.0.1 lb=203.0.113.1; b:http cluster=10.96.0.2; b<a at=203.0.113.1 ClaimedByOlderService",
		},
		"Services share a load balancer IP by port": {
			services:    "a cluster=10.96.0.1 lb=203.0.113.1 http:80/TCP; b cluster=10.96.0.2 lb=203.0.113.1 https:443/TCP http3:80/UDP",
			allocations: "10.96.0.1=a 10.96.0.2=b",
			want:        "a:http cluster=10.96.0.1 lb=203.0.113.1; b:http3 cluster=10.96.0.2 lb=203.0.113.1; b:https cluster=10.96.0.2 lb=203.0.113.1",
		},
		"a shared address is lost at one port and won at another": {
			services:    "a day=1 cluster=10.96.0.1 ext=203.0.113.1 http:80/TCP; b day=2 cluster=10.96.0.2 ext=203.0.113.1 alt:443/TCP http:80/TCP",
			allocations: "10.96.0.1=a 10.96.0.2=b",
			want:        "a:http cluster=10.96.0.1 ext=203.0.113.1; b:alt cluster=10.96.0.2 ext=203.0.113.1; b:http cluster=10.96.0.2; b<a at=203.0.113.1 ClaimedByOlderService",
		},
		"one address lost at several ports to several Services is one dispute": {
			services:    "a day=1 cluster=10.96.0.1 ext=203.0.113.1 x:443/TCP; b day=1 cluster=10.96.0.2 ext=203.0.113.1 x:80/TCP; c day=2 cluster=10.96.0.3 ext=203.0.113.1 http:80/TCP https:443/TCP",
			allocations: "10.96.0.1=a 10.96.0.2=b 10.96.0.3=c",
			want:        "a:x cluster=10.96.0.1 ext=203.0.113.1; b:x cluster=10.96.0.2 ext=203.0.113.1; c:http cluster=10.96.0.3; c:https cluster=10.96.0.3; c<b at=203.0.113.1 ClaimedByOlderService",
		},

		// Ports.
		"two ports with one number and protocol: the first by name has the addresses": {
			services: "a cluster=10.96.0.1 lb=203.0.113.1 y:80/TCP@30001 x:80/TCP@30000 z:80/UDP", allocations: "10.96.0.1=a",
			want: "a:x cluster=10.96.0.1 lb=203.0.113.1 @30000; a:y @30001; a:z cluster=10.96.0.1 lb=203.0.113.1",
		},
		"two ports with one name and protocol: the smaller number": {
			services: "a cluster=10.96.0.1 x:81/TCP x:80/TCP@30000", allocations: "10.96.0.1=a", want: "a:x cluster=10.96.0.1 @30000",
		},
		"one node port in two Services: the older one": {
			services: "a day=2 cluster=10.96.0.1 x:80/TCP@30000; b day=1 cluster=10.96.0.2 x:80/TCP@30000", allocations: "10.96.0.1=a 10.96.0.2=b",
			want: "a:x cluster=10.96.0.1; b:x cluster=10.96.0.2 @30000",
		},
		"one node port with two protocols": {
			services:    "a cluster=10.96.0.1 x:80/TCP@30000 y:80/UDP@30000; b cluster=10.96.0.2 x:80/SCTP@30000",
			allocations: "10.96.0.1=a 10.96.0.2=b", want: "a:x cluster=10.96.0.1 @30000; a:y cluster=10.96.0.1 @30000; b:x cluster=10.96.0.2 @30000",
		},
		"a node port of a Service without a ClusterIP in the family takes it from no other": {
			services: "a day=1 x:80/TCP@30000 ext=203.0.113.1; b day=2 cluster=10.96.0.2 x:80/TCP@30000 ext=203.0.113.1", allocations: "10.96.0.2=b",
			want: "b:x cluster=10.96.0.2 ext=203.0.113.1 @30000",
		},
		"the loser of its only address is not served": {
			services: "a day=1 cluster=10.96.0.1; b day=2 cluster=10.96.0.1 x:80/TCP@30000; c day=3 cluster=10.96.0.1", allocations: "10.96.0.1=b",
			want:   "b:x cluster=10.96.0.1 @30000; a<b at=10.96.0.1 AllocatedToOtherService; c<b at=10.96.0.1 AllocatedToOtherService",
			ignore: "a:http cluster=10.96.0.1; b:x @30000; b<a at=10.96.0.1 ClaimedByOlderService; c<a at=10.96.0.1 ClaimedByOlderService",
		},
	} {
		for mode, want := range map[model.AllocationMode]string{
			model.Prefer: tc.want, model.Enforce: cmp.Or(tc.enforce, tc.want), model.Ignore: cmp.Or(tc.ignore, tc.want),
		} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				inBoth(t, func(t *testing.T, f model.Family) {
					st := stateOf()
					for a := range strings.SplitSeq(tc.services, "; ") {
						s := asked(a).claimant(f)
						st.Services[s.Name] = s
					}
					st.Allocations = allocationsOf(f, tc.allocations)
					set := tc.set
					set.Family, set.Allocations = f, mode
					c := compilerOf(set, st)
					got := strings.Join(append(servedAs(c.Plan()), disputesAs(c.Disputes())...), "; ")
					wantEqual(t, "served and disputed", strings.Join(inFamily(f, strings.Split(want, "; ")), "; "), got)
				})
			})
		}
	}
}

// TestFormerAddresses are served while the Service that they are kept for exists and has them.
func TestFormerAddresses(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		st := stateOf(asked("a cluster=10.96.0.1").claimant(f), asked("b cluster=10.96.0.2").claimant(f), asked("c held cluster=10.96.0.3").claimant(f))
		st.Allocations = allocationsOf(f, "10.96.0.1=+*a 10.96.0.2=+*a 10.96.0.3=+*c 10.96.0.4=+a 10.96.0.5=+*gone 10.96.0.6=+*b")
		c := compilerOf(model.Settings{Family: f, Allocations: model.Ignore}, st)
		want := addrs(f, "10.96.0.1 10.96.0.3 10.96.0.6") // 10.96.0.2 is the ClusterIP of another one, which counts there
		wantEqual(t, "former addresses", want, sorted(c.Former(), netip.Addr.Compare))
		c.Apply(model.Changes{Allocations: map[netip.Addr]*model.Allocation{want[0]: nil}, Services: map[model.ServiceName]*model.Service{name("c"): nil}})
		wantEqual(t, "former addresses after changes", want[2:], c.Former())
	})
}

// TestUnusableVirtualIPs has addresses that would take no traffic, or traffic of the node.
func TestUnusableVirtualIPs(t *testing.T) {
	for _, a := range unservable {
		if a.IsLinkLocalUnicast() && a.Zone() == "" {
			continue // node-local virtual IPs are made of these
		}
		for _, f := range families {
			s := aService(f, "a", 0, "10.96.0.1")
			s.ClusterIPs, s.ExternalIPs, s.LoadBalancerIPs = append(s.ClusterIPs, a), []netip.Addr{a}, []netip.Addr{a}
			st := stateOf(s)
			st.Allocations = map[netip.Addr]model.Allocation{a: {Addr: a, Service: s.Name, Additional: true}}
			st.Ranges = prefixes(f, "10.0.0.0/8")
			p := planOf(model.Settings{Family: f}, st)
			wantEqual(t, a.String(), inFamily(f, []string{"a:http cluster=10.96.0.1"}), servedAs(p))
			if _, ok := p.Allocated[a]; ok {
				t.Errorf("%s is allocated", a)
			}
		}
	}
}

// TestBothFamilies has one dual-stack Service: each family serves its own half.
func TestBothFamilies(t *testing.T) {
	s := aService(model.IPv4, "a", 0, "10.96.0.1")
	s.ClusterIPs = append(s.ClusterIPs, addrs(model.IPv6, "10.96.0.1")...)
	s.ExternalIPs = slices.Concat(addrs(model.IPv6, "203.0.113.1"), addrs(model.IPv4, "203.0.113.1"))
	s.LoadBalancerIPs = slices.Concat(addrs(model.IPv6, "203.0.113.2"), addrs(model.IPv4, "203.0.113.2"))
	s.Ports[0].NodePort, s.HealthCheckNodePort, s.AffinitySeconds = 30000, 32000, 10
	s.Endpoints = slices.Concat(someEndpoints(model.IPv6, "1 ready; 2 ready"), someEndpoints(model.IPv4, "3 ready"))
	inBoth(t, func(t *testing.T, f model.Family) {
		got := onlyPort(t, planOf(model.Settings{Family: f}, stateOf(s)))
		want := model.ServicePort{
			Name: model.PortName{Service: s.Name, Port: "http", Protocol: model.TCP}, Port: 80, NodePort: 30000,
			ClusterIPs: addrs(f, "10.96.0.1"), ExternalIPs: addrs(f, "203.0.113.1"), LoadBalancerIPs: addrs(f, "203.0.113.2"),
			Cluster: endpointAddrs(f, map[model.Family]string{model.IPv4: "3", model.IPv6: "1 2"}[f]), HasEndpoints: true,
			HealthCheckNodePort: 32000, AffinitySeconds: 10,
		}
		wantEqual(t, "the port", want, got)
	})
}
