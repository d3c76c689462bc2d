package flows_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

const keepsUnreplied = "entries of TCP and SCTP stay as they are while the client tries again"

// fronts are the addresses and ports at which a Service of every protocol shall be served, before
// there is one.
type fronts struct {
	cluster, external, lb netip.Addr
	nodePort              uint16
}

// reserved counts the fronts of reserve.
var reserved atomic.Int32

// Scenarios name ClusterIPs of the static bands from 10.96.0.125 on, and default/kubernetes has the
// first.
const firstReserved, mostReserved = 8, 116

// reserve chooses fronts that no other Service gets: those of the static bands, from which API
// servers draw only when the rest is taken (KEP-3070, KEP-3668). One that was drawn and given back
// would be drawn for another scenario.
func (t *T) reserve() fronts {
	n := reserved.Add(1)
	if n > mostReserved {
		t.fail("there are more fronts than node ports in the static band, and ClusterIPs below those that scenarios name")
	}
	cluster := map[model.Family]string{model.IPv4: "10.96.0.%d", model.IPv6: "fd00:10:96::%x"}[t.F]
	return fronts{
		netip.MustParseAddr(fmt.Sprintf(cluster, firstReserved+n)), virtualAddr(t.F), virtualAddr(t.F), uint16(environment.FirstNodePort + n),
	}
}

// serve creates the Service. Its node port has the same number over each protocol.
func (f fronts) serve(t *T, endpoints ...endpoint) service {
	return t.create(spec{lb: []string{f.lb.String()}, externalIPs: []string{f.external.String()}, ports: everyProtocol, change: func(o *corev1.Service) {
		o.Spec.ClusterIP = f.cluster.String()
		for i := range o.Spec.Ports {
			o.Spec.Ports[i].NodePort = int32(f.nodePort)
		}
	}}, endpoints...)
}

// flows go to all of them from everywhere over some protocols, each always from the same port.
func (f fronts) flows(t *T, protocols ...model.Protocol) (all []Flow) {
	for _, p := range protocols {
		for _, to := range f.ways(t, t.Pod1, t.Client, t.Node) {
			one := t.udp(to.from, to.To.Addr(), to.To.Port())
			one.Protocol, one.Timeout = p, 200*time.Millisecond*framework.Slowness
			all = append(all, one)
		}
	}
	return all
}

// ask has all flows ask once, side by side, and tells which of them did not reach the endpoint.
func ask(flows []Flow, e endpoint) (missing []Flow, err error) {
	answers := make([]network.Result, len(flows))
	var asking sync.WaitGroup
	for i, f := range flows {
		asking.Go(func() { answers[i] = f.dial() })
	}
	asking.Wait()
	for i, f := range flows {
		if got := answers[i]; got.Outcome != network.Connected || got.Endpoint.Addr() != e.Addr(model.FamilyOf(f.To.Addr())) {
			missing, err = append(missing, f), errors.Join(err, fmt.Errorf("%s from %s to %s: %s", f.Protocol, f.from.Host(), f.To, got))
		}
	}
	return missing, err
}

// retry has clients ask again and again, each from its port, until each has reached the endpoint.
func (t *T) retry(what string, flows []Flow, e endpoint) {
	t.eventually(what, func() (err error) {
		flows, err = ask(flows, e)
		return err
	})
}

// inVain has clients ask without an answer.
func (t *T) inVain(flows []Flow, e endpoint) {
	for range 2 {
		if missing, _ := ask(flows, e); len(missing) != len(flows) {
			t.fail("%d of %d flows find an endpoint", len(flows)-len(missing), len(flows))
		}
	}
}

// silent is an endpoint on the other node that answers nothing.
func (t *T) silent(n int) endpoint {
	e, h := on(t.RemotePod, n), map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"}[t.F]
	_, err := t.RemotePod.Run(t.ctx, "nft", fmt.Sprintf("add table %[1]s silent%[2]d; add chain %[1]s silent%[2]d drops { type filter hook prerouting priority -300; }; add rule %[1]s silent%[2]d drops %[1]s daddr %[3]s drop", h, n, e.Addr(t.F)))
	t.must(err)
	return e
}

var beganScenarios = []scenario{
	{number: "159", name: "clients that asked before there was a Service reach it, from the same port, over every protocol at every front",
		differs: map[kind]string{withIPTables: keepsUnreplied, withNFTables: keepsUnreplied}, run: func(t *T) {
			at, a := t.reserve(), on(t.Pod2, 1)
			flows := at.flows(t, model.Protocols...)
			t.expect("no Service", flow(t.Client, at.lb, 80), dropped)
			t.inVain(flows, a)
			at.serve(t, a)
			t.retry("with a Service", flows, a)
		}},
	{number: "160", name: "clients whose endpoint is replaced while they ask reach the next one, from the same port, over every protocol at every front",
		differs: map[kind]string{withIPTables: keepsUnreplied, withNFTables: keepsUnreplied}, run: func(t *T) {
			at, a, b := t.reserve(), t.silent(20), on(t.Pod2, 1)
			s := at.serve(t, a)
			t.expect("a new connection", flow(t.Client, at.lb, 80), dropped)
			flows := at.flows(t, model.Protocols...)
			t.inVain(flows, a)
			s.setEndpoints(b)
			t.retry("with another endpoint", flows, b)
		}},
	{number: "161", name: "SCTP: an association's port reaches the next endpoint when its own has gone",
		differs: map[kind]string{withIPTables: keepsUnreplied, withNFTables: keepsUnreplied}, run: func(t *T) {
			at, a, b := t.reserve(), on(t.RemotePod, 1), on(t.Pod2, 1)
			// These associations stay unfinished, which conntrack forgets after three seconds, and a machine
			// may stall for longer between two questions.
			t.must(t.Node.Sysctl(map[string]string{
				"net/netfilter/nf_conntrack_sctp_timeout_cookie_wait": "60", "net/netfilter/nf_conntrack_sctp_timeout_cookie_echoed": "60", "net/netfilter/nf_conntrack_sctp_timeout_closed": "60",
			}))
			s := at.serve(t, a)
			flows := at.flows(t, model.SCTP)
			all := func(e endpoint) func() error {
				return func() error { _, err := ask(flows, e); return err }
			}
			t.eventually("the first endpoint", all(a))
			s.setEndpoints(terminating(a), b)
			t.eventually("a new connection reaches the second one", func() error {
				_, _ = ask(flows, a)
				_, err := ask([]Flow{over(model.SCTP, flow(t.Pod1, at.cluster, 80))}, b)
				return err
			})
			if t.kind != oursIPVS && t.kind != withIPVS { // which drain endpoints of TCP alone
				t.eventually("one that terminates keeps what it has", all(a))
			}
			s.setEndpoints(b)
			t.eventually("the second endpoint", all(b))
		}},
}

var rebootScenario = scenario{number: "162b", name: "flows that began after a boot, and before a proxy ran, reach their Service", run: boot, only: model.IPv4,
	differs: map[kind]string{withIPTables: keepsUnreplied, withNFTables: keepsUnreplied}}

// both returns the T of each family, for what happens to both at once.
func (t *T) both() (all []*T) {
	for _, f := range network.Families {
		one := *t
		one.F, one.slug = f, t.slug+"-"+strings.ToLower(f.String())
		all = append(all, &one)
	}
	return all
}

// beforeTheProxy: flows that began while no proxy ran, and flows of a Service that was deleted
// then.
func beforeTheProxy(t *T) {
	a, b := on(t.Pod2, 1), on(t.Pod2, 2)
	var old, fresh []Flow
	var change []func()
	for _, t := range t.both() {
		gone, coming := t.reserve(), t.reserve()
		s := gone.serve(t, a)
		old, fresh = append(old, gone.flows(t, model.UDP, model.SCTP)...), append(fresh, coming.flows(t, model.Protocols...)...)
		change = append(change, func() {
			t.Delete(t.ctx, s.Name)
			coming.serve(t, b)
		})
	}
	t.retry("the first Service", slices.Clone(old), a)
	t.must(t.proxy.Stop())
	for _, change := range change {
		change()
	}
	t.inVain(fresh, b)
	t.retry("without a proxy they go on", slices.Clone(old), a)
	t.must(t.proxy.Start(t.ctx))
	t.retry("the second Service", fresh, b)
	t.eventually("flows of the first one end", func() error {
		if missing, _ := ask(old, a); len(missing) != len(old) {
			return fmt.Errorf("%d of %d go on", len(old)-len(missing), len(old))
		}
		return nil
	})
}

// boot: flows that began when no rules of a proxy were there, while the kernel follows connections
// for the sake of another program, and connections from before, of which it knows nothing any more.
func boot(t *T) {
	e := on(t.Pod2, 1)
	var flows, ways []Flow
	var ends []endpoint
	for _, t := range t.both() {
		at := t.reserve()
		at.serve(t, e)
		flows = append(flows, at.flows(t, model.Protocols...)...)
		// Each connection has an endpoint for itself. After the boot it gets another port of the node, at
		// random. An endpoint that still knows another connection from that port takes this one for it,
		// and answers only with acknowledgements, which this client ignores: for minutes nothing ends.
		for i := range at.ways(t, t.Pod1, t.Client) {
			own := on(t.Pod2, 2+i)
			s := t.create(spec{lb: t.virtual(), externalIPs: t.virtual()}, own)
			to := fronts{s.clusterIP(), s.externalIP(), s.lb(), s.nodePort(0)}
			ways, ends = append(ways, to.ways(t, t.Pod1, t.Client)[i]), append(ends, own)
		}
	}
	var kept []net.Conn
	for i, f := range ways {
		t.expect("before the boot", f, reaches(ends[i]))
		kept = append(kept, t.connect(f))
	}
	t.must(t.proxy.Stop())
	if t.kind.ours() {
		t.Cleanup(t.ctx)
	}
	t.Run(t.ctx, "nft", "flush ruleset; add table inet others; add chain inet others watch { type filter hook prerouting priority 0; }; add rule inet others watch ct state new counter")
	t.Run(t.ctx, "conntrack", "-F")
	t.inVain(flows, e)
	asked := time.Now()
	for _, conn := range kept {
		_ = conn.SetDeadline(time.Time{})
		// It fails where the connection has ended: without rules, an acknowledgement that was under
		// way reaches the node itself, which resets it.
		_, _ = fmt.Fprintln(conn, "still there?")
	}
	t.must(t.proxy.Start(t.ctx))
	t.retry("after the boot", flows, e)
	// TCP doubles the pause after each try, so the next try comes when about as much time again has
	// passed as since the first one. It is answered at once; the rest is for a busy machine.
	deadline := time.Now().Add(time.Since(asked) + changeTimeout)
	for _, conn := range kept {
		_ = conn.SetDeadline(deadline)
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.fail("the connection from %s to %s neither goes on nor ends", conn.LocalAddr(), conn.RemoteAddr())
		}
	}
}
