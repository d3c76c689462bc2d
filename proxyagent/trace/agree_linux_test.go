package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// TestWalkAgreesWithTheKernel makes random rules out of what Walk understands, but for chance, lets the node connect to
// addresses that these rules know, and compares what happens with what Walk says: who answers, whom it sees, or whether it is refused.
//
//  1. Three servers listen on the addresses of the node.
//  2. Each round restores new rules for OUTPUT, POSTROUTING and INPUT and three chains below them, in both tables.
//  3. A first rule lets through all but the first packet of each connection.
func TestWalkAgreesWithTheKernel(t *testing.T) {
	ends := map[string]int{}
	eachVariant(t, func(t *testing.T, v variant) {
		s := serve(t, v)
		random := rand.New(rand.NewPCG(1, uint64(v.family)))
		for range 8 {
			text := generator{Rand: random, fixture: s}.rules()
			v.restore(t, text)
			// A client may take a port again that an earlier one had, and would be treated as that one was.
			if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
				t.Fatal(err)
			}
			if s.compare(t, v, text, ends); t.Failed() {
				return
			}
		}
	})
	t.Logf("ends: %v", ends)
	if ends["nothing"]*ends["refused"]*ends["served"] == 0 || ends[unsure] > 20 {
		t.Errorf("too little happens: %v", ends)
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
	ends := slices.Collect(maps.Keys(p.Ends))
	if ends[0].Perhaps && strings.Contains(p.String(), errWhichAddress.Error()) {
		return unsure
	}
	if len(ends) != 1 {
		t.Fatalf("there are several possibilities without chance:\n%s", p)
	}
	e := ends[0]
	switch {
	case strings.HasPrefix(e.Verdict, "refused"):
		return "refused"
	case !e.Here:
		return "nothing"
	case !slices.Contains(s.servers, e.Dst):
		return "closed"
	}
	sees := p.Packet.Src
	switch e.Source {
	case "":
	case nodeSource: // that of the interface which it left by, for what stays here the destination itself
		sees = e.Dst.Addr()
	default:
		sees = netip.MustParseAddr(e.Source)
	}
	return fmt.Sprintf("served by %s, which sees %s", e.Dst, sees)
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
	dnat := []string{"-j MARK --set-xmark 0x1/0x1", "-j MARK --set-xmark 0x3/0x0", "", "-j DNAT --to-destination " + g.spare.String()}
	for _, s := range g.servers {
		dnat = append(dnat, "-p tcp -j DNAT --to-destination "+s.String())
	}
	snat := []string{"-j SNAT --to-source " + g.spare.String(), "-j MASQUERADE", "-j ACCEPT", "-j MARK --set-xmark 0x5/0x5"}
	refuse := "-j REJECT --reject-with icmp-admin-prohibited"
	if g.spare.Is6() {
		refuse = "-j REJECT --reject-with icmp6-adm-prohibited"
	}
	stop := []string{"-j DROP", refuse, ""}
	const first = "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n"
	return "*nat\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n" +
		g.chain("OUTPUT", 3, leadingTo([]string{"-j A", "-j A", "-j A"}, "A", "B", "C")) + g.chain("A", 3, leadingTo(dnat, "B", "C")) +
		g.chain("B", 3, leadingTo(dnat, "C")) + g.chain("C", 2, leadingTo(dnat)) + g.chain("POSTROUTING", 2, snat) +
		"COMMIT\n*filter\n:OUTPUT ACCEPT [0:0]\n:INPUT " + g.pick("ACCEPT", "ACCEPT", "DROP") + " [0:0]\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n" +
		"-A OUTPUT " + first + "-A INPUT " + first +
		g.chain("OUTPUT", 2, leadingTo(stop, "A", "B", "C")) + g.chain("INPUT", 3, leadingTo(stop, "A", "C")) +
		g.chain("A", 2, leadingTo(stop, "B", "C")) + g.chain("B", 2, leadingTo(stop, "C")) + g.chain("C", 1, leadingTo(stop)) + "COMMIT\n"
}

// leadingTo adds the targets that only lead on.
func leadingTo(targets []string, below ...string) []string {
	targets = append(slices.Clone(targets), "-j ACCEPT", "-j RETURN")
	for _, chain := range slices.Concat(below, below) {
		targets = append(targets, "-j "+chain, "-g "+chain)
	}
	return targets
}

// chain is up to n rules, with up to three matches of which most hold for some packets.
func (g generator) chain(name string, n int, targets []string) (text string) {
	for range 1 + g.IntN(n) {
		body := g.base(name)
		for range g.IntN(3) {
			body += g.match() + " "
		}
		if body += g.pick(targets...); strings.Contains(body, "-p tcp ") { // which a rule may say once, and first
			body = "-p tcp " + strings.ReplaceAll(body, "-p tcp ", "")
		}
		text += "-A " + name + " " + body + "\n"
	}
	return text
}

// base returns, now and then, a match on an address or on an interface that the chain may ask for.
func (g generator) base(chain string) string {
	to := g.targets[g.IntN(len(g.targets))].Addr()
	bits := to.BitLen() - g.IntN(2)*g.IntN(20)
	network, not := netip.PrefixFrom(to, bits).Masked().String(), g.pick("", "! ")
	bases := []string{"", "", "", not + "-d " + network + " ", not + "-s " + network + " "}
	if chain != "INPUT" {
		bases = append(bases, not+"-o "+g.pick("lo", "eth0", "e+")+" ")
	}
	if chain != "OUTPUT" && chain != "POSTROUTING" {
		bases = append(bases, not+"-i "+g.pick("lo", "eth+", "l+")+" ")
	}
	return g.pick(bases...)
}

func (g generator) match() string {
	to, not := g.targets[g.IntN(len(g.targets))], g.pick("", "", "! ")
	return g.pick(
		"-m comment --comment "+g.pick("-j", `"-j DROP"`, `"a \"quoted\" ! -d word"`),
		fmt.Sprintf("-m conntrack %s--ctstate %s", not, g.pick("NEW", "DNAT", "INVALID,DNAT", "ESTABLISHED", "NEW,RELATED", "SNAT")),
		fmt.Sprintf("-p tcp -m tcp %s--dport %s", not, g.pick(fmt.Sprint(to.Port()), "80:100", "8000:9000")),
		fmt.Sprintf("-p tcp -m multiport %s--dports 80,8081:8082,99", not),
		fmt.Sprintf("-m mark %s--mark %s", not, g.pick("0x1/0x1", "0x0", "0x2/0x3", "0x3")),
		fmt.Sprintf("-m addrtype %s--dst-type LOCAL", not),
		"-m addrtype --src-type LOCAL",
	)
}

func (g generator) pick(of ...string) string { return of[g.IntN(len(of))] }
