package compile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// tape is a source of randomness that plays the fuzzer's bytes, and noise when they are over.
type tape struct {
	bytes []byte
	noise uint64
}

// Uint64 has the next byte on top, where small random numbers come from. Below is noise: a constant
// there could be rejected for ever.
func (t *tape) Uint64() uint64 {
	t.noise = t.noise*6364136223846793005 + 1442695040888963407
	if len(t.bytes) == 0 {
		return t.noise
	}
	b := t.bytes[0]
	t.bytes = t.bytes[1:]
	return uint64(b)<<56 | t.noise>>8
}

// FuzzCompile plays histories with malformed input: addresses of any kind, zero values, names that
// are none.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{"", "\x00", "\xff\xff\xff\xff\xff\xff\xff\xff", "clusterip", strings.Repeat("\x00\xff\x80\x10", 64)} {
		f.Add([]byte(s), uint8(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, family uint8) {
		g := generator{rand.New(&tape{bytes: data}), []model.Family{model.IPv4, model.IPv6, model.Family(family)}[family%3]}
		set := g.settings()
		if g.one(2) {
			set.NodePortCIDRs = append(set.NodePortCIDRs, g.wildPrefix())
		}
		play(t, g, set, 4, true)
	})
}

// spoil puts malformed input into one Service that changes.
func (g generator) spoil(st *model.State, ch *model.Changes) {
	for n, s := range ch.Services {
		if s == nil || g.one(3) {
			continue
		}
		x := *s
		x.ClusterIPs = append(slices.Clone(x.ClusterIPs), some(g, 3, g.wildAddr)...)
		x.ExternalIPs = append(slices.Clone(x.ExternalIPs), some(g, 3, g.wildAddr)...)
		x.LoadBalancerIPs = append(slices.Clone(x.LoadBalancerIPs), some(g, 3, g.wildAddr)...)
		x.SourceRanges = append(slices.Clone(x.SourceRanges), some(g, 3, g.wildPrefix)...)
		x.Ports = append(slices.Clone(x.Ports), some(g, 3, g.wildPort)...)
		x.Endpoints = append(slices.Clone(x.Endpoints), some(g, 3, g.wildEndpoint)...)
		x.AffinitySeconds = g.IntN(256) - 128
		ch.Services[n], st.Services[n] = &x, x
		return
	}
}

func (g generator) byte() byte { return byte(g.IntN(256)) }

func (g generator) wildAddr() netip.Addr {
	switch g.IntN(4) {
	case 0:
		return pick(g, unservable...)
	case 1:
		return netip.AddrFrom4([4]byte{g.byte(), g.byte(), 0, g.byte()})
	case 2:
		return netip.AddrFrom16([16]byte{0: g.byte(), 1: g.byte(), 10: g.byte(), 11: g.byte(), 15: g.byte()})
	default:
		return g.addr()
	}
}

func (g generator) wildPrefix() netip.Prefix { return netip.PrefixFrom(g.wildAddr(), g.IntN(140)-5) }

func (g generator) wildName() string {
	return pick(g, "", "http", "a\nb", "\x1b[2J", "-j DROP", "'; reboot", strings.Repeat("x", 300), "\xff\xfe", "日本", "\u202e")
}

func (g generator) wildPort() model.Port {
	return model.Port{Name: g.wildName(), Protocol: model.Protocol(g.byte()), Port: uint16(g.byte()), NodePort: uint16(g.byte())}
}

func (g generator) wildEndpoint() model.Endpoint {
	return model.Endpoint{
		Port: g.wildName(), Protocol: pick(g, model.TCP, model.Protocol(g.byte())), Addr: netip.AddrPortFrom(g.wildAddr(), uint16(g.byte())),
		Node: g.wildName(), Ready: g.one(2), Serving: g.one(2), Terminating: g.one(2),
		Hints: &model.Hints{Zones: some(g, 2, g.wildName), Nodes: some(g, 2, g.wildName)},
	}
}

// broken returns which promises a Plan breaks, or nothing.
func broken(p model.Plan) (complaints string) {
	complain := func(format string, args ...any) { complaints += fmt.Sprintf(format+"\n", args...) }
	f, fronts, nodePorts := p.Globals.Family, map[front]model.PortName{}, map[portKey]model.PortName{}
	for n, x := range p.Ports {
		vips := slices.Concat(x.ClusterIPs, x.ExternalIPs, x.LoadBalancerIPs)
		for _, a := range vips {
			k := front{a, portKey{x.Port, n.Protocol}}
			if before, twice := fronts[k]; twice {
				complain("%v is of %s and %s", k, before, n)
			}
			fronts[k] = n
			if whyNoVirtualIP(a, f) != "" {
				complain("%s has the address %s", n, a)
			}
		}
		k := portKey{x.NodePort, n.Protocol}
		if before, twice := nodePorts[k]; twice && x.NodePort != 0 {
			complain("node port %v is of %s and %s", k, before, n)
		}
		nodePorts[k] = n
		if len(vips) == 0 && x.NodePort == 0 {
			complain("%s is served nowhere", n)
		}
		for _, set := range [][]netip.AddrPort{x.Cluster, x.Local, x.Hairpin, x.Serving} {
			if !strictly(set, netip.AddrPort.Compare) || slices.ContainsFunc(set, func(a netip.AddrPort) bool { return whyNoEndpoint(a, f) != "" }) {
				complain("%s has endpoints %v", n, set)
			}
		}
		if !strictly(x.ClusterIPs, netip.Addr.Compare) || !strictly(x.ExternalIPs, netip.Addr.Compare) ||
			!strictly(x.LoadBalancerIPs, netip.Addr.Compare) || !strictly(x.SourceRanges, netip.Prefix.Compare) {
			complain("%s is not sorted: %+v", n, x)
		}
		if len(x.Cluster)+len(x.Local) > 0 && !x.HasEndpoints {
			complain("%s has no endpoints, and some: %+v", n, x)
		}
	}
	if !strictly(p.Globals.Ranges, netip.Prefix.Compare) || !strictly(p.Globals.NodePortAddrs, netip.Addr.Compare) {
		complain("the Globals are not sorted: %+v", p.Globals)
	}
	for a := range p.Allocated {
		if !model.Inside(p.Globals.Ranges, a) {
			complain("%s is allocated and in no range", a)
		}
	}
	return complaints
}

// strictly reports whether every element is greater than the one before.
func strictly[T any](s []T, compare func(a, b T) int) bool {
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) >= 0 {
			return false
		}
	}
	return true
}

// unprintable complains about text that is more than lines of words.
func unprintable(text string) string {
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && (!unicode.IsPrint(r) || r == unicode.ReplacementChar) }); i >= 0 {
		return fmt.Sprintf("not to be printed on a terminal: %q\n", text)
	}
	return ""
}
