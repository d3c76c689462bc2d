package flows_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// changeTimeout is how long a change may take to the packets, beside dozens of other scenarios.
var changeTimeout = 40 * time.Second * framework.Slowness

// scenario is one behaviour. Its function runs for each family, beside all other scenarios of the
// same environment, with Services of its own.
type scenario struct {
	// number is that of the behaviour in docs/reference/proxy-conformance.md.
	number, name string
	run          func(*T)
	// only restricts the families, kinds the proxies.
	only  model.Family
	kinds []kind
	// differs names the proxies for which the scenario as a whole must fail, and why.
	differs map[kind]string
}

func (s scenario) title(f model.Family) string { return fmt.Sprintf("%s %s (%s)", s.number, s.name, f) }

func (s scenario) families() []model.Family {
	if s.only != 0 {
		return []model.Family{s.only}
	}
	return network.Families
}

// T is the environment of a scenario. The first failure ends the scenario.
type T struct {
	*node
	F model.Family

	// local and remote are endpoints: Pod2 and RemotePod.
	local, remote endpoint

	ctx  context.Context
	slug string
	// services are those that were created and not deleted; created is how many there ever were.
	services []service
	created  int
}

// nodeServes has a program of the node listen at a port, and returns what ends it.
func (t *T) nodeServes(p model.Protocol, port uint16) (end func()) {
	server, err := t.Node.Serve(p, port)
	t.must(err)
	return func() { _ = server.Close() }
}

// failure ends a scenario.
type failure struct{ error }

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// perform runs a scenario, no Ginkgo spec but one of many goroutines, and returns its failure, and
// which of its connections were translated at connect().
func (s scenario) perform(ctx context.Context, n *node, f model.Family) (translated string, err error) {
	own := *n.Environment
	own.Gomega = NewGomega(func(message string, _ ...int) { panic(failure{errors.New(message)}) })
	slug := "s" + notInNames.ReplaceAllString(strings.ToLower(fmt.Sprintf("%s-%s", s.number, f)), "-")
	t := &T{node: &node{&own, n.kind, n.proxy}, F: f, ctx: ctx, slug: slug, local: on(own.Pod2, 0), remote: on(own.RemotePod, 0)}
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case failure:
			err = reason.error
		default:
			err = fmt.Errorf("it panicked: %v", reason)
		}
	}()
	s.run(t)
	if t.translates() {
		translated = t.translated()
	}
	return translated, nil
}

// must ends the scenario when something fails that is not under test.
func (t *T) must(err error) { t.Expect(err).NotTo(HaveOccurred()) }

// fail ends the scenario.
func (t *T) fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// otherwise is the expected behaviour of some other proxies, and the reason.
type otherwise struct {
	want   want
	reason string
	kinds  []kind
}

func kubeProxyIPTables(w want, reason string) otherwise {
	return otherwise{w, reason, []kind{withIPTables}}
}

func kubeProxyNFTables(w want, reason string) otherwise {
	return otherwise{w, reason, []kind{withNFTables}}
}

// ipvs is for all that serve with IPVS.
func ipvs(w want, reason string) otherwise {
	return otherwise{w, reason, []kind{oursIPVS, withIPVS}}
}

func kubeProxyIPVS(w want, reason string) otherwise {
	return otherwise{w, reason, []kind{withIPVS}}
}

func kubeProxy(w want, reason string) otherwise {
	return otherwise{w, reason, []kind{withIPTables, withNFTables}}
}

// expect waits until a flow has the wanted result.
func (t *T) expect(what string, f Flow, w want, others ...otherwise) {
	for _, other := range others {
		if slices.Contains(other.kinds, t.kind) {
			w, what = other.want, what+" (differs: "+other.reason+")"
		}
	}
	if w.source == ofNode && t.mayBeTranslated(f) { // then nothing of it is masqueraded
		w.source = anySource
	}
	t.eventually(what, func() error { return f.check(w) })
}

// everywhere expects the same of TCP from a pod, from the node and from a client.
func (t *T) everywhere(to netip.Addr, port uint16, w want, others ...otherwise) {
	for _, n := range []*network.Namespace{t.Pod1, t.Node, t.Client} {
		t.expect("from "+n.Host(), flow(n, to, port), w, others...)
	}
}

// eventually waits until a question returns nil.
func (t *T) eventually(what string, question func() error) {
	t.Eventually(question).WithContext(t.ctx).WithTimeout(changeTimeout).WithPolling(100*time.Millisecond*framework.Slowness).Should(Succeed(), what)
}

// spec describes a Service of one family; the zero spec is a ClusterIP with TCP port 80, to 8080.
type spec struct {
	name   string
	typ    corev1.ServiceType
	ports  []port
	labels map[string]string
	// nodePort makes a NodePort of it, lb a LoadBalancer with these addresses in its status.
	nodePort        bool
	lb, externalIPs []string
	ipMode          corev1.LoadBalancerIPMode
	sourceRanges    []string
	iTPLocal        bool
	eTPLocal        bool
	affinitySeconds int32
	change          func(*corev1.Service)
}

// port is a port of a Service: TCP port 80 to 8080, if it says nothing else.
type port struct {
	name         string
	protocol     model.Protocol
	port, target int32
}

// everyProtocol has port 80 over each protocol.
var everyProtocol = []port{{name: "t"}, {name: "u", protocol: model.UDP}, {name: "s", protocol: model.SCTP}}

func (s spec) object(namespace string, f model.Family) *corev1.Service {
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name, Labels: s.labels}}
	object.Spec = corev1.ServiceSpec{
		Type: cmp.Or(s.typ, corev1.ServiceTypeClusterIP), IPFamilies: []corev1.IPFamily{corev1.IPFamily(f.String())},
		ExternalIPs: s.externalIPs, LoadBalancerSourceRanges: s.sourceRanges,
	}
	if s.nodePort {
		object.Spec.Type = corev1.ServiceTypeNodePort
	}
	if len(s.lb) > 0 {
		object.Spec.Type, object.Status.LoadBalancer.Ingress = corev1.ServiceTypeLoadBalancer, environment.Ingress(s.lb...)
		if s.ipMode != "" {
			object.Status.LoadBalancer.Ingress[0].IPMode = &s.ipMode
		}
	}
	if s.ports == nil {
		s.ports = []port{{}}
	}
	for _, p := range s.ports {
		object.Spec.Ports = append(object.Spec.Ports, corev1.ServicePort{Name: p.name, Port: cmp.Or(p.port, 80),
			Protocol: corev1.Protocol(cmp.Or(p.protocol, model.TCP).String()), TargetPort: intstr.FromInt32(cmp.Or(p.target, 8080))})
	}
	if s.iTPLocal {
		object.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if s.eTPLocal {
		object.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if s.affinitySeconds != 0 {
		object.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		object.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &s.affinitySeconds}}
	}
	if s.change != nil {
		s.change(object)
	}
	return object
}

// create makes a Service with the next free name of the scenario.
func (t *T) create(s spec, endpoints ...endpoint) service {
	t.created++
	s.name = cmp.Or(s.name, fmt.Sprintf("%s-%d", t.slug, t.created))
	made := service{t.Create(t.ctx, s.object(t.Name, t.F), endpoints...), t}
	t.services = append(t.services, made)
	return made
}

// Delete deletes a Service. The agent is not asked about it any more: it may tell of a front once,
// learn of the deletion, and never tell of it again, for which a scenario has failed that ended
// with a deletion.
func (t *T) Delete(ctx context.Context, name string) {
	t.node.Delete(ctx, name)
	t.services = slices.DeleteFunc(t.services, func(s service) bool { return s.Name == name })
}

// service is a Service that was created.
type service struct {
	*corev1.Service
	t *T
}

func (s service) clusterIP() netip.Addr { return netip.MustParseAddr(s.Spec.ClusterIP) }

// nodePort is that of the i-th port.
func (s service) nodePort(i int) uint16 { return uint16(s.Spec.Ports[i].NodePort) }

func (s service) lb() netip.Addr { return netip.MustParseAddr(s.Status.LoadBalancer.Ingress[0].IP) }

func (s service) externalIP() netip.Addr { return netip.MustParseAddr(s.Spec.ExternalIPs[0]) }

// update changes the Service and returns the new one.
func (s service) update(change func(*corev1.Service)) service {
	return service{s.t.Update(s.t.ctx, s.Name, change), s.t}
}

func (s service) setEndpoints(endpoints ...endpoint) { s.t.Endpoints(s.t.ctx, s.Service, endpoints...) }

// slice builds a further EndpointSlice.
func (s service) slice(suffix string, endpoints ...endpoint) *discoveryv1.EndpointSlice {
	slice := s.t.NewSlice(s.Service, s.t.F, endpoints...)
	slice.Name = s.Name + "-" + suffix
	return slice
}

func (s service) addSlice(suffix string, endpoints ...endpoint) {
	s.t.Slice(s.t.ctx, s.slice(suffix, endpoints...))
}

func (s service) deleteSlice(suffix string) {
	s.t.must(s.t.Slices().Delete(s.t.ctx, s.Name+"-"+suffix, metav1.DeleteOptions{}))
}

var virtualAddrs atomic.Int64

// virtualAddr returns an unused address for load balancers and external IPs; virtual is its text.
func virtualAddr(f model.Family) netip.Addr { return network.VirtualAddr(f, int(virtualAddrs.Add(1))) }

func (t *T) virtual() []string { return []string{virtualAddr(t.F).String()} }

type endpoint = environment.Endpoint

// on returns an endpoint in a namespace, which decides its node. extra 0 is the main address.
func on(n *network.Namespace, extra int) endpoint { return endpoint{Of: n, Extra: extra} }

// Conditions of endpoints.
func unready(e endpoint) endpoint { e.NotReady = true; return e }

func terminating(e endpoint) endpoint { e.Terminating = true; return e }

func terminated(e endpoint) endpoint { e.Terminating, e.NotServing = true, true; return e }

func inZone(e endpoint, zones ...string) endpoint { e.Zones = zones; return e }

func hintedTo(e endpoint, nodes ...string) endpoint { e.Nodes = nodes; return e }

// note leaves a line in the report of a failure.
func note(format string, args ...any) { _, _ = fmt.Fprintf(GinkgoWriter, format+"\n", args...) }
