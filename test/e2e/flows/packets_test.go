package flows_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

const (
	localInIPVS = "IPVS takes what arrives for a virtual IP, tracked or not"
	firstAlone  = "its iptables mode marks the first datagram of a flow alone, and accepts what is marked"
	noLinkLocal = "link-local addresses are the same on each interface, and have no virtual servers"
)

// ways are one flow to each front of a Service.
func (f fronts) ways(t *T, from ...*network.Namespace) (all []Flow) {
	for _, n := range from {
		all = append(all, flow(n, f.cluster, 80), flow(n, f.lb, 80), flow(n, f.external, 80), flow(n, t.Node.Addr(t.F), f.nodePort))
	}
	return all
}

// each expects the same of all flows over some protocols.
func (t *T) each(flows []Flow, w want, protocols ...model.Protocol) {
	for _, f := range flows {
		for _, p := range protocols {
			t.expect(fmt.Sprintf("%s from %s to %s", p, f.from.Host(), f.To), over(p, f), w)
		}
	}
}

// narrow makes the last step to an endpoint on the other node too narrow for packets of the usual
// size.
func (t *T) narrow(n int) endpoint {
	e := on(t.RemotePod, n)
	_, err := t.Remote.Run(t.ctx, "ip", "route", "add", netip.PrefixFrom(e.Addr(t.F), t.F.Bits()).String(), "via", t.RemotePod.Addr(t.F).String(), "dev", "pod1", "onlink", "mtu", "1280")
	t.must(err)
	return e
}

// throughNarrow has probes of a size go to such an endpoint, through every front.
func throughNarrow(n int, p model.Protocol, size int) func(*T) {
	return func(t *T) {
		at, e := t.reserve(), t.narrow(n)
		at.serve(t, e)
		flows := at.ways(t, t.Pod1, t.Client, t.Node)
		for _, f := range flows {
			f.Size = size
			var others []otherwise
			if p == model.UDP && t.F == model.IPv6 && f.from == t.Node {
				others = append(others, ipvs(want{outcome: network.Failed}, "IPVS refuses what the node has not cut up yet"))
			}
			t.expect(fmt.Sprintf("%s from %s to %s", p, f.from.Host(), f.To), over(p, f), reaches(e), others...)
		}
	}
}

var packetScenarios = []scenario{
	{number: "163", name: "a narrow path is told to the sender, through every front", run: throughNarrow(10, model.TCP, 20000)},
	{number: "164", name: "datagrams in fragments go there and back, through every front", run: throughNarrow(11, model.UDP, 4000)},
	{number: "165", name: "a packet whose time ends on the node is told of by the virtual IP that the client knows", run: func(t *T) {
		at, e := t.reserve(), on(t.RemotePod, 1)
		at.serve(t, e)
		for _, f := range at.ways(t, t.Pod1, t.Client) {
			for _, p := range model.Protocols {
				t.expect("the Service", over(p, f), reaches(e))
				t.expires(over(p, f))
			}
		}
	}},
	{number: "165b", name: "ping to a ClusterIP is refused", run: func(t *T) {
		s, want := t.create(spec{}, t.local), network.Refused
		switch t.kind {
		case withIPTables:
			want = network.Dropped
		case withIPVS:
			want = network.Connected
		}
		t.expect("the Service", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
		for _, from := range []*network.Namespace{t.Pod1, t.Node, t.Client} {
			t.pings(from, s.clusterIP(), want)
		}
	}},
	{number: "165c", name: "ping to the other addresses of a Service goes where it goes without one", run: func(t *T) {
		at := t.reserve()
		at.serve(t, t.remote)
		t.each(at.ways(t, t.Pod1), reaches(t.remote), model.TCP)
		t.pings(t.Pod1, t.Node.Addr(t.F), network.Connected)
		for _, to := range []netip.Addr{at.lb, at.external} {
			switch t.kind { // whose virtual IPs are addresses of the node
			case oursIPVS:
				t.pings(t.Pod1, to, network.Refused)
				continue
			case withIPVS:
				t.pings(t.Pod1, to, network.Connected)
				continue
			}
			t.pings(t.Pod1, to, network.Dropped)
			_, err := t.Client.Run(t.ctx, "ip", "addr", "add", netip.PrefixFrom(to, t.F.Bits()).String(), "dev", "lo")
			t.must(err)
			t.pings(t.Pod1, to, network.Connected)
		}
	}},
	{number: "166", name: "an endpoint reaches itself over every protocol at every front", run: func(t *T) {
		at, e := t.reserve(), on(t.Pod1, 0)
		at.serve(t, e)
		t.each(at.ways(t, t.Pod1), reaches(e).masqueraded(), model.Protocols...)
		at, e = t.reserve(), on(t.Node, 0)
		at.serve(t, e)
		t.each(at.ways(t, t.Node), reaches(e), model.Protocols...)
	}},
	{number: "167", name: "a program of the node that is bound to 127.0.0.1 reaches every front", only: model.IPv4, run: func(t *T) {
		at, e := t.reserve(), on(t.RemotePod, 1)
		at.serve(t, e)
		if !t.kind.ours() { // its nftables mode leaves it to the admin
			t.must(t.Node.Sysctl(map[string]string{"net/ipv4/conf/all/route_localnet": "1"}))
		}
		for _, f := range at.ways(t, t.Node) {
			t.each([]Flow{bound(network.Loopback(t.F), 0, f)}, reaches(e).masqueraded(), model.TCP, model.UDP)
		}
	}, differs: map[kind]string{oursIPVS: noLocalhostInIPVS, withIPVS: noLocalhostInIPVS}},
	{number: "168", name: "a node port at a link-local address", only: model.IPv6, run: func(t *T) {
		s := t.create(spec{nodePort: true}, t.local)
		t.expect("the node's address", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local))
		at := flow(t.Client, t.linkLocal(), s.nodePort(0))
		t.expect("the link-local one", bound(t.Client.Addr(t.F), 0, at), reaches(t.local).masqueraded(),
			kubeProxyNFTables(refused, primaryOnly), ipvs(refused, noLinkLocal))
		// The kernel forwards nothing that comes from a link-local address, and says so.
		t.expect("from a link-local one", at, want{outcome: network.Failed}, kubeProxyNFTables(refused, primaryOnly), ipvs(refused, noLinkLocal))
	}},
	{number: "169", name: "a DNS cache of the node has the ClusterIP for itself, untracked", run: func(t *T) {
		number := map[model.Family]uint16{model.IPv4: 5301, model.IPv6: 5302}[t.F]
		s := t.create(spec{ports: []port{{name: "t", port: int32(number)}, {name: "u", port: int32(number), protocol: model.UDP}}}, t.remote)
		for _, p := range []model.Protocol{model.TCP, model.UDP} {
			t.expect("without a cache", over(p, flow(t.Pod1, s.clusterIP(), number)), reaches(t.remote))
			defer t.nodeServes(p, number)()
		}
		_, err := t.Node.Run(t.ctx, "ip", "addr", "add", netip.PrefixFrom(s.clusterIP(), t.F.Bits()).String(), "dev", "lo")
		t.must(err)
		h := map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"}[t.F]
		_, err = t.Node.Run(t.ctx, "nft", fmt.Sprintf(`add table %[1]s cache; add chain %[1]s cache in { type filter hook prerouting priority -300; }; add chain %[1]s cache out { type filter hook output priority -300; };
			add rule %[1]s cache in %[1]s daddr %[2]s notrack; add rule %[1]s cache out %[1]s daddr %[2]s notrack; add rule %[1]s cache out %[1]s saddr %[2]s notrack`, h, s.clusterIP()))
		t.must(err)
		everywhere := []Flow{flow(t.Pod1, s.clusterIP(), number), flow(t.Node, s.clusterIP(), number), flow(t.Client, s.clusterIP(), number)}
		t.each(everywhere, itself, model.TCP, model.UDP)
		_, err = t.Node.Run(t.ctx, "nft", "delete", "table", h, "cache")
		t.must(err)
		_, err = t.Node.Run(t.ctx, "ip", "addr", "del", netip.PrefixFrom(s.clusterIP(), t.F.Bits()).String(), "dev", "lo")
		t.must(err)
		t.each(everywhere, reaches(t.remote), model.TCP, model.UDP)
	}, differs: map[kind]string{oursIPVS: localInIPVS, withIPVS: localInIPVS}},
	{number: "171", name: "datagrams that no endpoint answers arrive all, at every front, where FORWARD drops what no rule accepts", run: oneWay,
		differs: map[kind]string{oursNative: dropsStay, withNFTables: dropsStay, withIPTables: firstAlone}},
}

// mute is an endpoint on the other node that gets datagrams and answers none; got counts them.
func (t *T) mute(n int) (e endpoint, got func() int) {
	e = on(t.RemotePod, n)
	h, table := map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"}[t.F], fmt.Sprintf("mute%d", n)
	_, err := t.RemotePod.Run(t.ctx, "nft", fmt.Sprintf(`add table %[1]s %[2]s; add counter %[1]s %[2]s got; add chain %[1]s %[2]s in { type filter hook input priority 0; };
		add rule %[1]s %[2]s in %[1]s daddr %[3]s meta l4proto udp counter name got drop`, h, table, e.Addr(t.F)))
	t.must(err)
	return e, func() (packets int) {
		text, err := t.RemotePod.Run(t.ctx, "nft", "list", "counter", h, table, "got")
		t.must(err)
		_, err = fmt.Sscanf(text[strings.Index(text, "packets"):], "packets %d", &packets)
		t.must(err)
		return packets
	}
}

// oneWay has datagrams go to an endpoint that does not answer, as those of logs do, where only what
// a rule of the proxy accepts is forwarded to it: what docker and ufw do to all by a policy.
func oneWay(t *T) {
	const each = 10
	at := t.reserve()
	e, got := t.mute(12)
	at.serve(t, e)
	// What a pod sends to a ClusterIP keeps its source, and is for rules of the network plugin to
	// accept.
	ways := append(at.ways(t, t.Client, t.Node), at.ways(t, t.Pod1)[1:]...)
	t.each(ways, reaches(e), model.TCP)
	t.Run(t.ctx, t.iptables(t.F), "-w", "-A", "FORWARD", "-p", "udp", "-d", e.Addr(t.F).String(), "-j", "DROP")
	for _, f := range ways {
		conn, err := f.from.DialContext(t.ctx, "udp", f.To.String())
		t.must(err)
		for range each {
			_, err := conn.Write([]byte("a line of a log"))
			t.must(err)
		}
		t.must(conn.Close())
	}
	deadline := time.Now().Add(network.DefaultTimeout)
	for got() < each*len(ways) && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	if n := got(); n != each*len(ways) {
		t.fail("%d of %d datagrams arrived", n, each*len(ways))
	}
}

// pings wants an echo to end so.
func (t *T) pings(from *network.Namespace, to netip.Addr, want network.Outcome) {
	t.eventually(fmt.Sprintf("ping from %s to %s", from.Host(), to), func() error {
		if got, err := t.ping(from, to); got != want {
			return fmt.Errorf("got %s (%w), want %s", got, err, want)
		}
		return nil
	})
}

// ping asks for an echo: connected if it comes, refused if the node says at once that it will not.
func (t *T) ping(from *network.Namespace, to netip.Addr) (outcome network.Outcome, err error) {
	proto, echo := "ip4:1", []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1} // with its checksum
	level, tell := unix.IPPROTO_IP, unix.IP_RECVERR
	if t.F == model.IPv6 {
		proto, echo = "ip6:58", []byte{128, 0, 0, 0, 0, 1, 0, 1} // the kernel fills it in
		level, tell = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		control := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, tell, 1) })
		return errors.Join(control, err)
	}}
	err = from.Do(func() error {
		conn, err := dialer.Dial(proto, to.String())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(network.DropTimeout))
		if _, err = conn.Write(echo); err == nil || errors.Is(err, unix.EPERM) {
			_, err = conn.Read(make([]byte, 100))
		}
		return err
	})
	var late net.Error
	switch {
	case err == nil:
		return network.Connected, nil
	case errors.As(err, &late) && late.Timeout():
		return network.Dropped, nil
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EACCES):
		return network.Refused, nil
	}
	return network.Failed, err
}

// linkLocal is the node's address on the wire that it shares with the client, as the client says
// it.
func (t *T) linkLocal() (a netip.Addr) {
	t.must(t.Node.Do(func() error {
		eth, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		addrs, err := eth.Addrs()
		for _, one := range addrs {
			if ip, _ := netip.AddrFromSlice(one.(*net.IPNet).IP); ip.IsLinkLocalUnicast() && ip.Is6() {
				a = ip.WithZone("eth0")
			}
		}
		return err
	}))
	return a
}

// expires sends a packet whose time ends at the first router, and wants to be told so about the
// address that it was sent to: the kernel hands an error to the socket whose packet it quotes.
func (t *T) expires(f Flow) {
	f.TTL = 1
	t.eventually(fmt.Sprintf("%s from %s to %s", f.Protocol, f.from.Host(), f.To), func() error {
		if got := f.dial(); !errors.Is(got.Err, unix.EHOSTUNREACH) {
			return fmt.Errorf("got %s, want no route to host", got)
		}
		return nil
	})
}

// strictPaths: what arrives has to come from where its answer goes. For IPv6 firewalls ask, as
// firewalld does by default.
func strictPaths(t *T) {
	if t.F == model.IPv4 {
		t.must(t.Node.Sysctl(map[string]string{"net/ipv4/conf/all/rp_filter": "1"}))
	} else {
		_, err := t.Node.Run(t.ctx, "nft", `add table ip6 strict; add chain ip6 strict paths { type filter hook prerouting priority -300; };
			add rule ip6 strict paths meta l4proto != ipv6-icmp fib saddr . mark . iif oif missing drop`)
		t.must(err)
	}
	at, local, there := t.reserve(), on(t.Pod1, 0), on(t.RemotePod, 1)
	for _, e := range []endpoint{local, there} {
		s := at.serve(t, e)
		t.each(at.ways(t, t.Pod1, t.Pod2, t.Node, t.Client), reaches(e), model.TCP, model.UDP)
		t.Delete(t.ctx, s.Name)
	}
}
