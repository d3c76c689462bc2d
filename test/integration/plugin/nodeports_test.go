package plugin_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// exposed is a Service of both families with node ports; 0 leaves the choice to the API server.
func exposed(name string, of corev1.ServiceType, number int32, protocols ...corev1.Protocol) *corev1.Service {
	s := cluster.Dual(cluster.Namespace, name, framework.WithType(of))
	s.Spec.Ports = nil
	for _, p := range protocols {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "p-" + string(p[0]|0x20), Port: 53, Protocol: p, NodePort: number})
	}
	return s
}

var _ = It("tells of node ports, in metrics too", func(ctx SpecContext) {
	const number = 30053
	usage := func(metric, band string) func() float64 {
		return func() float64 { return c.Metric(ctx, "nodeport_"+metric+"_ports", "band", band) }
	}
	Expect(usage("available", "static")()).To(BeEquivalentTo(86))
	dns := c.Create(ctx, exposed("dns", corev1.ServiceTypeNodePort, number, corev1.ProtocolTCP, corev1.ProtocolUDP))
	balancer := exposed("balancer", corev1.ServiceTypeLoadBalancer, 0, corev1.ProtocolTCP)
	balancer.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	balancer = c.Create(ctx, balancer)
	Expect(balancer.Spec.HealthCheckNodePort).NotTo(BeZero())

	Eventually(usage("allocated", "static")).Should(BeEquivalentTo(1))
	Eventually(usage("allocated", "dynamic")).Should(BeEquivalentTo(2))
	Expect(usage("available", "dynamic")()).To(BeEquivalentTo(2680))
	Expect(c.Metric(ctx, "nodeport_ports_outside_range")).To(BeZero())

	tells(ctx, []string{"30000-30085   static    86     1 (1%)   85", "30086-32767   dynamic   2682   2 (0%)   2680"}, "ranges", "--node-ports")
	tells(ctx, []string{"default/dns        53/TCP (p-t)   static", "default/dns        53/UDP (p-u)   static", "default/balancer   health check   dynamic"}, "node-ports")
	tells(ctx, []string{"30053 is the node port of Service default/dns: 53/UDP (p-u)\n", "it lies in the static band of 30000-32767"}, "why", "nodeport/30053")
	tells(ctx, []string{"30054 is free: no Service has it\n"}, "why", "nodeport/30054")
	tells(ctx, []string{"it lies outside of 30000-30010"}, "why", "nodeport/30053", "--node-port-range=30000-30010")
	tells(ctx, []string{"default/dns UDP static"}, "why", "nodeport/30053", "-o", "jsonpath={.nodePort.uses[1].service} {.nodePort.uses[1].protocol} {.nodePort.band}")
	Expect(run(ctx, "ranges", "--node-ports", "--node-port-range=1-1000").Stderr).To(ContainSubstring("3 node ports of Services lie outside of 1-1000"))

	c.PatchServices(ctx, `{"spec":{"type":"ClusterIP","ports":[{"name":"p-t","port":53}]}}`, dns)
	Eventually(usage("allocated", "static")).Should(BeZero())
	c.DeleteServices(ctx, dns, balancer)
	Eventually(usage("allocated", "dynamic")).Should(BeZero())
})
