package renumber

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// some returns one of the values given.
func some[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// randomService has any of the fields that a Service may lose as an ExternalName, in any mix.
func randomService(random *rand.Rand) *corev1.Service {
	s := service("a", some(random, "10.96.0.7", "fd00:96::7", "10.96.0.7,fd00:96::7", "fd00:96::7,10.96.0.7"))
	s.Annotations = some(random, nil, map[string]string{"mine": "yes"})
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	s.Spec.Type = some(random, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer)
	s.Spec.IPFamilies = some(random, []corev1.IPFamily{corev1.IPv4Protocol}, []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol})
	s.Spec.IPFamilyPolicy = some(random, nil, new(corev1.IPFamilyPolicySingleStack), new(corev1.IPFamilyPolicyPreferDualStack))
	for i := range random.IntN(4) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprint(i), Port: int32(80 + i/2), Protocol: some(random, corev1.ProtocolTCP, corev1.ProtocolUDP), NodePort: some(random, 0, int32(30000+i)), AppProtocol: new("h2c"),
		})
		if i%2 == 1 { // the same number twice, under two protocols
			s.Spec.Ports[i-1].Protocol, s.Spec.Ports[i].Protocol = corev1.ProtocolTCP, corev1.ProtocolUDP
		}
	}
	s.Spec.ExternalIPs = some(random, nil, []string{"192.0.2.1"}, []string{"192.0.2.1", "2001:db8::1"})
	s.Spec.Selector = some(random, nil, map[string]string{"app": "a"})
	s.Spec.SessionAffinity = some(random, corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP)
	s.Spec.ExternalTrafficPolicy = some(random, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	s.Spec.InternalTrafficPolicy = some(random, nil, new(corev1.ServiceInternalTrafficPolicyLocal))
	s.Spec.HealthCheckNodePort = some(random, 0, int32(30100))
	s.Spec.AllocateLoadBalancerNodePorts = some(random, nil, new(true), new(false))
	s.Spec.LoadBalancerClass = some(random, nil, new("example.com/balancer"))
	s.Spec.LoadBalancerIP = some(random, "", "192.0.2.9")
	s.Spec.LoadBalancerSourceRanges = some(random, nil, []string{"192.0.2.0/24"})
	s.Status.LoadBalancer = some(random, corev1.LoadBalancerStatus{}, corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}}})
	if s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) == 0 {
		s.Spec.ExternalTrafficPolicy = "" // which the API server refuses otherwise
	}
	return &s
}

// leave is the first of the two updates, with all that comes before it.
func leave(t *testing.T, s *corev1.Service) *corev1.Service {
	t.Helper()
	text, err := newRecord(s)
	if err != nil {
		t.Fatal(err)
	}
	return leaving(proves(s, text), text, append(former(s), without(addresses(s), former(s))...))
}

// enter is the second of the two updates, with all that comes after it.
func enter(t *testing.T, s *corev1.Service, with []netip.Addr, asExternal bool) *corev1.Service {
	t.Helper()
	was, err := recordOf(s)
	if err != nil || was == nil {
		t.Fatalf("no record: %v", err)
	}
	out, _, _ := settled(entering(s, was, with, without(former(s), with), asExternal))
	return out
}

// There and back again a Service is what it was, and it was nothing but an alias in between.
func TestLeavingAndEnteringIsNothing(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		was := randomService(random)
		original := was.DeepCopy()
		there := leave(t, was)
		if !between(there) || len(addresses(there)) > 0 || there.Spec.ClusterIP != "" || texts(former(there)) != texts(addresses(was)) {
			t.Fatalf("seed %d: not between: %+v", seed, there)
		}
		for _, p := range there.Spec.Ports {
			if p.NodePort != 0 {
				t.Fatalf("seed %d: node port %d of an ExternalName", seed, p.NodePort)
			}
		}
		back := enter(t, there, addresses(was), random.IntN(2) == 0)
		// A Service of type ClusterIP has nothing of a load balancer: the API server sees to that.
		if back.Spec.Type == corev1.ServiceTypeClusterIP {
			back.Spec.HealthCheckNodePort, back.Spec.AllocateLoadBalancerNodePorts = was.Spec.HealthCheckNodePort, was.Spec.AllocateLoadBalancerNodePorts
			back.Spec.LoadBalancerClass, back.Spec.LoadBalancerIP, back.Spec.LoadBalancerSourceRanges = was.Spec.LoadBalancerClass, was.Spec.LoadBalancerIP, was.Spec.LoadBalancerSourceRanges
			for i := range back.Spec.Ports {
				back.Spec.Ports[i].NodePort = was.Spec.Ports[i].NodePort
			}
		}
		if diff := cmp.Diff(was, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d (-was +is):\n%s", seed, diff)
		}
		if diff := cmp.Diff(original, was); diff != "" {
			t.Fatalf("seed %d: the argument has changed:\n%s", seed, diff)
		}
	}
}

// moved takes a Service to other addresses and has its owner edit it in between.
func moved(t *testing.T, s *corev1.Service, to string, asExternal bool, edit func(*corev1.Service)) *corev1.Service {
	t.Helper()
	there := leave(t, s)
	if edit != nil {
		edit(there)
	}
	return enter(t, there, addrs(to), asExternal)
}

// threePorts are those of a Service; with node ports, it is of type NodePort.
func threePorts(s *corev1.Service) {
	s.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: "TCP"}, {Port: 53, Protocol: "TCP"}, {Port: 53, Protocol: "UDP"}}
}

func threeNodePorts(s *corev1.Service) {
	threePorts(s)
	s.Spec.Type = corev1.ServiceTypeNodePort
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = int32(30080 + i)
	}
}

// The owner of a ClusterIP Service may make any of these changes before and afterwards, so that
// they stay.
func TestEnteringKeepsWhatItsOwnerHasChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*corev1.Service)
		want func(*corev1.Service)
	}{
		"labels":      {func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }},
		"a selector":  {func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} }, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} }},
		"annotations": {func(s *corev1.Service) { s.Annotations["a"] = "b" }, func(s *corev1.Service) { s.Annotations["a"] = "b" }},
		"the order of ports": {
			func(s *corev1.Service) { p := s.Spec.Ports; p[0], p[1], p[2] = p[2], p[0], p[1] },
			func(s *corev1.Service) { p := s.Spec.Ports; p[0], p[1], p[2] = p[2], p[0], p[1] },
		},
		"a port more, one less": {
			func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports[1:], corev1.ServicePort{Port: 90, Protocol: "TCP"})
			},
			func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports[1:], corev1.ServicePort{Port: 90, Protocol: "TCP"})
			},
		},
		"external IPs": {func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }},
	} {
		t.Run(name, func(t *testing.T) {
			s := service("a", "10.96.0.7", threePorts)
			got := moved(t, &s, "10.200.0.7", false, tc.edit)
			want := service("a", "10.200.0.7", threePorts)
			want.Spec.ClusterIP, want.Annotations = "10.200.0.7", map[string]string{v1alpha1.AnnotationFormerIPs: "10.96.0.7"}
			tc.want(&want)
			if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A cluster may forbid its tenants ports, labels and annotations of NodePort and LoadBalancer
// Services that it lets them write on an ExternalName. The second update is an administrator's.
func TestEnteringTakesBackWhatTheOwnerOfANodePortHasChanged(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Service){
		"the number of a port": func(s *corev1.Service) { s.Spec.Ports[0].Port = 22 },
		"a port more": func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 22, Protocol: "TCP"})
		},
		"a node port":  func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30022 },
		"a selector":   func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "theirs"} },
		"external IPs": func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.7"} },
		"labels":       func(s *corev1.Service) { s.Labels = map[string]string{"public": "yes"} },
		"annotations":  func(s *corev1.Service) { s.Annotations["internet-facing"] = "yes" },
	} {
		for _, kind := range []corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer} {
			s := service("a", "10.96.0.7,fd00:96::7", threeNodePorts, func(s *corev1.Service) {
				s.Spec.Type, s.Labels, s.Annotations = kind, map[string]string{"mine": "yes"}, map[string]string{"mine": "yes"}
			})
			want := moved(t, &s, "10.200.0.7,fd00:200::7", false, nil)
			if diff := cmp.Diff(want, moved(t, &s, "10.200.0.7,fd00:200::7", false, edit)); diff != "" {
				t.Errorf("%s of a %s (-want +got):\n%s", name, kind, diff)
			}
		}
	}
}

// The policy for external traffic goes with the last external IP, or the API server refuses it.
func TestEnteringWithoutExternalIPs(t *testing.T) {
	s := service("a", "10.96.0.7", func(s *corev1.Service) {
		s.Spec.ExternalIPs, s.Spec.ExternalTrafficPolicy = []string{"192.0.2.1"}, corev1.ServiceExternalTrafficPolicyCluster
	})
	for _, tc := range []struct {
		asExternal bool
		want       corev1.ServiceExternalTrafficPolicy
	}{{false, ""}, {true, corev1.ServiceExternalTrafficPolicyCluster}} {
		got := moved(t, &s, "10.200.0.7", tc.asExternal, func(s *corev1.Service) { s.Spec.ExternalIPs = nil })
		if got.Spec.ExternalTrafficPolicy != tc.want {
			t.Errorf("old address as an external IP: %t; policy %q", tc.asExternal, got.Spec.ExternalTrafficPolicy)
		}
	}
}

// A Service goes there and back while its old addresses are kept, and is released at last.
func TestFormerAddresses(t *testing.T) {
	const old, next = "10.96.0.7,fd00:96::7", "10.200.0.7,fd00:200::7"
	for _, asExternal := range []bool{false, true} {
		s := service("a", old, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} })
		s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: v1alpha1.ManagerRenumbering}}
		now := &s
		expect := func(where, wantAddresses, wantFormer string, wantManagers int) {
			t.Helper()
			external := []string{"192.0.2.1"}
			if asExternal {
				external = append(external, strs(addrs(wantFormer))...)
			}
			if diff := cmp.Diff(external, now.Spec.ExternalIPs); diff != "" || texts(addresses(now)) != wantAddresses || now.Annotations[v1alpha1.AnnotationFormerIPs] != wantFormer ||
				len(now.ManagedFields) != wantManagers {
				t.Errorf("%s: as external IPs: %t; %v, external %v, annotations %v, %d managers", where, asExternal, addresses(now), now.Spec.ExternalIPs, now.Annotations, len(now.ManagedFields))
			}
		}
		now = moved(t, now, next, asExternal, nil)
		expect("there", next, old, 2)
		now = moved(t, now, old, asExternal, func(s *corev1.Service) {
			if texts(former(s)) != old+","+next {
				t.Errorf("both are kept in between: %v", former(s))
			}
		})
		expect("back", old, next, 2)
		now = moved(t, now, next, asExternal, nil)
		now = released(now, addrs("10.96.0.7"))
		expect("one is released", next, "fd00:96::7", 2)
		now = released(now, addrs("fd00:96::7"))
		expect("the other too", next, "", 1)
		now = released(now, addrs("fd00:96::7"))
		expect("twice", next, "", 1)
	}
}

func TestReleasedLeavesOthersAlone(t *testing.T) {
	s := service("a", "10.200.0.7", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} })
	s.Annotations = map[string]string{"mine": "yes", v1alpha1.AnnotationRenumbering: "{}"}
	got := released(&s, addrs("10.96.0.7"))
	if diff := cmp.Diff(map[string]string{"mine": "yes"}, got.Annotations); diff != "" || len(got.Spec.ExternalIPs) != 1 {
		t.Errorf("external IPs %v, annotations (-want +got):\n%s", got.Spec.ExternalIPs, diff)
	}
	there := leave(t, &s)
	if got := released(there, addrs("10.96.0.7")); !between(got) {
		t.Error("what a Service that is between needs is gone")
	}
}
