//go:build linux

package nftables

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// TestScalingMissesNoEndpoint has a Service get more and fewer endpoints while clients begin flows
// whose packets are under way for long in one chain: none of them misses the Service.
func TestScalingMissesNoEndpoint(t *testing.T) {
	t.Run("down to one, after the index is drawn", func(t *testing.T) {
		missesNone(t, "pick-10", func(n int) int { return []int{1, 10}[n%2] })
	})
	t.Run("to numbers that no other port has, before the look-up", func(t *testing.T) {
		missesNone(t, "services", func(n int) int { return 11 + n })
	})
}

func missesNone(t *testing.T, chain string, endpoints func(n int) int) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		node := link(t, d.Globals.Family)
		name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "a"}, Protocol: model.UDP}
		port := model.ServicePort{Name: name, Port: 80, ClusterIPs: d.Ports[stickyPort(d).Name].ClusterIPs, HasEndpoints: true}
		with := func(n int) *model.ServicePort {
			changed := port
			for i := range n {
				changed.Cluster = append(changed.Cluster, netip.AddrPortFrom(node, uint16(8000+i)))
			}
			return &changed
		}
		other := with(10)
		other.Name.Service.Name, other.Port = "b", 81 // so that the chain for ten stays
		if _, err := p.Sync(t.Context(), model.Delta{Globals: d.Globals, Ports: map[model.PortName]*model.ServicePort{name: with(10), other.Name: other}}); err != nil {
			t.Fatal(err)
		}
		h := familyName(d.Globals.Family)
		ruleset(t, "add", "table", h, "missed")
		ruleset(t, "add", "chain", h, "missed", "out", "{ type filter hook output priority -10; }")
		ruleset(t, "add", "rule", h, "missed", "out", h, "daddr", port.ClusterIPs[0].String(), "counter")
		slow := exec.Command("nft", "-f", "-") // packets are longer under way
		slow.Stdin = strings.NewReader(strings.Repeat(fmt.Sprintf("insert rule %s %s %s counter\n", h, table, chain), 5000))
		if out, err := slow.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var sent atomic.Int64
		stop, stopped := make(chan struct{}), make(chan error)
		go func() { stopped <- flows(netip.AddrPortFrom(port.ClusterIPs[0], 80), &sent, stop) }()
		for start, n := time.Now(), 0; time.Since(start) < 3*time.Second; n++ {
			if _, err := p.Sync(t.Context(), model.Delta{Ports: map[model.PortName]*model.ServicePort{name: with(endpoints(n))}}); err != nil {
				t.Error(err)
			}
		}
		close(stop)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		missed := regexp.MustCompile(`packets (\d+)`).FindStringSubmatch(ruleset(t, "list", "table", h, "missed"))
		if n, _ := strconv.Atoi(missed[1]); n > 0 || sent.Load() == 0 {
			t.Errorf("of %d flows %d met no endpoint", sent.Load(), n)
		}
		t.Logf("%d flows", sent.Load())
		ruleset(t, "flush", "chain", h, table, chain)
		if _, err := p.Check(t.Context(), later()); err != nil {
			t.Fatal(err)
		}
		agree(t, p)
	})
}

// TestWhatPacketsUnderWayMayLookForStaysForAWhile is about an index above the number of endpoints:
// no comparison takes it for a change by another program, and a later Check takes it away.
func TestWhatPacketsUnderWayMayLookForStaysForAWhile(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		first := *d.Ports[model.PortName{Service: model.ServiceName{Namespace: "default", Name: "a"}, Protocol: model.TCP}]
		change := func(n int) {
			changed := first
			changed.Cluster = plans.Endpoints(d.Globals.Family, n)
			if _, err := p.Sync(t.Context(), model.Delta{Ports: map[model.PortName]*model.ServicePort{first.Name: &changed}}); err != nil {
				t.Fatal(err)
			}
		}
		change(10)
		change(4)
		change(7)
		have := words(t, p)
		for i := range 10 {
			index := fmt.Sprintf("endpoints: %s . tcp . %d . %d : ", first.ClusterIPs[0], first.Port, i)
			if !slices.ContainsFunc(have, func(e string) bool { return strings.HasPrefix(e, index) }) {
				t.Errorf("packets under way do not find index %d", i)
			}
		}
		ruleset(t, "add", "table", "inet", "others")
		p.pace = model.Pace{}
		if found, err := p.Check(t.Context(), time.Now()); err != nil || len(found) > 0 {
			t.Errorf("it repaired %q, %v", found, err)
		}
		agree(t, p)
		if found, err := p.Check(t.Context(), time.Now().Add(2*time.Second)); err != nil || len(found) > 0 {
			t.Errorf("it repaired %q, %v", found, err)
		}
		chains, err := p.kernel.rules(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name := range chains {
			if _, wanted := p.table.Chains()[name]; !wanted {
				t.Errorf("the chain %s has not left", name)
			}
		}
	})
}

// flows begins new ones until it is told to stop.
func flows(to netip.AddrPort, sent *atomic.Int64, stop <-chan struct{}) error {
	family, at := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: int(to.Port()), Addr: addr4(to.Addr())})
	if to.Addr().Is6() {
		family, at = unix.AF_INET6, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		s, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		err = errors.Join(unix.Sendto(s, []byte("x"), 0, at), unix.Close(s))
		if err != nil && !errors.Is(err, unix.EPERM) { // a full conntrack table
			return err
		}
		sent.Add(1)
	}
}

func addr4(a netip.Addr) (b [4]byte) { copy(b[:], a.AsSlice()); return b }
