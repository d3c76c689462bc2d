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
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// ErrNotServed is returned by [Source.Run] with [model.Enforce] where the API server has no IPAddresses.
var ErrNotServed = errors.New("the API server serves networking.k8s.io IPAddress and ServiceCIDR neither as v1 nor as v1beta1, and " +
	"without IPAddresses nothing may be served: use Kubernetes 1.33 or later, or allocations prefer or ignore")

const (
	// lookAgain is how long an API that is not served stays unasked for. A control plane may be upgraded to a version that has it.
	lookAgain = time.Minute
	// settleDown is the pause after an API went away, in which API servers of several versions may come to agree.
	settleDown = 3 * time.Second
)

// networkingVersions are the versions of ServiceCIDR and IPAddress that we know, best first.
var networkingVersions = []string{networkingv1.SchemeGroupVersion.Version, networkingv1beta1.SchemeGroupVersion.Version}

// view is a kind whose informer may come late and may be replaced. What it shows was listed completely at least once.
type view[T object] struct {
	current atomic.Pointer[informer[T]]
	// settled is closed when something is shown, or when it is certain that there is nothing to show.
	settled chan struct{}
	settle  func()
}

func newView[T object]() *view[T] {
	settled := make(chan struct{})
	return &view[T]{settled: settled, settle: sync.OnceFunc(func() { close(settled) })}
}

// show puts an informer in the place of the one before, and returns the keys of both: what is in one of them may have changed.
func (v *view[T]) show(i *informer[T]) []string {
	before := v.current.Swap(i)
	keys := i.shared.GetStore().ListKeys()
	if before != nil {
		keys = append(keys, before.shared.GetStore().ListKeys()...)
	}
	return keys
}

// get is [informer.get] of what is shown.
func (v *view[T]) get(key string) (T, bool) {
	if i := v.current.Load(); i != nil {
		return i.get(key)
	}
	var none T
	return none, false
}

// followNetworking follows ServiceCIDRs and IPAddresses in the version that the API server has, also when that changes while the agent
// runs, until ctx ends. Where the API goes away what was known stays: an outage of an API is no reason for one of Services.
func (s *Source) followNetworking(ctx context.Context) error {
	for {
		version, err := s.discover(ctx)
		if err != nil {
			return nil // ctx ended
		}
		pause := settleDown
		if version == "" {
			if err := s.withoutNetworking(); err != nil {
				return err
			}
			pause = lookAgain
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

// discover asks until the API server answers, or ctx ends. It returns the version that serves both kinds, empty for none.
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

// discoveryPauses are the pauses between two attempts. The longest, 7.5 s with the jitter, stays below networkingPatience: an API server that
// is back is not to pass for one without IPAddresses because nobody asked it.
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
	s.addresses.settle()
	s.cidrs.settle()
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
		return newInformer(kind[*networkingv1beta1.IPAddress, *allocation]{
			name:    "IPAddress",
			objects: listWatch(s.client, s.client.NetworkingV1beta1().IPAddresses(), "", ""),
			example: &networkingv1beta1.IPAddress{},
			convert: convertBetaIPAddress,
			changed: s.addressChanged,
			failed:  gone,
			resync:  s.options.Resync,
		}, s.reports)
	}
	return newInformer(kind[*networkingv1.IPAddress, *allocation]{
		name:    "IPAddress",
		objects: listWatch(s.client, s.client.NetworkingV1().IPAddresses(), "", ""),
		example: &networkingv1.IPAddress{},
		convert: convertIPAddress,
		changed: s.addressChanged,
		failed:  gone,
		resync:  s.options.Resync,
	}, s.reports)
}

func (s *Source) cidrInformer(version string, gone func(error)) (*informer[*serviceCIDR], error) {
	if version == networkingv1beta1.SchemeGroupVersion.Version {
		return newInformer(kind[*networkingv1beta1.ServiceCIDR, *serviceCIDR]{
			name:    "ServiceCIDR",
			objects: listWatch(s.client, s.client.NetworkingV1beta1().ServiceCIDRs(), "", ""),
			example: &networkingv1beta1.ServiceCIDR{},
			convert: convertBetaServiceCIDR,
			changed: s.cidrChanged,
			failed:  gone,
			resync:  s.options.Resync,
		}, s.reports)
	}
	return newInformer(kind[*networkingv1.ServiceCIDR, *serviceCIDR]{
		name:    "ServiceCIDR",
		objects: listWatch(s.client, s.client.NetworkingV1().ServiceCIDRs(), "", ""),
		example: &networkingv1.ServiceCIDR{},
		convert: convertServiceCIDR,
		changed: s.cidrChanged,
		failed:  gone,
		resync:  s.options.Resync,
	}, s.reports)
}

// showAddresses waits for the first list and shows it as a whole. Event by event, addresses whose objects have not come yet would look
// as if nobody had them.
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
	s.addresses.settle()
	s.sayLate("IPAddress")
}

// showCIDRs is showAddresses for ServiceCIDRs.
func (s *Source) showCIDRs(ctx context.Context, i *informer[*serviceCIDR]) {
	if !closed(ctx, i.synced) {
		return
	}
	s.cidrs.show(i)
	s.pending.mark(func(b *batch) { b.ranges = true })
	s.cidrs.settle()
	s.sayLate("ServiceCIDR")
}

// addressChanged leaves out what is not shown yet; showing it marks everything.
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
