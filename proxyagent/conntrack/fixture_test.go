package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// fake is a Table in memory that counts what it is asked.
type fake struct {
	flows  map[Flow]bool
	local  []netip.Addr
	dumps  int
	last   Query
	asked  int
	broken error
	stuck  map[Flow]bool
}

func newFake(flows ...Flow) *fake {
	t := &fake{flows: make(map[Flow]bool), local: addrs("192.0.2.1", "127.0.0.1", "10.244.0.1")}
	for _, f := range flows {
		t.flows[f] = true
	}
	return t
}

func (t *fake) Flows(_ context.Context, q Query, wanted func(Flow) bool) ([]Flow, error) {
	t.dumps++
	t.last = q
	var flows []Flow
	for f := range t.flows {
		asked := f.Protocol == q.Protocol && (!q.Unanswered || !f.Answered) && (!q.Addr.IsValid() || q.Addr == f.Destination.Addr()) && (q.Port == 0 || q.Port == f.Destination.Port())
		if asked && wanted(f) {
			flows = append(flows, f)
		}
	}
	return flows, t.broken
}

var errStuck = errors.New("stuck")

func (t *fake) Delete(_ context.Context, f Flow) (bool, error) {
	if t.stuck[f] {
		return false, errStuck
	}
	there := t.flows[f]
	delete(t.flows, f)
	return there, nil
}

func (t *fake) LocalAddrs() ([]netip.Addr, error) {
	t.asked++
	return t.local, nil
}

// String returns the flows, one to a line, sorted.
func (t *fake) String() string {
	var lines []string
	for f := range t.flows {
		lines = append(lines, text(f))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func text(f Flow) string {
	s := fmt.Sprintf("%v %v > %v", f.Protocol, f.Source, f.Destination)
	if f.translated() {
		s += fmt.Sprintf(" > %v", f.ReplySource)
	}
	if f.Answered {
		s += " answered"
	}
	return s
}

// client numbers the sources of flows.
var client = 0

// to is a flow to a destination, which the rules sent to an endpoint unless that is empty.
func to(destination, endpoint string) Flow {
	client++
	f := Flow{Protocol: model.UDP, Source: netip.AddrPortFrom(netip.MustParseAddr("10.244.0.9"), uint16(1024+client%60000)), ID: uint32(client)}
	f.Destination = netip.MustParseAddrPort(destination)
	f.ReplySource = f.Destination
	if endpoint != "" {
		f.ReplySource = netip.MustParseAddrPort(endpoint)
	}
	return f
}

// over are flows over another protocol.
func over(p model.Protocol, flows ...Flow) []Flow {
	flows = slices.Clone(flows)
	for i := range flows {
		flows[i].Protocol = p
	}
	return flows
}

func answered(f Flow) Flow {
	f.Answered = true
	return f
}

func addrs(list ...string) []netip.Addr {
	return parsed(netip.MustParseAddr, netip.Addr.Compare, list)
}

func endpoints(list ...string) []netip.AddrPort {
	return parsed(netip.MustParseAddrPort, netip.AddrPort.Compare, list)
}

func parsed[T any](parse func(string) T, compare func(a, b T) int, list []string) (all []T) {
	for _, text := range list {
		all = append(all, parse(text))
	}
	slices.SortFunc(all, compare)
	return all
}

// service is a UDP port 53 with a ClusterIP and endpoints of all its traffic.
func service(name, clusterIP string, cluster ...string) model.ServicePort {
	p := model.ServicePort{Name: model.PortName{Service: model.ServiceName{Namespace: "default", Name: name}, Protocol: model.UDP}, Port: 53, Cluster: endpoints(cluster...), Serving: endpoints(cluster...)}
	if clusterIP != "" {
		p.ClusterIPs = addrs(clusterIP)
	}
	return p
}

func with(p model.ServicePort, change func(*model.ServicePort)) model.ServicePort {
	change(&p)
	return p
}

func onNodePort(p model.ServicePort) model.ServicePort {
	return with(p, func(p *model.ServicePort) { p.NodePort = 30053 })
}

func tcp(p model.ServicePort) model.ServicePort {
	return with(p, func(p *model.ServicePort) { p.Name.Protocol, p.Serving = model.TCP, nil })
}

func sctp(p model.ServicePort) model.ServicePort {
	return with(p, func(p *model.ServicePort) { p.Name.Protocol = model.SCTP })
}

// now is the time of every test.
var now = time.Now()

// find searches once all that is suspected may be looked at.
func find(ctx context.Context, r *Reconciler) (deleted int, err error) {
	search := r.Search(now.Add(time.Hour))
	if search == nil {
		return 0, nil
	}
	for remove, more := search(ctx), true; more; {
		n := 0
		n, more, err = remove(ctx)
		deleted += n
	}
	return deleted, err
}

var anyNodePort = model.Globals{Family: model.IPv4, NodePortAny: true}

func planOf(g model.Globals, ports ...model.ServicePort) model.Plan {
	p := model.Plan{Globals: g, Ports: make(map[model.PortName]model.ServicePort)}
	for _, port := range ports {
		p.Ports[port.Name] = port
	}
	return p
}

// between is the Delta from one Plan to another.
func between(before, after model.Plan) model.Delta {
	d := model.Delta{Globals: &after.Globals, Ports: make(map[model.PortName]*model.ServicePort), Before: before.Ports}
	for name, old := range before.Ports {
		if now, ok := after.Ports[name]; !ok || !reflect.DeepEqual(old, now) {
			d.Ports[name] = nil
		}
	}
	for name, now := range after.Ports {
		if old, ok := before.Ports[name]; !ok || !reflect.DeepEqual(old, now) {
			d.Ports[name] = &now
		}
	}
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func allocated(list ...string) map[netip.Addr]struct{} {
	all := make(map[netip.Addr]struct{})
	for _, a := range addrs(list...) {
		all[a] = struct{}{}
	}
	return all
}
