package inspect

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

func withNodePorts(name string, health int32, ports ...corev1.ServicePort) corev1.Service {
	namespace, name, _ := strings.Cut(name, "/")
	return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{HealthCheckNodePort: health, Ports: ports}}
}

// usedNodePorts are those of Services, each on a page of its own.
func usedNodePorts(services ...corev1.Service) []NodePort {
	uses := portUses{}
	for i := range services {
		uses.note(services[i : i+1])
	}
	return uses.all(newNodePortRange().Range)
}

// someNodePorts are of a DNS with one number for both protocols, of a load balancer with a health
// check, of a Service without any, and of one from before the range was changed.
func someNodePorts() []NodePort {
	return usedNodePorts(
		withNodePorts("kube-system/dns", 0, corev1.ServicePort{Name: "dns-tcp", Port: 53, NodePort: 30053}, corev1.ServicePort{Name: "dns", Port: 53, Protocol: "UDP", NodePort: 30053}),
		withNodePorts("shop/web", 32100, corev1.ServicePort{Port: 80, Protocol: "TCP", NodePort: 31080}, corev1.ServicePort{Port: 443}),
		withNodePorts("shop/db", 0, corev1.ServicePort{Port: 5432}), withNodePorts("old/api", 0, corev1.ServicePort{Port: 80, Protocol: "TCP", NodePort: 8080}),
	)
}

func TestNodePorts(t *testing.T) {
	for want, l := range map[string]cli.Listing{
		`
NODE-PORT   SERVICE           PORT               BAND
8080        old/api           80/TCP             <outside>
30053       kube-system/dns   53/TCP (dns-tcp)   static
30053       kube-system/dns   53/UDP (dns)       static
31080       shop/web          80/TCP             dynamic
32100       shop/web          health check       dynamic
`: listNodePorts(someNodePorts()),
		`
NODE-PORTS    BAND      SIZE   USED     FREE
30000-30085   static    86     1 (1%)   85
30086-32767   dynamic   2682   2 (0%)   2680
`: listNodePortBands(nodePortBands(someNodePorts(), newNodePortRange().Range)),
	} {
		var b strings.Builder
		if err := (&cli.Output{}).Print(&b, l); err != nil {
			t.Error(err)
		}
		plugintest.MustPrint(t, b.String(), want)
	}
}

func TestNodePortAnswer(t *testing.T) {
	of := newNodePortRange().Range
	for name, tc := range map[string]struct {
		services []corev1.Service
		number   uint16
		own      bool
		want     string
	}{
		"both protocols of one": {[]corev1.Service{withNodePorts("a/dns", 0, corev1.ServicePort{Port: 53, NodePort: 30053}, corev1.ServicePort{Port: 53, Protocol: "UDP", NodePort: 30053})}, 30053, false, `
30053 is the node port of Service a/dns: 53/TCP
30053 is the node port of Service a/dns: 53/UDP
  it lies in the static band of 30000-32767, for Services that name their port: API servers draw from it last
`},
		"a health check": {[]corev1.Service{withNodePorts("a/web", 32000)}, 32000, false, `
32000 is the node port of Service a/web: health check
  it lies in the dynamic band of 30000-32767, from which API servers draw first
`},
		"free": {nil, 30090, false, `
30090 is free: no Service has it
  it lies in the dynamic band of 30000-32767, from which API servers draw first
`},
		"free for a tenant": {nil, 30090, true, `
No Service of yours has 30090; another one may.
  it lies in the dynamic band of 30000-32767, from which API servers draw first
`},
		"outside": {nil, 80, false, `
80 is free: no Service has it
  it lies outside of 30000-32767: API servers give out no such port, unless their --service-node-port-range is another one (--node-port-range says so here)
`},
		"two Services": {[]corev1.Service{withNodePorts("a/x", 0, corev1.ServicePort{Port: 1, NodePort: 30100}), withNodePorts("b/y", 0, corev1.ServicePort{Port: 2, NodePort: 30100})}, 30100, false, `
30100 is the node port of Service a/x: 1/TCP
30100 is the node port of Service b/y: 2/TCP
  it lies in the dynamic band of 30000-32767, from which API servers draw first
  problem: a node port belongs to one Service, and proxies serve it for one of these: give the others another one
`},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			answerOf(usedNodePorts(tc.services...), tc.number, of).describe(&b, tc.own)
			plugintest.MustPrint(t, b.String(), tc.want)
		})
	}
}
