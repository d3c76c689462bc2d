package flows_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

type object = map[string]any

// configurations are the environments beside the base; some combine unrelated settings.
var configurations = []setup{
	{name: "no detector", config: object{"clusterCIDR": ""}, scenarios: append(matrixScenarios(true, false), rebootScenario)},
	{name: "masquerade all", config: object{"iptables": object{"masqueradeAll": true}, "nftables": object{"masqueradeAll": true}},
		scenarios: append(matrixScenarios(false, true), renamedScenario)},
	{name: "both", config: object{"clusterCIDR": "", "iptables": object{"masqueradeAll": true}, "nftables": object{"masqueradeAll": true}},
		scenarios: matrixScenarios(true, true)},
	{name: "some addresses", noZone: true, scenarios: someAddressesScenarios, config: object{
		"nodePortAddresses": []string{"192.0.2.0/24", "2001:db8:2::/64"},
		"detectLocalMode":   "InterfaceNamePrefix", "detectLocal": object{"interfaceNamePrefix": "pod"}}},
	{name: "primary", scenarios: primaryScenarios, config: object{
		"nodePortAddresses": []string{"primary"},
		"detectLocalMode":   "BridgeInterface", "detectLocal": object{"bridgeInterface": "pod1"}}},
	{name: "flushed", scenarios: []scenario{flushedScenario}},
	{name: "careful", scenarios: carefulScenarios, config: object{
		"featureGates":    object{"AllowServiceExternalIPs": false},
		"iptables":        object{"localhostNodePorts": false},
		"detectLocalMode": "NodeCIDR",
		"conntrack":       object{"tcpBeLiberal": true, "tcpCloseWaitTimeout": "50m", "tcpEstablishedTimeout": "23h"}}},
}

// localPods checks who is taken for a local pod, and so keeps its address.
func localPods(who func(*T) []*network.Namespace) func(*T) {
	return func(t *T) {
		pod := on(t.Remote, 0)
		s := t.create(spec{}, pod)
		for _, from := range []*network.Namespace{t.Pod1, t.Pod2, t.RemotePod, t.Client} {
			want := reaches(pod).masqueraded()
			if slices.Contains(who(t), from) {
				want = reaches(pod).preserved()
			}
			t.expect("from "+from.Host(), flow(from, s.clusterIP(), 80), want)
		}
	}
}

func bothPods(t *T) []*network.Namespace { return []*network.Namespace{t.Pod1, t.Pod2} }

var someAddressesScenarios = []scenario{
	{number: "8b", name: "local pods are recognised by the names of their interfaces",
		run: localPods(bothPods)},
	{number: "61", name: "a node port is served at the addresses in nodePortAddresses alone", run: func(t *T) {
		s := t.create(spec{nodePort: true}, t.local)
		t.expect("inside", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local))
		t.expect("outside", flow(t.Client, network.AltNodeAddr(t.F), s.nodePort(0)), refused)
		t.expect("outside, from a pod", flow(t.Pod1, network.AltNodeAddr(t.F), s.nodePort(0)), refused)
		t.expect("localhost", flow(t.Node, network.Loopback(t.F), s.nodePort(0)), refused)
		s.setEndpoints()
		defer t.nodeServes(model.TCP, s.nodePort(0))()
		t.expect("inside, without endpoints", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), refused)
		alt := flow(t.Client, network.AltNodeAddr(t.F), s.nodePort(0))
		t.expect("outside, without endpoints, the node's own program answers", alt, itself,
			kubeProxyIPTables(refused, "its iptables mode refuses at all local addresses where it serves at some"))
	}},
	{number: "61b", name: "an address that the node gets later is among them", run: func(t *T) {
		s := t.create(spec{nodePort: true}, t.local)
		t.expect("at first", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local))
		later := t.Node.Addr(t.F).Next()
		_, err := t.Node.Run(t.ctx, "ip", "addr", "add", netip.PrefixFrom(later, t.F.Bits()).String(), "dev", "eth0")
		t.must(err)
		t.settle() // kube-proxy looks at addresses when something else changes
		t.expect("later", flow(t.Client, later, s.nodePort(0)), reaches(t.local),
			kubeProxyNFTables(refused, "its nftables mode looks at addresses only in a full sync"))
	}},
	{number: "162", name: "flows that began while no proxy ran reach their Service, and those of a Service deleted then end", run: beforeTheProxy, only: model.IPv4,
		differs: map[kind]string{withIPTables: keepsUnreplied, withNFTables: keepsUnreplied}},
	{number: "170", name: "nothing depends on packets coming from elsewhere than their answers go", run: strictPaths},
	{number: "104", name: "hints: a node without a zone ignores zone hints, and node hints count", run: func(t *T) {
		here, there := inZone(on(t.Pod2, 1), environment.Zone), inZone(on(t.RemotePod, 1), "zone-b")
		s := t.create(spec{}, here, there)
		t.expect("zone hints", flow(t.Pod1, s.clusterIP(), 80), reaches(here, there))
		s = t.create(spec{}, hintedTo(here, t.Name), hintedTo(there, environment.Elsewhere))
		t.expect("node hints", flow(t.Pod1, s.clusterIP(), 80), reaches(here))
	}},
}

var primaryScenarios = []scenario{
	{number: "8c", name: "local pods are recognised by a bridge",
		run: localPods(func(t *T) []*network.Namespace { return []*network.Namespace{t.Pod1} })},
	{number: "62", name: "a node port is served at the primary node IPs alone", run: func(t *T) {
		s := t.create(spec{nodePort: true}, t.local)
		t.expect("primary", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local))
		t.expect("alt", flow(t.Client, network.AltNodeAddr(t.F), s.nodePort(0)), refused)
		t.expect("localhost", flow(t.Node, network.Loopback(t.F), s.nodePort(0)), refused)
	}},
	{number: "62b", kinds: everyOurs, only: model.IPv4, name: "the primary node IP is an internal one, and stays when the Node is made again without", run: func(t *T) {
		s, alt := t.dual(spec{nodePort: true}, t.local), network.AltNodeAddr // of both families, for there is one Node
		expect := func(what string, of func(model.Family) netip.Addr, wanted bool) {
			for _, f := range network.Families {
				want := refused
				if wanted {
					want = reaches(t.local)
				}
				t.expect(fmt.Sprint(what, ", ", f), flow(t.Client, of(f), s.nodePort(0)), want)
			}
		}
		patch := func(kind corev1.NodeAddressType, of func(model.Family) netip.Addr) (texts []string) {
			for _, f := range network.Families {
				texts = append(texts, fmt.Sprintf(`{"type":"%s","address":"%s"}`, kind, of(f)))
			}
			return texts
		}
		both := slices.Concat(patch(corev1.NodeExternalIP, alt), patch(corev1.NodeInternalIP, t.Node.Addr))
		seen := func(what string) { // rules that are newer than the Node
			t.expect(what, flow(t.Pod1, t.create(spec{}, t.local).clusterIP(), 80), reaches(t.local))
			expect(what+", the internal IP", t.Node.Addr, true)
			expect(what+", the external IP", alt, false)
		}
		t.setAddresses(both...)
		seen("with both")
		t.setAddresses()
		seen("without any")
		t.setAddresses(patch(corev1.NodeInternalIP, alt)...)
		expect("readdressed", alt, true)
		expect("readdressed, the former IP", t.Node.Addr, false)
		t.setAddresses(patch(corev1.NodeInternalIP, t.Node.Addr)...)
		seen("as before")
	}},
	{number: "103", name: "hints: the node moves to another zone, and a Service prefers the node and then its zone", only: model.IPv4,
		run: func(t *T) {
			a, b := inZone(on(t.Pod2, 1), environment.Zone), inZone(on(t.RemotePod, 1), "zone-b")
			s := t.create(spec{}, a, b)
			t.expect("in the first zone", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
			t.relabel("zone-b")
			t.expect("in the second zone", flow(t.Pod1, s.clusterIP(), 80), reaches(b))
			s.setEndpoints(hintedTo(a, t.Name), hintedTo(b, environment.Elsewhere))
			t.expect("by node hints", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
			s.setEndpoints(unready(hintedTo(a, t.Name)), hintedTo(b, environment.Elsewhere))
			t.expect("the one of this node is not ready", flow(t.Pod1, s.clusterIP(), 80), reaches(b))
			s.setEndpoints(hintedTo(a, t.Name), hintedTo(b, environment.Elsewhere))
			t.patchNode(t.ctx, `{"metadata":{"labels":null}}`)
			t.expect("in no zone", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
			t.relabel(environment.Zone)
		}},
	{number: "150", name: "health, metrics, mode and a leaving node are shown over HTTP", only: model.IPv4, run: observability},
}

// relabel changes the zone of the node.
func (t *T) relabel(zone string) {
	t.patchNode(t.ctx, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, zone))
}

func (n *node) patchNode(ctx context.Context, patch string) {
	_, err := n.Cluster.Client().CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	n.Expect(err).NotTo(HaveOccurred())
}

func observability(t *T) {
	s := t.create(spec{})
	slice := s.slice("1", t.local)
	slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().UTC().Format(time.RFC3339Nano)}
	t.Slice(t.ctx, slice)
	t.expect("a Service", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
	t.settle() // metrics of a sync come at its end
	t.eventually("healthz", func() error { return errors.Join(t.proxy.Healthy(t.ctx, "/healthz"), t.proxy.Healthy(t.ctx, "/livez")) })
	t.patchNode(t.ctx, `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
	t.eventually("healthz of a node that leaves", func() error { return t.leaving() })
	if err := t.proxy.Healthy(t.ctx, "/livez"); err != nil {
		t.fail("livez of a node that leaves: %w", err)
	}
	t.patchNode(t.ctx, `{"spec":{"taints":null}}`)
	t.eventually("healthz of a node that stays", func() error { return t.proxy.Healthy(t.ctx, "/healthz") })
	t.metrics()
}

// leaving wants the proxy to say 503 with the reason in JSON.
func (t *T) leaving() error {
	err := t.proxy.Healthy(t.ctx, "/healthz")
	if err == nil {
		return errors.New("it says 200")
	}
	_, text, _ := strings.Cut(err.Error(), "{")
	var body struct {
		LastUpdated, CurrentTime *time.Time
		NodeEligible             *bool
	}
	if json.Unmarshal([]byte("{"+text), &body) != nil || body.LastUpdated == nil || body.CurrentTime == nil ||
		body.NodeEligible == nil || *body.NodeEligible {
		return fmt.Errorf("it says %w", err)
	}
	return nil
}

// setAddresses replaces the addresses of the Node.
func (t *T) setAddresses(addresses ...string) {
	patch := fmt.Sprintf(`{"status":{"addresses":[{"$patch":"replace"}%s]}}`, strings.Join(slices.Insert(addresses, 0, ""), ","))
	_, err := t.Cluster.Client().CoreV1().Nodes().Patch(t.ctx, t.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	t.must(err)
}

// metrics wants kube-proxy's metrics, ours under our own prefix.
func (t *T) metrics() {
	mode, err := t.proxy.Get(t.ctx, "/proxyMode")
	want := map[kind]string{withNFTables: "nftables", oursNative: "nftables", oursIPVS: "ipvs", withIPVS: "ipvs"}
	if want := cmp.Or(want[t.kind], "iptables"); err != nil || mode != want {
		t.fail("the mode: got %q, want %q (%v)", mode, want, err)
	}
	samples, err := t.proxy.Metrics(t.ctx)
	t.must(err)
	prefix := "kubeproxy_"
	if t.kind.ours() {
		prefix = "clusterip_proxyagent_"
	}
	for _, name := range []string{ // all but the ipvs mode of kube-proxy also count full syncs
		"sync_proxy_rules_duration_seconds_count", "sync_full_proxy_rules_duration_seconds_count", "sync_proxy_rules_last_timestamp_seconds",
		"sync_proxy_rules_last_queued_timestamp_seconds", "sync_proxy_rules_endpoint_changes_total", "sync_proxy_rules_service_changes_total",
		"network_programming_duration_seconds_count", "proxy_healthz_total", "proxy_livez_total",
	} {
		wanted := t.kind != withIPVS || !strings.HasPrefix(name, "sync_full_")
		if _, found := samples.Value(prefix + name); found != wanted {
			t.fail("there is a metric %s%s: %t, want %t", prefix, name, found, wanted)
		}
	}
	if got, _ := samples.Value(prefix+"proxy_healthz_total", "code", "503"); got < 1 {
		t.fail("%sproxy_healthz_total counts %v answers 503", prefix, got)
	}
}

var carefulScenarios = []scenario{
	{number: "8d", name: "local pods are recognised by the node's podCIDRs",
		run: localPods(bothPods)},
	{number: "64", name: "with localhostNodePorts off, localhost is left alone", run: func(t *T) {
		s := t.create(spec{nodePort: true}, t.local)
		t.expect("the node's address", flow(t.Node, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local))
		t.expect("localhost", flow(t.Node, network.Loopback(t.F), s.nodePort(0)), refused)
		defer t.nodeServes(model.TCP, s.nodePort(0))()
		to := flow(t.Node, network.Loopback(t.F), s.nodePort(0))
		t.expect("a program of the node on localhost", to, itself)
	}},
	{number: "48b", name: "without the gate AllowServiceExternalIPs, external IPs are left alone", run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), externalIPs: t.virtual()}, t.local)
		t.expect("the load balancer IP", flow(t.Client, s.lb(), 80), reaches(t.local))
		t.expect("the external IP", flow(t.Client, s.externalIP(), 80), dropped)
		t.expect("the external IP, from a pod", flow(t.Pod1, s.externalIP(), 80), dropped)
	}},
	{number: "65", name: "with localhostNodePorts off, packets to localhost are not routed", only: model.IPv4, run: func(t *T) {
		s := t.create(spec{nodePort: true}, t.local)
		t.expect("the node port", flow(t.Node, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local))
		t.sysctl("net/ipv4/conf/all/route_localnet", "0")
	}},
	{number: "120", name: "a restart of the proxy moves no flow", run: restart, only: model.IPv4},
	{number: "122", name: "with tcpBeLiberal, packets of no connection pass", only: model.IPv4, run: func(t *T) {
		s := t.create(spec{}, t.local)
		t.expect("a Service", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
		t.sysctl("net/netfilter/nf_conntrack_tcp_be_liberal", "1")
		if !t.broken(true) {
			t.fail("a broken segment did not arrive")
		}
	}},
	{number: "123", name: "time-outs of conntrack are set", only: model.IPv4, run: func(t *T) {
		t.sysctl("net/netfilter/nf_conntrack_tcp_timeout_close_wait", "3000")
		t.sysctl("net/netfilter/nf_conntrack_tcp_timeout_established", "82800")
	}},
}

// sysctl wants a sysctl of the node to have a value.
func (t *T) sysctl(path, want string) {
	t.eventually("the sysctl "+path, func() error {
		var got []byte
		err := t.Node.Do(func() (err error) {
			got, err = os.ReadFile("/proc/sys/" + path)
			return err
		})
		if text := strings.TrimSpace(string(got)); err != nil || text != want {
			return errors.Join(fmt.Errorf("got %q, want %q", text, want), err)
		}
		return nil
	})
}
