// Package population gives the Services of a cluster the EndpointSlices that Service proxies are
// measured with, and changes single ones of them.
//
// All endpoints are addresses of one namespace, in which a server listens on [OpenPort] and none on
// [ShutPort]. Start with [Population.Adopt] and [Population.Set].
package population

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// servicePort is the port of all Services.
const servicePort = 80

// workers create objects at the same time.
const workers = 32

// Population is the Services of a cluster, all of one family and with equally many endpoints. Mix
// adds more than ClusterIPs. A call that adds Services must not run beside any other call.
type Population struct {
	client    kubernetes.Interface
	family    model.Family
	endpoints int
	services  []netip.AddrPort // ClusterIP and port of each Service
	fronts    []netip.AddrPort // other virtual IPs
	sparse    netip.Prefix     // where every other ClusterIP is that Create asks for; zero: the API server chooses all
}

// New returns an empty Population.
func New(client kubernetes.Interface, f model.Family, endpoints int) *Population {
	return &Population{client: client, family: f, endpoints: endpoints}
}

// Create creates Services until there are n, with their EndpointSlices. All of them are Open. The
// API server needs longer for each further Service.
func (p *Population) Create(ctx context.Context, n int) error {
	first := len(p.services)
	created, err := framework.CreateServices(ctx, p.client, n-first, workers, func(i int) *corev1.Service {
		options := []framework.ServiceOption{framework.WithFamilies(corev1.IPFamily(p.family.String()))}
		if p.sparse.IsValid() && i%2 == 1 {
			options = append(options, framework.WithClusterIPs(scattered(p.sparse, first+i).String()))
		}
		return framework.NewService(cluster.Namespace, name(first+i), options...)
	})
	if err != nil {
		return err
	}
	for _, service := range created {
		if err := p.add(service); err != nil {
			return err
		}
	}
	return p.fill(ctx, first)
}

// Sparse puts every other Service that Create creates into another prefix, with distant addresses.
func (p *Population) Sparse(in netip.Prefix) { p.sparse = in }

// scattered returns the i-th of addresses that have little in common.
func scattered(p netip.Prefix, i int) netip.Addr {
	a := p.Addr().As16()
	binary.BigEndian.PutUint64(a[8:], uint64(i+1)*0x9E3779B97F4A7C15)
	return netip.AddrFrom16(a)
}

// Adopt does the same with Services that the cluster has grown already.
func (p *Population) Adopt(ctx context.Context) error {
	first := len(p.services)
	if err := p.Find(ctx); err != nil {
		return err
	}
	return p.fill(ctx, first)
}

// Find adopts Services that have their EndpointSlices.
func (p *Population) Find(ctx context.Context) error {
	list, err := p.client.CoreV1().Services(cluster.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	found := map[string]*corev1.Service{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	for service := found[name(len(p.services))]; service != nil; service = found[name(len(p.services))] {
		if err := p.add(service); err != nil {
			return err
		}
	}
	return nil
}

// name is what the cluster calls the i-th of the Services that it grows, too.
func name(i int) string { return fmt.Sprintf("service-%06d", i) }

func (p *Population) add(service *corev1.Service) error {
	vip, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return fmt.Errorf("reading the ClusterIP of %s: %w", service.Name, err)
	}
	p.services = append(p.services, netip.AddrPortFrom(vip, servicePort))
	return nil
}

// fill gives endpoints to the Services from first on.
func (p *Population) fill(ctx context.Context, first int) error {
	_, err := load.Load{Workers: workers, Count: len(p.services) - first}.Run(ctx, func(ctx context.Context, i int) error {
		return p.createSlices(ctx, first+i)
	})
	return err
}

func (p *Population) createSlices(ctx context.Context, i int) error {
	for _, s := range slices(cluster.Namespace, name(i), p.family, i*p.endpoints, p.endpoints) {
		if err := p.create(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (p *Population) create(ctx context.Context, s *discoveryv1.EndpointSlice) error {
	if _, err := p.client.DiscoveryV1().EndpointSlices(s.Namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the EndpointSlice %s: %w", s.Name, err)
	}
	return nil
}

// Services returns the ClusterIP and port of each Service. It shares the Population's memory.
func (p *Population) Services() []netip.AddrPort { return p.services }

// Set changes the first EndpointSlice of the i-th Service, whose pods changed at a time, as it
// tells the proxies. The API server has it when Set returns.
func (p *Population) Set(ctx context.Context, i int, s State, at time.Time) error {
	return p.update(ctx, slice(cluster.Namespace, name(i), name(i)+"-0", p.family, i*p.endpoints, min(perSlice, p.endpoints), s), at)
}

func (p *Population) update(ctx context.Context, s *discoveryv1.EndpointSlice, at time.Time) error {
	s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: at.Format(time.RFC3339Nano)}
	if _, err := p.client.DiscoveryV1().EndpointSlices(cluster.Namespace).Update(ctx, s, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("changing the EndpointSlice %s: %w", s.Name, err)
	}
	return nil
}

// Share is the part of a Service's endpoints that Set changes.
func (p *Population) Share() float64 {
	return float64(min(perSlice, p.endpoints)) / float64(p.endpoints)
}

// Churn changes Services between Open and another State, one change in each period, until ctx ends,
// and leaves them Open. It returns how many changes it made.
func (p *Population) Churn(ctx context.Context, period time.Duration, other State) (changes int, err error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for ; ctx.Err() == nil; changes += 2 {
		i := rand.IntN(len(p.services))
		for _, s := range []State{other, Open} {
			if err := p.Set(context.WithoutCancel(ctx), i, s, time.Now()); err != nil {
				return changes, err
			}
			<-tick.C
		}
	}
	return changes, nil
}

// Some returns n random ones of Services, and of their other virtual IPs.
func (p *Population) Some(n int) []netip.AddrPort {
	some := make([]netip.AddrPort, n)
	for i := range some {
		if r := rand.IntN(len(p.services) + len(p.fronts)); r < len(p.services) {
			some[i] = p.services[r]
		} else {
			some[i] = p.fronts[r-len(p.services)]
		}
	}
	return some
}

// SomeIn returns n random ClusterIPs of Services in a range, with the port that most Services have.
func (p *Population) SomeIn(r netip.Prefix, n int) (some []netip.AddrPort) {
	for len(some) < n {
		if s := p.services[rand.IntN(len(p.services))]; r.Contains(s.Addr()) && s.Port() == servicePort {
			some = append(some, s)
		}
	}
	return some
}

// SomeEndpoints returns n random endpoints.
func (p *Population) SomeEndpoints(n int) []netip.AddrPort {
	some := make([]netip.AddrPort, n)
	for i := range some {
		some[i] = netip.AddrPortFrom(Endpoint(p.family, rand.IntN(len(p.services)*p.endpoints)), OpenPort)
	}
	return some
}

// AddSticky creates a Service with session affinity and these endpoints, and returns where it is.
func (p *Population) AddSticky(ctx context.Context, endpoints ...netip.AddrPort) (netip.AddrPort, error) {
	service := framework.NewService(cluster.Namespace, sticky, framework.WithFamilies(corev1.IPFamily(p.family.String())))
	service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	service, err := p.client.CoreV1().Services(cluster.Namespace).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("creating the Service with affinity: %w", err)
	}
	vip, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("reading the ClusterIP of %s: %w", service.Name, err)
	}
	return netip.AddrPortFrom(vip, servicePort), p.create(ctx, p.stickySlice(endpoints))
}

// SetSticky gives the Service with session affinity other endpoints, as Set does.
func (p *Population) SetSticky(ctx context.Context, at time.Time, endpoints ...netip.AddrPort) error {
	return p.update(ctx, p.stickySlice(endpoints), at)
}

// sticky is the name of the Service with session affinity.
const sticky = "sticky"

func (p *Population) stickySlice(endpoints []netip.AddrPort) *discoveryv1.EndpointSlice {
	s := empty(cluster.Namespace, sticky, sticky, p.family, int32(endpoints[0].Port()))
	for _, e := range endpoints {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{e.Addr().String()}})
	}
	return s
}

// StickTemplate gives session affinity to the Service that is copied.
func (p *Population) StickTemplate(ctx context.Context) error {
	namespace, name, _ := strings.Cut(cluster.Template, "/")
	patch := []byte(`{"spec":{"sessionAffinity":"ClientIP"}}`)
	if _, err := p.client.CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("giving the template session affinity: %w", err)
	}
	return nil
}
