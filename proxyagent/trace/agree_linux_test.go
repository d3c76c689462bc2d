package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// TestWalkAgreesWithTheKernel makes random rules out of everything that Walk understands, but for chance, lets the node connect to
// addresses that these rules know, and compares what happens with what Walk says: who answers, whom it sees, or whether it is refused.
//
//  1. Three servers listen on the addresses of the node.
//  2. Each round restores new rules for OUTPUT, POSTROUTING and INPUT and three chains below them, in both tables.
//  3. A first rule lets through all but the first packet of each connection.
func TestWalkAgreesWithTheKernel(t *testing.T) {
	if !again(t) {
		return
	}
	const rounds = 8
	eachVariant(t, func(t *testing.T, v variant) {
		s := serve(t, v)
		random := rand.New(rand.NewPCG(1, uint64(v.family)))
		ends := map[string]int{}
		for range rounds {
			g := generator{Rand: random, fixture: s}
			text := g.rules()
			v.restore(t, text)
			forget(t)
			s.compare(t, v, text, ends)
			if t.Failed() {
				return
			}
		}
		t.Logf("ends: %v", ends)
		if ends[unsure] > rounds {
			t.Errorf("too little is predicted: %v", ends)
		}
		for _, end := range []string{"nothing", "refused", "served"} {
			if ends[end] == 0 {
				t.Errorf("no packet was ever %s: %v", end, ends)
			}
		}
	})
}

// forget deletes all flows: a client may take a port again that an earlier one had, and would be treated as that one was.
func forget(t *testing.T) {
	t.Helper()
	if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		t.Fatal(err)
	}
}

// fixture is the node with servers, and addresses to connect to.
type fixture struct {
	servers []netip.AddrPort
	targets []netip.AddrPort
	spare   netip.Addr // an address of the node that no server has
}

func serve(t *testing.T, v variant) fixture {
	t.Helper()
	one, two := v.addr("192.168.0.1", "fd00:1::1"), v.addr("192.168.0.2", "fd00:1::2")
	s := fixture{spare: two}
	for _, a := range []netip.AddrPort{netip.AddrPortFrom(one, 8081), netip.AddrPortFrom(two, 8082), netip.AddrPortFrom(one, 8083)} {
		l, err := net.Listen("tcp", a.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go greet(l, a)
		s.servers = append(s.servers, a)
	}
	vip := v.addr("10.96.0.1", "fd00:96::1")
	s.targets = []netip.AddrPort{
		netip.AddrPortFrom(vip, 80), netip.AddrPortFrom(vip, 443), netip.AddrPortFrom(vip.Next(), 80), s.servers[0],
		netip.AddrPortFrom(two, 99),
	}
	return s
}

// greet writes to every client where it arrived and whom the server sees.
func greet(l net.Listener, at netip.AddrPort) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		peer := netip.MustParseAddrPort(c.RemoteAddr().String()).Addr().Unmap()
		_, _ = fmt.Fprintf(c, "served by %s, which sees %s", at, peer)
		_ = c.Close()
	}
}

// compare connects to all targets at a time.
func (s fixture) compare(t *testing.T, v variant, text string, ends map[string]int) {
	t.Helper()
	r, err := save(t.Context(), v.mode, v.family)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	got, want := make([]string, len(s.targets)), make([]string, len(s.targets))
	paths := make([]Path, len(s.targets))
	for i, to := range s.targets {
		p, err := Options{Dst: to}.packet(kernel{t.Context()})
		if err != nil {
			t.Fatal(err)
		}
		if paths[i], err = Walk(p, r.Ruleset, kernel{t.Context()}); err != nil {
			t.Fatal(err)
		}
		want[i] = s.predicted(t, paths[i])
		if want[i] != unsure {
			all.Go(func() { got[i] = connect(to, want[i]) })
		}
	}
	all.Wait()
	for i := range s.targets {
		if want[i] == unsure {
			ends[unsure]++
			continue
		}
		kind, _, _ := strings.Cut(got[i], " ")
		ends[kind]++
		if got[i] != want[i] {
			t.Errorf("%s: the kernel says %q, Walk %q\n%s\n%s", s.targets[i], got[i], want[i], paths[i], text)
		}
	}
}

// unsure is what nothing is predicted for: Walk does not know what the node gives to MASQUERADE.
const unsure = "unsure"

// predicted is what a client should see.
func (s fixture) predicted(t *testing.T, p Path) string {
	t.Helper()
	if len(p.Outcomes) > 1 && len(p.Outcomes[0].If) > 0 && strings.Contains(p.String(), whichAddress) {
		return unsure
	}
	if len(p.Outcomes) != 1 {
		t.Fatalf("there are several possibilities without chance:\n%s", p)
	}
	o := p.Outcomes[0]
	switch {
	case o.Verdict == Refused:
		return "refused"
	case o.Verdict != Delivered || !o.Here:
		return "nothing"
	}
	for _, a := range s.servers {
		if a == o.Dst {
			return fmt.Sprintf("served by %s, which sees %s", a, s.source(p, o))
		}
	}
	return "closed"
}

// source is whom the server sees. A masqueraded packet has the address of the interface it left by, the one that routing prefers, which
// for what stays here is the destination itself.
func (s fixture) source(p Path, o Outcome) netip.Addr {
	switch {
	case strings.HasPrefix(o.Source, newSource):
		return netip.MustParseAddr(strings.TrimPrefix(o.Source, newSource))
	case o.Source == nodeSource:
		return o.Dst.Addr()
	default:
		return p.Packet.Src
	}
}

// connect waits only for the predicted outcome: no answer and a late answer look the same.
func connect(to netip.AddrPort, want string) string {
	timeout := 10 * time.Second
	if want == "nothing" {
		timeout = 150 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "closed"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EACCES):
		return "refused"
	case err != nil:
		return "nothing"
	}
	defer func() { _ = c.Close() }()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	text, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// generator makes random rules.
type generator struct {
	*rand.Rand
	fixture
}

// rules returns both tables. Chains lead to later ones only.
func (g generator) rules() string {
	nat := ":OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n" +
		g.chain("OUTPUT", 3, "A", "B", "C") + g.chain("A", 3, "B", "C") + g.chain("B", 3, "C") + g.chain("C", 2) +
		g.list("POSTROUTING", 2, g.postrouting)
	const first = "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n"
	filter := ":OUTPUT ACCEPT [0:0]\n:INPUT " + g.pick("ACCEPT", "ACCEPT", "DROP") + " [0:0]\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n" +
		"-A OUTPUT " + first + "-A INPUT " + first +
		g.filterChain("OUTPUT", 2, "A", "B", "C") + g.filterChain("INPUT", 3, "A", "C") + g.filterChain("A", 2, "B", "C") +
		g.filterChain("B", 2, "C") + g.filterChain("C", 1)
	return "*nat\n" + nat + "COMMIT\n*filter\n" + filter + "COMMIT\n"
}

func (g generator) list(chain string, n int, rule func() string) (text string) {
	for range 1 + g.IntN(n) {
		body := g.base(chain) + rule()
		if strings.Contains(body, "-p tcp ") { // which a rule may say once, and first
			body = "-p tcp " + strings.ReplaceAll(body, "-p tcp ", "")
		}
		text += "-A " + chain + " " + body + "\n"
	}
	return text
}

// base returns, now and then, a match on an address or on an interface that the chain may ask for.
func (g generator) base(chain string) string {
	to := g.targets[g.IntN(len(g.targets))]
	not := g.pick("", "! ")
	bases := []string{"", "", "", not + "-d " + g.prefix(to) + " ", not + "-s " + g.prefix(to) + " "}
	if chain != "INPUT" {
		bases = append(bases, not+"-o "+g.pick("lo", "eth0", "e+")+" ")
	}
	if chain != "OUTPUT" && chain != "POSTROUTING" {
		bases = append(bases, not+"-i "+g.pick("lo", "eth+", "l+")+" ")
	}
	return g.pick(bases...)
}

// prefix holds an address, and perhaps others.
func (g generator) prefix(of netip.AddrPort) string {
	bits := of.Addr().BitLen()
	if g.IntN(2) == 0 {
		bits -= 1 + g.IntN(20)
	}
	return netip.PrefixFrom(of.Addr(), bits).Masked().String()
}

func (g generator) chain(name string, n int, below ...string) string {
	return g.list(name, n, func() string { return g.matches() + g.natTarget(name == "OUTPUT", below) })
}

func (g generator) filterChain(name string, n int, below ...string) string {
	return g.list(name, n, func() string { return g.matches() + g.filterTarget(below) })
}

func (g generator) natTarget(builtIn bool, below []string) string {
	targets := []string{"-j MARK --set-xmark 0x1/0x1", "-j MARK --xor-mark 0x3", "-j MARK --and-mark 0x2", ""}
	for _, s := range g.servers {
		targets = append(targets, "-p tcp -j DNAT --to-destination "+s.String())
	}
	targets = append(targets, "-j DNAT --to-destination "+g.spare.String(), "-p tcp -j REDIRECT --to-ports 8083")
	return g.pick(g.flow(targets, builtIn, below)...)
}

func (g generator) filterTarget(below []string) string {
	with := "icmp-admin-prohibited"
	if g.spare.Is6() {
		with = "icmp6-adm-prohibited"
	}
	return g.pick(g.flow([]string{"-j DROP", "-j REJECT --reject-with " + with, ""}, false, below)...)
}

// flow adds the targets that only lead on.
func (g generator) flow(targets []string, builtIn bool, below []string) []string {
	targets = append(targets, "-j ACCEPT", "-j RETURN")
	for range 2 {
		for _, chain := range below {
			targets = append(targets, "-j "+chain, "-g "+chain)
		}
	}
	if builtIn { // or else most packets leave before they have met anything
		targets = append(targets, "-j A", "-j A", "-j A")
	}
	return targets
}

func (g generator) postrouting() string {
	return g.matches() + g.pick("-j SNAT --to-source "+g.spare.String(), "-j MASQUERADE", "-j ACCEPT", "-j MARK --set-xmark 0x5/0x5")
}

// matches returns up to two, of which most hold for some packets.
func (g generator) matches() (text string) {
	for range g.IntN(3) {
		text += g.match() + " "
	}
	return text
}

func (g generator) match() string {
	to := g.targets[g.IntN(len(g.targets))]
	not := g.pick("", "", "! ")
	if g.IntN(12) == 0 {
		return "-m comment --comment " + g.pick("-j", `"-j DROP"`, `"a \"quoted\" ! -d word"`)
	}
	return g.pick(
		fmt.Sprintf("-m conntrack %s--ctorigdst %s", not, g.prefix(to)),
		fmt.Sprintf("-m conntrack --ctorigdstport %d", to.Port()),
		fmt.Sprintf("-m conntrack %s--ctstate %s", not, g.pick("NEW", "DNAT", "INVALID,DNAT", "ESTABLISHED", "NEW,RELATED", "SNAT")),
		fmt.Sprintf("-m state %s--state %s", not, g.pick("NEW", "ESTABLISHED,RELATED")),
		fmt.Sprintf("-p tcp -m tcp %s--dport %s", not, g.pick(fmt.Sprint(to.Port()), "80:100", "8000:9000")),
		fmt.Sprintf("-p tcp -m tcp %s--tcp-flags %s", not, g.pick("FIN,SYN,RST,ACK SYN", "ALL SYN", "ACK ACK", "SYN NONE", "FIN NONE")),
		fmt.Sprintf("-p tcp -m multiport %s--dports 80,8081:8082,99", not),
		fmt.Sprintf("-m mark %s--mark %s", not, g.pick("0x1/0x1", "0x0", "0x2/0x3", "0x3")),
		fmt.Sprintf("-m addrtype %s--dst-type %s", not, g.pick("LOCAL", "UNICAST", "LOCAL,UNICAST", "MULTICAST")),
		"-m addrtype --src-type LOCAL",
		fmt.Sprintf("-m iprange %s--dst-range %s-%s", not, to.Addr(), to.Addr().Next()),
		"-m conntrack --ctdir ORIGINAL",
	)
}

func (g generator) pick(of ...string) string { return of[g.IntN(len(of))] }
