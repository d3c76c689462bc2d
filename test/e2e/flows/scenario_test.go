//go:build linux

package flows_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/flowtest"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

const (
	// changeTimeout is how long a change may take from the API server to the packets, with dozens of other scenarios beside it.
	changeTimeout = 40 * time.Second
	// pause is between two attempts.
	pause = 100 * time.Millisecond
)

// scenario is one behaviour. Its function is called for each family, beside all other scenarios of the same environment, with Services of its
// own.
type scenario struct {
	// number is that of the behaviour in docs/proxy-conformance.md.
	number, name string
	run          func(*T)
	// only restricts the families.
	only model.Family
	// differs names the proxies for which the scenario as a whole must fail, and why.
	differs map[flowtest.Kind]string
}

func (s scenario) title(f model.Family) string { return fmt.Sprintf("%s %s (%s)", s.number, s.name, f) }

func (s scenario) families() []model.Family {
	if s.only != 0 {
		return []model.Family{s.only}
	}
	return network.Families
}

// T is the environment of a scenario, and collects its failures.
type T struct {
	*flowtest.Environment
	F model.Family

	ctx      context.Context
	slug     string
	services int
	failures []error
}

// giveUp ends a scenario that cannot go on.
type giveUp struct{ error }

// perform runs a scenario and returns its failures.
func (s scenario) perform(ctx context.Context, w *flowtest.Environment, f model.Family) (err error) {
	t := &T{Environment: w, F: f, ctx: ctx, slug: slug(s.number, f)}
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case giveUp:
			t.failures = append(t.failures, reason.error)
		default:
			t.failures = append(t.failures, fmt.Errorf("it panicked: %v", reason))
		}
		err = errors.Join(t.failures...)
	}()
	s.run(t)
	return nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func slug(number string, f model.Family) string {
	return "s" + notInNames.ReplaceAllString(strings.ToLower(number), "-") + "-" + strings.ToLower(f.String())
}

// must ends the scenario when something fails that is not under test.
func (t *T) must(err error) {
	if err != nil {
		panic(giveUp{err})
	}
}

// fail records a failure; the scenario goes on.
func (t *T) fail(format string, args ...any) {
	t.failures = append(t.failures, fmt.Errorf(format, args...))
}

// otherwise is the expected behaviour of some other proxies, and the reason.
type otherwise struct {
	want   flowtest.Want
	reason string
	kinds  []flowtest.Kind
}

func kubeProxyIPTables(want flowtest.Want, reason string) otherwise {
	return otherwise{want, reason, []flowtest.Kind{flowtest.KubeProxyIPTables}}
}

func kubeProxyNFTables(want flowtest.Want, reason string) otherwise {
	return otherwise{want, reason, []flowtest.Kind{flowtest.KubeProxyNFTables}}
}

func kubeProxy(want flowtest.Want, reason string) otherwise {
	return otherwise{want, reason, []flowtest.Kind{flowtest.KubeProxyIPTables, flowtest.KubeProxyNFTables}}
}

// expect waits until a flow has the wanted result.
func (t *T) expect(what string, f flowtest.Flow, want flowtest.Want, others ...otherwise) {
	for _, other := range others {
		if slices.Contains(other.kinds, t.Kind) {
			want, what = other.want, what+" (differs: "+other.reason+")"
		}
	}
	t.eventually(what, func() error { return flowtest.Check(f, want) })
}

// eventually waits until a question returns nil. After a first failure a scenario waits a quarter of the time.
func (t *T) eventually(what string, question func() error) {
	timeout := changeTimeout
	if len(t.failures) > 0 {
		timeout /= 4
	}
	deadline := time.Now().Add(timeout)
	for {
		err := question()
		switch {
		case err == nil:
			return
		case t.ctx.Err() != nil, time.Now().After(deadline):
			t.fail("%s: %w", what, err)
			return
		}
		time.Sleep(pause)
	}
}

// flow is TCP from a namespace.
func flow(from *network.Namespace, to netip.Addr, port uint16) flowtest.Flow {
	return flowtest.Flow{From: from, Probe: network.Probe{To: netip.AddrPortFrom(to, port)}}
}

// over is a flow with another protocol.
func over(p model.Protocol, f flowtest.Flow) flowtest.Flow { f.Protocol = p; return f }

// bound is a flow with a source address or port.
func bound(source netip.Addr, port uint16, f flowtest.Flow) flowtest.Flow {
	f.Source = netip.AddrPortFrom(source, port)
	return f
}

// create makes a Service with the next free name of the scenario.
func (t *T) create(s flowtest.Service) service {
	t.services++
	if s.Name == "" {
		s.Name = fmt.Sprintf("%s-%d", t.slug, t.services)
	}
	if s.Family == 0 {
		s.Family = t.F
	}
	object, err := t.Create(t.ctx, s)
	t.must(err)
	return service{Service: s, object: object, t: t}
}

// service is a Service that was created.
type service struct {
	flowtest.Service

	t      *T
	object *corev1.Service
}

func (s service) clusterIP() netip.Addr { return netip.MustParseAddr(s.object.Spec.ClusterIP) }

// nodePort is that of the i-th port.
func (s service) nodePort(i int) uint16 { return uint16(s.object.Spec.Ports[i].NodePort) }

func (s service) lb() netip.Addr { return netip.MustParseAddr(s.LoadBalancerIPs[0]) }

func (s service) externalIP() netip.Addr { return netip.MustParseAddr(s.ExternalIPs[0]) }

// update changes the Service and returns the new one.
func (s service) update(change func(*corev1.Service)) service {
	object, err := s.t.Update(s.t.ctx, s.Name, change)
	s.t.must(err)
	s.object = object
	return s
}

func (s service) setEndpoints(endpoints ...flowtest.Endpoint) {
	s.t.must(s.t.SetEndpoints(s.t.ctx, s.Service, endpoints...))
}

// virtual returns an unused address as text, for LoadBalancerIPs and ExternalIPs.
func (t *T) virtual() []string { return []string{t.Cluster.VirtualAddr(t.F).String()} }

// on returns an endpoint in a namespace; which of the nodes it is on follows from that. extra 0 is the main address.
func (t *T) on(n *network.Namespace, extra int) flowtest.Endpoint {
	e := flowtest.Endpoint{Addr: n.Addr(t.F), Node: t.NodeName}
	if extra > 0 {
		e.Addr = n.Extra(t.F, extra)
	}
	if n == t.Remote || n == t.RemotePod {
		e.Node = t.RemoteName
	}
	return e
}

// Conditions of endpoints.
func unready(e flowtest.Endpoint) flowtest.Endpoint { e.NotReady = true; return e }

func terminating(e flowtest.Endpoint) flowtest.Endpoint { e.Terminating = true; return e }

func terminated(e flowtest.Endpoint) flowtest.Endpoint {
	e.Terminating, e.NotServing = true, true
	return e
}

func inZone(e flowtest.Endpoint, zones ...string) flowtest.Endpoint { e.Zones = zones; return e }

func hintedTo(e flowtest.Endpoint, nodes ...string) flowtest.Endpoint { e.Nodes = nodes; return e }

// at is where an endpoint listens.
func at(e flowtest.Endpoint, port uint16) netip.AddrPort { return netip.AddrPortFrom(e.Addr, port) }

// reaches wants all of the endpoints, at port 8080.
func reaches(endpoints ...flowtest.Endpoint) flowtest.Want {
	return flowtest.Reaches(ports8080(endpoints)...)
}

// reachesSome wants any of the endpoints, at port 8080.
func reachesSome(endpoints ...flowtest.Endpoint) flowtest.Want {
	return flowtest.ReachesSome(ports8080(endpoints)...)
}

func ports8080(endpoints []flowtest.Endpoint) (to []netip.AddrPort) {
	for _, e := range endpoints {
		to = append(to, at(e, 8080))
	}
	return to
}

// note leaves a line in the report of a failure.
func note(format string, args ...any) { _, _ = fmt.Fprintf(GinkgoWriter, format+"\n", args...) }
