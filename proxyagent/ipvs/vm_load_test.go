//go:build linux && ipvs

package ipvs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// TestDraining has connections to an old endpoint end, or reach the limit, while new ones come.
func TestDraining(t *testing.T) {
	each(t, func(w *fixture) {
		p := w.service("web", func(p *model.ServicePort) { p.ClusterIPs = []netip.Addr{w.clusterIP(1)} })
		vip := netip.AddrPortFrom(w.clusterIP(1), 80)
		w.sync(w.plan(p))
		kept := []*line{w.keep(vip), w.keep(vip)} // one at each endpoint
		defer w.load(w.Pod1, vip)()
		alone := *p
		alone.Cluster = p.Cluster[1:]
		w.sync(w.plan(&alone))
		w.reaches("new connections", w.Pod1, vip, false, w.RemotePod)
		for _, l := range kept {
			l.talk(w)
		}
		w.open(Options{}) // as after a restart
		w.sync(w.plan(&alone))
		w.check(time.Now().Add(time.Minute))
		for _, l := range kept {
			l.talk(w)
		}
		if weights := w.weights(vip); len(weights) != 2 || weights[p.Cluster[0]] != 0 || weights[p.Cluster[1]] != 1 {
			w.Errorf("while one drains the weights are %v", weights)
		}
		w.sync(w.plan(p))
		if weights := w.weights(vip); weights[p.Cluster[0]] != 1 {
			w.Errorf("one that came back: the weights are %v", weights)
		}
		w.sync(w.plan(&alone))
		w.check(time.Now().Add(16 * time.Minute))
		if weights := w.weights(vip); len(weights) != 1 {
			w.Errorf("after the limit the weights are %v", weights)
		}
		ended := 0
		for _, l := range kept {
			_ = l.SetDeadline(time.Now().Add(30 * time.Second))
			_, _ = fmt.Fprintln(l, "still there?")
			if _, err := l.ReadString('\n'); errors.Is(err, syscall.ECONNRESET) {
				ended++
			} else if err != nil {
				w.Error(err)
			}
		}
		if ended != 1 {
			w.Errorf("after the limit %d connections were ended, want that to the endpoint which went", ended)
		}
	})
}

// load makes new connections until the returned function is called, which wants that none was lost.
func (w *fixture) load(from *network.Namespace, to netip.AddrPort) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	lost, tried := []string{}, 0
	var running sync.WaitGroup
	running.Go(func() {
		for ; ctx.Err() == nil || tried < 20; tried++ {
			if r := w.dial(from, network.Probe{To: to, Timeout: 10 * time.Second}); r.Outcome != network.Connected {
				lost = append(lost, r.String())
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() {
		w.Helper()
		cancel()
		running.Wait()
		if len(lost) > 0 {
			w.Errorf("of %d new connections were lost: %q", tried, lost)
		}
	}
}

// TestTakeOver has IPVS follow upon an agent in mode nftables.
func TestTakeOver(t *testing.T) {
	const services = 40 // so many addresses come one after the other
	each(t, func(w *fixture) {
		var ports []*model.ServicePort
		for i := range services {
			ports = append(ports, w.service(fmt.Sprint("web", i), func(p *model.ServicePort) { p.ClusterIPs = []netip.Addr{w.clusterIP(1 + i)} }))
		}
		vip := netip.AddrPortFrom(w.clusterIP(services), 80)
		w.onNode(func() error { _, err := w.rules.Sync(context.Background(), w.plan(ports...)); return err })
		w.reaches("before", w.Pod1, vip, false, w.Pod2, w.RemotePod)
		end := w.load(w.Pod1, vip)
		w.open(Options{Translating: true})
		w.sync(w.plan(ports...))
		end()
		w.keep(vip)
		if held := w.held(vip); held[ports[0].Cluster[0]]+held[ports[0].Cluster[1]] == 0 {
			w.Errorf("IPVS holds %v, want the last connection", held)
		}
	})
}

// TestChangesUnderLoad changes what is served 500 times in each family, among new and kept
// connections to what stays. Now and then all is forgotten, as after a kill.
func TestChangesUnderLoad(t *testing.T) {
	const changes, forgets = 500, 4
	each(t, func(w *fixture) {
		random := rand.New(rand.NewPCG(1, uint64(w.family))) //nolint:gosec // a test's
		all := w.endpointsAt(12)
		now := map[model.PortName]*model.ServicePort{}
		change := func(name string, i int, endpoints ...netip.AddrPort) {
			p := w.service(name, func(p *model.ServicePort) {
				p.ClusterIPs, p.NodePort, p.Cluster, p.Local, p.Hairpin = []netip.Addr{w.clusterIP(i)}, uint16(30000+i), endpoints, nil, nil
			})
			d := model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: p}, Allocated: map[netip.Addr]bool{}}
			if now[p.Name] == nil {
				d.Allocated[p.ClusterIPs[0]] = true
			} else if len(endpoints) == 0 {
				d.Ports[p.Name], d.Allocated[p.ClusterIPs[0]] = nil, false
			}
			now[p.Name] = d.Ports[p.Name]
			if now[p.Name] == nil {
				delete(now, p.Name)
			}
			w.sync(d)
		}
		w.sync(w.plan())
		change("stays", 1, all...)
		vip, node := netip.AddrPortFrom(w.clusterIP(1), 80), netip.AddrPortFrom(w.Node.Addr(w.family), 30001)
		kept := []*line{w.keep(vip), w.keep(vip), w.keep(vip)}
		for _, end := range []func(){w.load(w.Pod1, vip), w.load(w.Node, vip), w.load(w.Client, vip), w.load(w.Client, node)} {
			defer end()
		}
		for i := range changes {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			name := 2 + random.IntN(20)
			if i%2 == 0 {
				change("stays", 1, all[:1+random.IntN(len(all)-1)]...)
			} else {
				change(fmt.Sprint("passes", name), name, all[:random.IntN(3)]...)
			}
			if i%(changes/forgets) == changes/forgets/2 {
				w.open(Options{})
				w.sync(w.plan(slices.Collect(maps.Values(now))...))
			}
			if i%20 == 0 {
				w.check(time.Now().Add(time.Duration(i) * time.Second)) // takes away what has drained, and compares everything once
			}
		}
		for _, l := range kept {
			l.talk(w)
		}
	})
}

// line is a connection that stays.
type line struct {
	net.Conn
	*bufio.Reader
}

func (w *fixture) keep(to netip.AddrPort) *line {
	w.Helper()
	conn, err := w.Pod1.DialContext(context.Background(), "tcp", to.String())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	l := &line{conn, bufio.NewReader(conn)}
	if _, err := l.ReadString('\n'); err != nil { // the greeting
		w.Fatal(err)
	}
	return l
}

func (l *line) talk(w *fixture) {
	w.Helper()
	_ = l.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := fmt.Fprintln(l, "still there?"); err != nil {
		w.Error(err)
	} else if _, err := l.ReadString('\n'); err != nil {
		w.Errorf("a connection that should go on: %v", err)
	}
}
