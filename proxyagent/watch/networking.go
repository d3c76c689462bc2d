package watch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// ErrNotServed is returned by [Source.Run] with [model.Enforce] where the API server has no IPAddresses.
var ErrNotServed = errors.New("the API server serves networking.k8s.io IPAddress and ServiceCIDR neither as v1 nor as v1beta1, and " +
	"without IPAddresses nothing may be served: use Kubernetes 1.33 or later, or allocations prefer or ignore")

const (
	// discoveryPeriod is the pause after discovery of an API that is not served. A control plane may be upgraded to a version that has it.
	discoveryPeriod = time.Minute
	// versionPause is the pause after a version is not served any more: API servers of several versions may run during an upgrade.
	versionPause = 3 * time.Second
)

// networkingVersions are the versions of ServiceCIDR and IPAddress that we know, best first.
var networkingVersions = []string{networkingv1.SchemeGroupVersion.Version, networkingv1beta1.SchemeGroupVersion.Version}

// view is a kind whose informer may start late and may be replaced. Its current informer has listed everything at least once.
type view[T object] struct {
	current atomic.Pointer[informer[T]]
	// known is closed when there is a current informer, or when it is certain that there will be none.
	known     chan struct{}
	markKnown func()
}

func newView[T object]() *view[T] {
	known := make(chan struct{})
	return &view[T]{known: known, markKnown: sync.OnceFunc(func() { close(known) })}
}

// show replaces the informer, and returns the keys of both: the objects of either may have changed.
func (v *view[T]) show(i *informer[T]) []string {
	before := v.current.Swap(i)
	keys := i.shared.GetStore().ListKeys()
	if before != nil {
		keys = append(keys, before.shared.GetStore().ListKeys()...)
	}
	return keys
}

// get is [informer.get] of the current informer.
func (v *view[T]) get(key string) (T, bool) {
	if i := v.current.Load(); i != nil {
		return i.get(key)
	}
	var none T
	return none, false
}

// followNetworking follows ServiceCIDRs and IPAddresses in the version that the API server has, also when that changes while the agent
// runs, until ctx ends. Where the API is not served any more, the known objects stay, so that Services go on.
func (s *Source) followNetworking(ctx context.Context) error {
	for {
		version, err := s.discover(ctx)
		if err != nil {
			return nil // ctx ended
		}
		pause := versionPause
		if version == "" {
			if err := s.withoutNetworking(); err != nil {
				return err
			}
			pause = discoveryPeriod
		} else if err := s.watchNetworking(ctx, version); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait.Jitter(pause, 0.5)):
		}
	}
}

// discover tries until the API server answers, or ctx ends. It returns the version that serves both kinds, empty for none.
func (s *Source) discover(ctx context.Context) (string, error) {
	backoff := discoveryPauses()
	for {
		version, err := s.servedVersion(ctx)
		if err == nil {
			return version, nil
		}
		if ctx.Err() == nil {
			s.reports.failed("discovery", err)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(backoff.Step()):
		}
	}
}

// discoveryPauses are the pauses between two attempts. The longest, 7.5 s with the jitter, is below networkingTimeout: an API server that
// is back must be asked before the agent goes on without IPAddresses.
func discoveryPauses() wait.Backoff {
	return wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 7, Cap: 5 * time.Second}
}

func (s *Source) servedVersion(ctx context.Context) (string, error) {
	for _, version := range networkingVersions {
		group := networkingv1.GroupName + "/" + version
		list, err := s.client.Discovery().ServerResourcesForGroupVersionWithContext(ctx, group)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("asking the API server for the resources of %s: %w", group, err)
		}
		if serves(list, "servicecidrs") && serves(list, "ipaddresses") {
			return version, nil
		}
	}
	return "", nil
}

func serves(list *metav1.APIResourceList, resource string) bool {
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}

// withoutNetworking decides what to do where the API is not served.
func (s *Source) withoutNetworking() error {
	if s.addresses.current.Load() != nil {
		s.reports.failed("networking.k8s.io", errors.New("IPAddresses and ServiceCIDRs are not served any more; those known last stay"))
		return nil
	}
	if s.options.Allocations == model.Enforce {
		return ErrNotServed
	}
	s.absent.Do(func() {
		s.options.Logger.Info("The API server has no IPAddresses and ServiceCIDRs: going on without, and looking for them again and again")
	})
	s.addresses.markKnown()
	s.cidrs.markKnown()
	return nil
}

// watchNetworking follows both kinds in one version, until that is not served any more or ctx ends.
func (s *Source) watchNetworking(ctx context.Context, version string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := func(err error) {
		if apierrors.IsNotFound(err) {
			cancel()
		}
	}
	addresses, err := s.addressInformer(version, gone)
	if err != nil {
		return err
	}
	cidrs, err := s.cidrInformer(version, gone)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	group.Go(func() { addresses.shared.RunWithContext(ctx) })
	group.Go(func() { cidrs.shared.RunWithContext(ctx) })
	group.Go(func() { s.showAddresses(ctx, addresses) })
	group.Go(func() { s.showCIDRs(ctx, cidrs) })
	group.Wait()
	return nil
}

func (s *Source) addressInformer(version string, gone func(error)) (*informer[*allocation], error) {
	if version == networkingv1beta1.SchemeGroupVersion.Version {
		return networkingInformer(s, "IPAddress", s.client.NetworkingV1beta1().IPAddresses(), &networkingv1beta1.IPAddress{},
			convertBetaIPAddress, s.addressChanged, gone)
	}
	return networkingInformer(s, "IPAddress", s.client.NetworkingV1().IPAddresses(), &networkingv1.IPAddress{},
		convertIPAddress, s.addressChanged, gone)
}

func (s *Source) cidrInformer(version string, gone func(error)) (*informer[*serviceCIDR], error) {
	if version == networkingv1beta1.SchemeGroupVersion.Version {
		return networkingInformer(s, "ServiceCIDR", s.client.NetworkingV1beta1().ServiceCIDRs(), &networkingv1beta1.ServiceCIDR{},
			convertBetaServiceCIDR, s.cidrChanged, gone)
	}
	return networkingInformer(s, "ServiceCIDR", s.client.NetworkingV1().ServiceCIDRs(), &networkingv1.ServiceCIDR{},
		convertServiceCIDR, s.cidrChanged, gone)
}

// networkingInformer follows one kind in one version.
func networkingInformer[L, In runtime.Object, Out object](
	s *Source, name string, client lister[L], example In, convert func(In) (Out, junk), changed func(*informer[Out], change[Out]), gone func(error),
) (*informer[Out], error) {
	return newInformer(kind[In, Out]{
		name: name, objects: listWatch(s.client, client, "", ""), example: example, convert: convert, changed: changed, failed: gone,
		resync: s.options.Resync,
	}, s.reports)
}

// showAddresses waits for the first list and shows it as a whole. With single events, addresses whose objects have not arrived yet would
// count as not allocated.
func (s *Source) showAddresses(ctx context.Context, i *informer[*allocation]) {
	if !closed(ctx, i.synced) {
		return
	}
	keys := s.addresses.show(i)
	s.pending.mark(func(b *batch) {
		for _, key := range keys {
			b.addAllocation(key)
		}
	})
	s.addresses.markKnown()
	s.sayLate("IPAddress")
}

// showCIDRs is showAddresses for ServiceCIDRs.
func (s *Source) showCIDRs(ctx context.Context, i *informer[*serviceCIDR]) {
	if !closed(ctx, i.synced) {
		return
	}
	s.cidrs.show(i)
	s.pending.mark(func(b *batch) { b.ranges = true })
	s.cidrs.markKnown()
	s.sayLate("ServiceCIDR")
}

// addressChanged ignores an informer that is not shown yet; showing it marks everything.
func (s *Source) addressChanged(i *informer[*allocation], c change[*allocation]) {
	if c.old.same(c.new) || s.addresses.current.Load() != i {
		return
	}
	s.pending.mark(func(b *batch) {
		if c.old != nil {
			b.addAllocation(c.old.name)
		} else {
			b.addAllocation(c.new.name)
		}
	})
}

func (s *Source) cidrChanged(i *informer[*serviceCIDR], c change[*serviceCIDR]) {
	if c.old.same(c.new) || s.cidrs.current.Load() != i {
		return
	}
	s.pending.mark(func(b *batch) { b.ranges = true })
}

// addAllocation adds an IPAddress by its name, unless that is no address.
func (b *batch) addAllocation(name string) {
	if addr, err := netip.ParseAddr(name); err == nil {
		b.allocations[addr] = struct{}{}
	}
}

// closed waits until a channel is closed, and reports false when ctx ended before.
func closed(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-done: // both happened
		return true
	default:
		return false
	}
}

// allocation is what is kept of an IPAddress. Its address is invalid when the name is none, which the API refuses.
type allocation struct {
	head
	model model.Allocation
}

// same reports whether two IPAddresses say the same; nil is one that does not exist.
func (a *allocation) same(o *allocation) bool {
	if a == nil || o == nil {
		return a == o
	}
	return a.model == o.model
}

func convertIPAddress(in *networkingv1.IPAddress) (*allocation, junk) {
	return newAllocation(in, in.Spec.ParentRef)
}

// convertBetaIPAddress is convertIPAddress for Kubernetes 1.31 and 1.32.
func convertBetaIPAddress(in *networkingv1beta1.IPAddress) (*allocation, junk) {
	var parent *networkingv1.ParentReference
	if in.Spec.ParentRef != nil {
		ref := networkingv1.ParentReference(*in.Spec.ParentRef)
		parent = &ref
	}
	return newAllocation(in, parent)
}

func newAllocation(in metav1.Object, parent *networkingv1.ParentReference) (*allocation, junk) {
	var j junk
	out := &allocation{head: headOf(in)}
	addr, ok := parseAddr(out.name)
	if !ok || addr.String() != out.name {
		j.add("name", out.name)
		return out, j
	}
	out.model.Addr = addr
	if parent != nil && parent.Group == "" && parent.Resource == "services" {
		out.model.Service = model.ServiceName{Namespace: wordOf(parent.Namespace).Value(), Name: parent.Name}
		out.model.Additional = in.GetLabels()[networkingv1.LabelManagedBy] == v1alpha1.ManagedByOperator
	}
	return out, j
}

// serviceCIDR is what is kept of a ServiceCIDR.
type serviceCIDR struct {
	head
	// cidrs is empty once it is being deleted. Services with addresses in it are served as before, but its other addresses are not dropped
	// any more: they may belong to others by then.
	cidrs []netip.Prefix
}

// same reports whether two ServiceCIDRs contribute the same ranges; nil is one that does not exist.
func (c *serviceCIDR) same(o *serviceCIDR) bool { return slices.Equal(c.ranges(), o.ranges()) }

func (c *serviceCIDR) ranges() []netip.Prefix {
	if c == nil {
		return nil
	}
	return c.cidrs
}

func convertServiceCIDR(in *networkingv1.ServiceCIDR) (*serviceCIDR, junk) {
	return newServiceCIDR(in, in.Spec.CIDRs)
}

// convertBetaServiceCIDR is convertServiceCIDR for Kubernetes 1.31 and 1.32.
func convertBetaServiceCIDR(in *networkingv1beta1.ServiceCIDR) (*serviceCIDR, junk) {
	return newServiceCIDR(in, in.Spec.CIDRs)
}

func newServiceCIDR(in metav1.Object, cidrs []string) (*serviceCIDR, junk) {
	var j junk
	out := &serviceCIDR{head: headOf(in)}
	if in.GetDeletionTimestamp() == nil {
		out.cidrs = parsePrefixes("cidr", cidrs, &j)
	}
	return out, j
}

// rangesOf are the ranges of several ServiceCIDRs, sorted and each once. It is never nil.
func rangesOf(all []*serviceCIDR) []netip.Prefix {
	out := []netip.Prefix{}
	for _, c := range all {
		out = append(out, c.cidrs...)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}
