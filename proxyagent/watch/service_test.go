package watch

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func loadBalancer(ips ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

func sources(ranges ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = ranges }
}

func localPolicy(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 30999
}

func affinity(config *corev1.SessionAffinityConfig) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityClientIP, config
	}
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func TestConvertService(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Service)
		// want changes what newService becomes.
		want      func(*model.Service)
		malformed int
	}{
		"plain": {
			func(s *corev1.Service) {
				s.CreationTimestamp = metav1.NewTime(longAgo.In(time.FixedZone("elsewhere", 3600)))
			},
			func(*model.Service) {}, 0,
		},
		"two families": {
			func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.96.0.1", "fd00::1"} },
			func(m *model.Service) { m.ClusterIPs = addrs("10.96.0.1", "fd00::1") }, 0,
		},
		"stored before there were several clusterIPs": {
			func(s *corev1.Service) { s.Spec.ClusterIPs = nil }, func(*model.Service) {}, 0,
		},
		"one clusterIP is malformed": {
			func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"010.096.0.1", "fd00::1"} },
			func(m *model.Service) { m.ClusterIPs = addrs("fd00::1") }, 1,
		},
		"external IPs, good and bad": {
			func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{"192.0.2.1", "0.0.0.0", "127.0.0.1", "::1", "224.0.0.1", "::ffff:192.0.2.1", "fe80::1%lo", "", "2001:db8::1"}
			},
			func(m *model.Service) { m.ExternalIPs = addrs("192.0.2.1", "2001:db8::1") }, 7,
		},
		"load balancer": {
			loadBalancer("192.0.2.1", "2001:db8::1"),
			func(m *model.Service) { m.LoadBalancerIPs = addrs("192.0.2.1", "2001:db8::1") }, 0,
		},
		"load balancer that claims all local traffic": {loadBalancer("127.0.0.1"), func(*model.Service) {}, 1},
		"load balancer modes": {
			func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeLoadBalancer
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
					{IP: "192.0.2.1", IPMode: new(corev1.LoadBalancerIPModeVIP)},
					{IP: "192.0.2.2", IPMode: new(corev1.LoadBalancerIPModeProxy)},
					{IP: "192.0.2.3", IPMode: new(corev1.LoadBalancerIPMode("Other"))},
					{IP: "192.0.2.4"},
					{Hostname: "lb.example.com"},
				}
			},
			func(m *model.Service) { m.LoadBalancerIPs = addrs("192.0.2.1", "192.0.2.4") }, 0,
		},
		"internal policy Local": {
			func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal) },
			func(m *model.Service) { m.InternalLocal = true }, 0,
		},
		"external policy Local of a load balancer": {
			func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer; localPolicy(s) },
			func(m *model.Service) { m.ExternalLocal, m.HealthCheckNodePort = true, 30999 }, 0,
		},
		"external policy Local of node ports": {
			func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort; localPolicy(s) },
			func(m *model.Service) { m.ExternalLocal = true }, 0,
		},
		"external policy Local of external IPs": {
			func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"}; localPolicy(s) },
			func(m *model.Service) { m.ExternalLocal, m.ExternalIPs = true, addrs("192.0.2.1") }, 0,
		},
		"external policy Local without a way in": {localPolicy, func(*model.Service) {}, 0},
		"health check port without the policy": {
			func(s *corev1.Service) {
				s.Spec.Type, s.Spec.HealthCheckNodePort = corev1.ServiceTypeLoadBalancer, 30999
			},
			func(*model.Service) {}, 0,
		},
		"affinity":                   {affinity(clientIP(new(int32(42)))), func(m *model.Service) { m.AffinitySeconds = 42 }, 0},
		"affinity without time":      {affinity(clientIP(nil)), func(m *model.Service) { m.AffinitySeconds = 10800 }, 0},
		"affinity for no time":       {affinity(clientIP(new(int32(0)))), func(m *model.Service) { m.AffinitySeconds = 10800 }, 0},
		"affinity without client":    {affinity(&corev1.SessionAffinityConfig{}), func(m *model.Service) { m.AffinitySeconds = 10800 }, 0},
		"affinity without any words": {affinity(nil), func(m *model.Service) { m.AffinitySeconds = 10800 }, 0},
		"time without affinity": {
			func(s *corev1.Service) { s.Spec.SessionAffinityConfig = clientIP(new(int32(42))) }, func(*model.Service) {}, 0,
		},
		"ports": {
			func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{
					{Port: 80, NodePort: 30080}, {Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: -1},
					{Name: "sctp", Protocol: corev1.ProtocolSCTP, Port: 65535, NodePort: 65536},
					{Name: "zero", Port: 0}, {Name: "large", Port: 65536}, {Name: "negative", Port: -80}, {Name: "icmp", Protocol: "ICMP", Port: 1},
				}
			},
			func(m *model.Service) {
				m.Ports = []model.Port{
					{Protocol: model.TCP, Port: 80, NodePort: 30080}, {Name: "dns", Protocol: model.UDP, Port: 53},
					{Name: "sctp", Protocol: model.SCTP, Port: 65535},
				}
			}, 4,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := wantService("web", "10.96.0.1")
			tc.want(want)
			got, bad := convertService(newService("web", "10.96.0.1", tc.change))
			if !got.served {
				t.Error("not served")
			}
			if diff := cmp.Diff(want, &got.model, comparers); diff != "" {
				t.Errorf("convertService (-want +got):\n%s", diff)
			}
			if bad.count != tc.malformed {
				t.Errorf("%d malformed pieces, want %d: %s", bad.count, tc.malformed, &bad)
			}
		})
	}
}

// TestSourceRanges are merged, and cut where there are too many to be used. What cannot be read
// must not open what it was meant to close.
func TestSourceRanges(t *testing.T) {
	both := []string{"192.0.2.1", "2001:db8::1"}
	for name, tc := range map[string]struct {
		ranges, want []string
		malformed    int
	}{
		"spaces, host bits and both families":  {[]string{" 10.1.2.3/8\t", "fd00::/8"}, []string{"10.0.0.0/8", "fd00::/8"}, 0},
		"all malformed":                        {[]string{"010.0.0.0/8", "10.0.0.0", "::ffff:10.0.0.0/104", ""}, nil, 4},
		"one is malformed, the rest restricts": {[]string{"10.0.0.0/8", "10.0.0.0/33"}, []string{"10.0.0.0/8"}, 1},
		"all of one family may be malformed":   {[]string{"x", "fd00::/8"}, []string{"fd00::/8"}, 1},
		"twice and inside of another":          {[]string{"10.1.0.0/16", "fd00:1::/32", "10.0.0.0/8", "10.0.0.0/8", "fd00::/8", "10.255.255.255/32"}, []string{"10.0.0.0/8", "fd00::/8"}, 0},
		"neighbours":                           {[]string{"10.0.0.3/32", "10.0.0.0/31", "fd00::2/127", "10.0.0.2/32", "fd00::/127"}, []string{"10.0.0.0/30", "fd00::/126"}, 0},
		"neighbours that are no prefix":        {[]string{"10.0.0.1/32", "10.0.0.2/32", "fd00::1/128", "fd00::2/128"}, []string{"10.0.0.1/32", "10.0.0.2/32", "fd00::1/128", "fd00::2/128"}, 0},
		"two halves are everything":            {[]string{"128.0.0.0/1", "0.0.0.0/1", "8000::/1", "::/1"}, []string{"0.0.0.0/0", "::/0"}, 0},
		"as many as can be used":               {ranges(model.MaxSources), ranges(model.MaxSources), 0},
		"too many, and a few of IPv6":          {append(ranges(60000), "fd00::/8"), append(ranges(model.MaxSources+1), "fd00::/8"), 0},
	} {
		slices.Reverse(tc.ranges[1:]) // their order means nothing
		got, bad := convertService(newService("web", "10.96.0.1", loadBalancer(both...), sources(tc.ranges...)))
		diff := cmp.Diff(addrs(both...), got.model.LoadBalancerIPs, comparers)
		diff += cmp.Diff(prefixes(tc.want...), got.model.SourceRanges, comparers)
		if got.model.SourcesLost != (tc.malformed > 0) {
			diff += fmt.Sprintf("lost: %t", got.model.SourcesLost)
		}
		if diff != "" || bad.count != tc.malformed {
			t.Errorf("%s: %d malformed pieces, want %d: %s (-want +got):\n%s", name, bad.count, tc.malformed, &bad, diff)
		}
	}
}

// ranges are n single addresses, of which no two can be merged.
func ranges(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%d.%d.%d.%d/32", 10+i>>23, i>>15&255, i>>7&255, i<<1&255))
	}
	return all
}

func clientIP(seconds *int32) *corev1.SessionAffinityConfig {
	return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: seconds}}
}

func TestServicesWithoutVirtualIP(t *testing.T) {
	for name, in := range map[string]*corev1.Service{
		"headless":     newService("web", corev1.ClusterIPNone),
		"no address":   newService("web", ""),
		"ExternalName": newService("web", "", externalName),
		"ExternalName with an address": newService("web", "10.96.0.1", func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeExternalName
		}),
	} {
		got, bad := convertService(in)
		want := model.Service{Name: model.ServiceName{Namespace: "ns", Name: "web"}}
		if diff := cmp.Diff(want, got.model, comparers); diff != "" || got.served || bad.count > 0 {
			t.Errorf("%s: served %t, malformed %q, %s", name, got.served, &bad, diff)
		}
	}
}

func TestConvertNode(t *testing.T) {
	tests := map[string]struct {
		change    func(*corev1.Node)
		want      func(*model.Node)
		malformed int
	}{
		"plain": {func(*corev1.Node) {}, func(*model.Node) {}, 0},
		"without zone and addresses yet": {
			func(n *corev1.Node) { n.Labels, n.Status, n.Spec = nil, corev1.NodeStatus{}, corev1.NodeSpec{} },
			func(n *model.Node) { *n = model.Node{Name: "here"} }, 0,
		},
		"internal addresses come first, each kind in its order": {
			func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{
					{Type: corev1.NodeExternalIP, Address: "203.0.113.2"}, {Type: corev1.NodeInternalIP, Address: "fd00::2"},
					{Type: corev1.NodeExternalIP, Address: "203.0.113.1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.2"},
					{Type: corev1.NodeExternalDNS, Address: "198.51.100.1"},
				}
			},
			func(n *model.Node) { n.IPs = addrs("fd00::2", "192.0.2.2", "203.0.113.2", "203.0.113.1") }, 0,
		},
		"an address that is none": {
			func(n *corev1.Node) { n.Status.Addresses[1].Address = "here.example.com" },
			func(n *model.Node) { n.IPs = addrs("192.0.2.1") }, 1,
		},
		"podCIDRs of two families": {
			func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.244.1.0/24", "x", "fd00:1::/64"} },
			func(n *model.Node) { n.PodCIDRs = prefixes("10.244.1.0/24", "fd00:1::/64") }, 1,
		},
		"one podCIDR, the old way": {
			func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.244.2.0/24", nil },
			func(n *model.Node) { n.PodCIDRs = prefixes("10.244.2.0/24") }, 0,
		},
		"being deleted":     {func(n *corev1.Node) { n.DeletionTimestamp = &longAgo }, func(n *model.Node) { n.Leaving = true }, 0},
		"tainted otherwise": {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} }, func(*model.Node) {}, 0},
		"tainted by the autoscaler": {
			func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "x"}, {Key: "ToBeDeletedByClusterAutoscaler", Value: "1"}}
			},
			func(n *model.Node) { n.Leaving = true }, 0,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := wantNode(false)
			tc.want(want)
			got, bad := convertNode(newNode("here", tc.change))
			if diff := cmp.Diff(want, &got.model, comparers); diff != "" {
				t.Errorf("convertNode (-want +got):\n%s", diff)
			}
			if bad.count != tc.malformed {
				t.Errorf("%d malformed pieces, want %d: %s", bad.count, tc.malformed, &bad)
			}
		})
	}
}
