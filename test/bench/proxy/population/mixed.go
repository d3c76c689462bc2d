package population

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
)

// What a mixed population has beside ClusterIPs. All load balancers have a node port.
const (
	balancers = 200
	sharing   = 20 // of the load balancers have one address, with a port each
	exposed   = 50 // Services have an external IP
	nodePorts = 100
)

// pools are those of load balancer IPs, and of external IPs.
var pools = map[model.Family][3]netip.Prefix{
	model.IPv4: {netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("3.120.0.0/16"), netip.MustParsePrefix("198.51.100.0/24")},
	model.IPv6: {netip.MustParsePrefix("2a05:d014::/64"), netip.MustParsePrefix("2001:db8:10::/64"), netip.MustParsePrefix("2001:db8:51::/64")},
}

// Mix makes some Services load balancers with addresses of two pools, gives other Services external
// IPs and node ports, the same ones each time, and adds all to Some. A second call does nothing.
func (p *Population) Mix(ctx context.Context) error {
	if p.fronts != nil {
		return nil
	}
	count := balancers + exposed + nodePorts
	step := len(p.services) / count
	if step == 0 {
		return fmt.Errorf("a mixed population needs %d Services", count)
	}
	p.fronts = make([]netip.AddrPort, balancers+exposed)
	_, err := load.Load{Workers: 8, Count: count}.Run(ctx, func(ctx context.Context, i int) error { return p.mix(ctx, i, i*step) })
	return err
}

// mix makes the Service of a number the i-th that is something else.
func (p *Population) mix(ctx context.Context, i, number int) error {
	var front netip.AddrPort
	services := p.client.CoreV1().Services(cluster.Namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		s, err := services.Get(ctx, name(number), metav1.GetOptions{})
		if err != nil {
			return err
		}
		front = p.change(s, i)
		if s, err = services.Update(ctx, s, metav1.UpdateOptions{}); err != nil || s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return err
		}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: front.Addr().String()}}
		_, err = services.UpdateStatus(ctx, s, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("changing the Service %s: %w", name(number), err)
	}
	if front.IsValid() {
		p.fronts[i] = front
		p.services[number] = netip.AddrPortFrom(p.services[number].Addr(), front.Port())
	}
	return nil
}

// change makes a Service the i-th that is something else, and returns where it is served besides.
func (p *Population) change(s *corev1.Service, i int) (front netip.AddrPort) {
	pool := pools[p.family]
	switch {
	case i < sharing:
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.Ports[0].Port = int32(8000 + i)
		front = netip.AddrPortFrom(nth(pool[0], 250), uint16(8000+i))
	case i < balancers:
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		front = netip.AddrPortFrom(nth(pool[i%2], 300+i*7*(1+i%2)), servicePort)
	case i < balancers+exposed:
		front = netip.AddrPortFrom(nth(pool[2], 1+i-balancers), servicePort)
		s.Spec.ExternalIPs = []string{front.Addr().String()}
	default:
		s.Spec.Type = corev1.ServiceTypeNodePort
	}
	return front
}
