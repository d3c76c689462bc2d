package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/admission"
	"github.com/clusterip-operator/clusterip-operator/controllers/servicecidr"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// View is the address index and the compiled policies of a cluster, as the operator has them, for a
// program that only reads. It does not show what the leader has in memory alone: addresses in
// flight, and cool-downs in the second before they are written. Open makes one; it is safe for
// concurrent use.
type View struct {
	index    *addressindex.Index
	policies *steering.Cache
	webhook  *admission.ServiceSteerer
	cache    *store
	live     client.Client
	bitmap   bool // the API server allocates from the bitmap, and a Service without an IPAddress is no drift
	failed   chan error
}

// Cluster is where a View reads.
type Cluster struct {
	// Config and Live reach one API server; Live has a scheme of kube.NewScheme.
	Config *rest.Config
	Live   client.WithWatch
	// Policies: the API server serves ServiceCIDRPolicies.
	Policies bool
	// Page is how many Services or IPAddresses are read at once; 0 for as many as kubectl reads.
	Page int64
	// Progress is told how many objects of a kind are read, and of how many as far as that is known.
	// It may be called concurrently. It may be nil.
	Progress func(what string, read, of int)
}

func (c Cluster) tell(what string, p Page, on int) {
	if c.Progress != nil {
		c.Progress(what, p.Before+on, p.Before+on+p.Left)
	}
}

// source is where a mirror reads the kind of a list.
func (c Cluster) source(list client.ObjectList, v *View) source {
	what := "Services"
	if _, ok := list.(*networkingv1.IPAddressList); ok {
		what = "IPAddresses"
	}
	return source{live: c.Live, list: list, page: c.Page, read: func(p Page, on int) { c.tell(what, p, on) }, failed: v.couldNotRead}
}

// Open lists ServiceCIDRs, IPAddresses, Services and Namespaces, and ServiceCIDRPolicies where
// they are served, and follows them until ctx ends. The error says what could not be listed, and
// wraps the API server's.
func Open(ctx context.Context, c Cluster) (*View, error) {
	v, err := newView(ctx, c)
	if err != nil {
		return nil, err
	}
	return v.open(ctx, c)
}

// newView returns a View that has read nothing.
func newView(ctx context.Context, c Cluster) (*View, error) {
	v := &View{index: addressindex.New(), policies: steering.NewCache(), live: c.Live, failed: make(chan error, 1)}
	o := kube.CacheOptions(c.Policies)
	o.Scheme, o.Mapper = c.Live.Scheme(), c.Live.RESTMapper()
	o.DefaultWatchErrorHandler = func(_ context.Context, r *toolscache.Reflector, err error) {
		if r.LastSyncResourceVersion() == "" || apierrors.IsForbidden(err) { // as mirrors do
			v.couldNotRead(err)
		}
	}
	o.DefaultUnsafeDisableDeepCopy = new(true) // nothing here changes what it reads
	o.NewInformer = func(lw toolscache.ListerWatcher, o runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(listed{lw, toolscache.ToListerWatcherWithContext(lw)}, o, resync, by)
	}
	d, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	if v.bitmap, err = kube.AllocatesFromBitmap(ctx, d, c.Live); err != nil {
		return nil, fmt.Errorf("finding out who allocates: %w", err)
	}
	others, err := cache.New(c.Config, o)
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	v.cache = newStore(others)
	v.webhook = &admission.ServiceSteerer{Namespaces: v.cache, Live: c.Live, Index: v.index, Policies: v.policies, Clock: clock.RealClock{}}
	return v, nil
}

// open reads everything, and follows it.
func (v *View) open(ctx context.Context, c Cluster) (*View, error) {
	_, err := v.cache.GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	if err := v.watch(ctx, c.Policies); err != nil {
		return nil, err
	}
	go func() { _ = v.cache.Start(ctx) }()
	v.followTogether(ctx, c)
	return v, v.await(ctx, c.Policies)
}

// listed is what an informer reads by a list and a watch. By default it has the objects streamed,
// one event for each, which spares the memory of an API server with many clients; a program that
// reads all once waits for it.
type listed struct {
	toolscache.ListerWatcher
	toolscache.ListerWatcherWithContext
}

// IsWatchListSemanticsUnSupported is by what informers ask.
func (listed) IsWatchListSemanticsUnSupported() bool { return true }

// couldNotRead keeps the first error. What failed is tried again; the caller waits for an answer.
func (v *View) couldNotRead(err error) {
	select {
	case v.failed <- err:
	default:
	}
}

// watch connects the address index and the policies to what they follow.
func (v *View) watch(ctx context.Context, policies bool) error {
	v.policies.Subscribe(func(_, after *steering.Compiled) { v.index.SetRules(after) })
	err := v.index.WatchAddresses(ctx, v.cache)
	if policies {
		err = errors.Join(err, v.policies.Watch(ctx, v.cache))
	}
	if err != nil {
		return fmt.Errorf("watching the cluster: %w", err)
	}
	if policies {
		go func() { _ = v.policies.Start(ctx) }()
	}
	return nil
}

// await waits until everything is listed.
func (v *View) await(ctx context.Context, policies bool) error {
	for !v.index.Synced() || policies && !v.policies.Synced() {
		select {
		case err := <-v.failed:
			return fmt.Errorf("reading the cluster: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
	if !policies {
		v.policies.Set(steering.Inputs{ServiceCIDRs: v.index.ServiceCIDRs()})
	}
	v.index.Sweep() // ends the cool-downs that the leader is about to end
	return nil
}

// Explain says what the webhook would answer to the creation of a Service, by its own code.
func (v *View) Explain(ctx context.Context, s *corev1.Service) (admission.Explanation, error) {
	return v.webhook.Explain(ctx, s)
}

// List reads what the view follows and what are few: ServiceCIDRs, Namespaces, ServiceCIDRPolicies.
// It calls no API server. Do not change what the list refers to.
func (v *View) List(ctx context.Context, into client.ObjectList) error {
	return v.cache.List(ctx, into, client.UnsafeDisableDeepCopy)
}

// Service returns a Service as EachService has it, nil if there is none.
func (v *View) Service(ctx context.Context, name types.NamespacedName) (*corev1.Service, error) {
	return objects.Get(ctx, v.cache, name, &corev1.Service{})
}

// Services are the names of all Services, in no order.
func (v *View) Services() []types.NamespacedName { return v.cache.services.names() }

// EachService calls f for every Service, with name, age and addresses, in no order.
func (v *View) EachService(ctx context.Context, f func(*corev1.Service) error) error {
	return v.cache.services.each(ctx, f)
}

// EachIPAddress calls f for every IPAddress, in no order.
func (v *View) EachIPAddress(ctx context.Context, f func(*networkingv1.IPAddress) error) error {
	return v.cache.addresses.each(ctx, f)
}

// Bitmap reports whether the API server allocates from the bitmap in etcd.
func (v *View) Bitmap() bool { return v.bitmap }

// Policies are the names of all ServiceCIDRPolicies, the one that goes first at the top; none where
// they are not served.
func (v *View) Policies() (names []string) {
	for _, p := range v.policies.Current().Policies() {
		names = append(names, p.Name)
	}
	return names
}

// Known are all addresses that have an IPAddress or a Service, in no order.
func (v *View) Known() []netip.Addr { return v.index.Known() }

// Relation counts ClusterIPs, and those with their IPAddress: how far a migration is.
func (v *View) Relation() (claimed, covered int) { return v.index.Relation() }

// Usage counts the addresses of a span by state.
func (v *View) Usage(s allocator.Span) allocator.Usage { return v.index.Usage(s) }

// RangeUsage counts the addresses of a range as the operator does, without growth.
func (v *View) RangeUsage(r allocator.Range) v1alpha1.RangeUsage {
	return v1alpha1.RangeUsage{
		CIDR: r.String(), Static: servicecidr.Counts(v.index.Usage(r.Band(allocator.Static))), Dynamic: servicecidr.Counts(v.index.Usage(r.Band(allocator.Dynamic))),
	}
}

// Fullness are the conditions that tell how full a ServiceCIDR is, as the operator should write
// them now, but for its forecast. A band is nearly full with freePercent of it left; unsteered: no
// webhook draws, so that the API server allocates no address that cools down.
func (v *View) Fullness(o *networkingv1.ServiceCIDR, unsteered bool, freePercent int) []metav1.Condition {
	return servicecidr.Fullness(v.index, o, v.policies.Current(), unsteered, servicecidr.Limits{FreePercent: freePercent})
}

// Address is what is known of one address.
type Address struct {
	Address netip.Addr `json:"address"`
	State   string     `json:"state"`
	// ServiceCIDRs have the address as a usable one; Band is its band, empty without any.
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
	Band         string   `json:"band,omitempty"`
	// Services have it in spec.clusterIPs: one, unless something is wrong.
	Services []string `json:"services,omitempty"`
	// IPAddress is the object at the address, nil without one; Parent is what it names, as ParentOf
	// has it.
	IPAddress *networkingv1.IPAddress `json:"-"`
	Parent    string                  `json:"parent,omitempty"`
	// Policy keeps the address for the Services that it selects, or reserves it, or lets it cool down.
	Policy string `json:"policy,omitempty"`
	// Allocation is how the address is given out, by AllocationPolicy: empty where both are left out.
	Allocation       v1alpha1.Allocation `json:"allocation,omitempty"`
	AllocationPolicy string              `json:"allocationPolicy,omitempty"`
	// Reservation is the name of the reservation, ReservationFor the Service that it is for.
	Reservation    string `json:"reservation,omitempty"`
	ReservationFor string `json:"reservationFor,omitempty"`
	// LastService had the address, which cools down until then.
	LastService string     `json:"lastService,omitempty"`
	CoolsUntil  *time.Time `json:"coolsUntil,omitempty"`
	// Drift is what seems to be wrong with the address, by the functions of Audit; Wrong are its
	// types, as the metric clusterip_operator_drift has them.
	Drift Drift    `json:"-"`
	Wrong []string `json:"wrong,omitempty"`
}

// EachAddress calls f for all addresses that have an IPAddress or a Service, in order.
func (v *View) EachAddress(ctx context.Context, f func(Address) error) error {
	const together = 4096 // what is held at once
	for part := range slices.Chunk(v.index.Known(), together) {
		all, err := forEach(ctx, part, func(ctx context.Context, a netip.Addr) (Address, bool, error) {
			one, err := v.Address(ctx, a)
			return one, true, err
		})
		if err != nil {
			return err
		}
		for _, one := range all {
			if err := f(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// Wrong are the addresses with which something seems to be wrong, in order.
func (v *View) Wrong(ctx context.Context) ([]netip.Addr, error) {
	return forEach(ctx, v.index.Known(), func(ctx context.Context, a netip.Addr) (netip.Addr, bool, error) {
		d, err := v.driftOf(ctx, a)
		return a, len(d.Addresses)+len(d.Services) > 0, err
	})
}

// CordonedBy names the policy that has an address cordoned, empty for none.
func (v *View) CordonedBy(a netip.Addr) string {
	if p := v.policies.Current().Restriction(a); p != nil && p.Allocation == v1alpha1.AllocationCordoned {
		return p.Name
	}
	return ""
}

// Address says what is known of an address. It reads no API server.
func (v *View) Address(ctx context.Context, a netip.Addr) (Address, error) {
	out := Address{Address: a, State: v.index.State(a).String()}
	for _, c := range v.index.Covering(a) {
		out.ServiceCIDRs = append(out.ServiceCIDRs, c.Name)
	}
	slices.Sort(out.ServiceCIDRs)
	if band, ok := v.index.BandOf(a); ok {
		out.Band = band.String()
	}
	for _, name := range v.index.Claims(a) {
		out.Services = append(out.Services, name.String())
	}
	slices.Sort(out.Services)
	ip, err := objects.Get(ctx, v.cache, types.NamespacedName{Name: a.String()}, &networkingv1.IPAddress{})
	if err != nil {
		return out, fmt.Errorf("reading IPAddress %s: %w", a, err)
	}
	if ip != nil {
		out.IPAddress, out.Parent = ip, ParentOf(ip).String()
	}
	if out.Drift, err = v.driftOf(ctx, a); err != nil {
		return out, err
	}
	out.Wrong = out.Drift.types()
	v.addPolicies(&out)
	return out, nil
}

// addPolicies adds what policies say about an address.
func (v *View) addPolicies(out *Address) {
	a, policies := out.Address, v.policies.Current()
	if p := policies.Restriction(a); p != nil {
		out.Allocation, out.AllocationPolicy = p.Allocation, p.Name
	}
	if p := policies.Keeps(a, steering.Service{}); p != nil {
		out.Policy = p.Name
	}
	if r, ok := policies.Reservation(a); ok {
		out.Reservation, out.Policy = r.Name, r.Policy
		if r.For.Name != "" {
			out.ReservationFor = r.For.String()
		}
	}
	if c, cools := v.index.Cooling(a); cools && out.State == allocator.Cooling.String() {
		d, policy := policies.CoolDown(a)
		out.LastService, out.CoolsUntil = c.Service.String(), new(c.Released.Add(d))
		if policy != nil {
			out.Policy = cmp.Or(out.Policy, policy.Name)
		}
	}
}
