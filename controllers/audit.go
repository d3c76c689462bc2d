package controllers

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/ipaddress"
	"github.com/clusterip-operator/clusterip-operator/controllers/service"
)

// Drift is what is wrong between Services, IPAddresses and ServiceCIDRs: the findings of the controllers, made by the functions by which they decide.
type Drift struct {
	Addresses []ipaddress.Finding
	Services  []service.Finding
}

// confirmAfter is how long drift has to last. Watches bring objects in another order than they were written.
const confirmAfter = 2 * time.Second

// Audit looks at every address and Service. What it finds it looks at once more after a while, at the API server itself, so that a burst of creations is no drift.
func (v *View) Audit(ctx context.Context) (Drift, error) {
	suspects, err := v.suspectedAddresses(ctx)
	if err != nil {
		return Drift{}, err
	}
	services, err := v.suspectedServices(ctx)
	if err != nil || len(suspects)+len(services) == 0 {
		return Drift{}, err
	}
	select {
	case <-ctx.Done():
		return Drift{}, ctx.Err()
	case <-time.After(confirmAfter):
	}
	return v.confirm(ctx, suspects, services)
}

func (v *View) confirm(ctx context.Context, suspects []netip.Addr, services []client.ObjectKey) (out Drift, err error) {
	r := v.repairer()
	for _, a := range suspects {
		f, err := r.Judge(ctx, a, v.live)
		if err != nil {
			return out, err
		}
		if f != nil {
			out.Addresses = append(out.Addresses, *f)
		}
	}
	for _, name := range services {
		s := &corev1.Service{}
		if err := v.live.Get(ctx, name, s); client.IgnoreNotFound(err) != nil {
			return out, err
		}
		out.Services = append(out.Services, service.Judge(s, v.offered)...)
	}
	return out, nil
}

// suspectedAddresses are those with which something seems to be wrong, in order. All processors look for them: there may be a hundred thousand.
func (v *View) suspectedAddresses(ctx context.Context) ([]netip.Addr, error) {
	all, r := v.index.Known(), v.repairer()
	parts := slices.Collect(slices.Chunk(all, max(1, (len(all)+runtime.NumCPU()-1)/runtime.NumCPU())))
	found := make([][]netip.Addr, len(parts))
	workers, ctx := errgroup.WithContext(ctx)
	for i, part := range parts {
		workers.Go(func() error {
			for _, a := range part {
				f, err := r.Judge(ctx, a, v.cache)
				if err != nil {
					return err
				}
				if f != nil {
					found[i] = append(found[i], a)
				}
			}
			return nil
		})
	}
	err := workers.Wait()
	return slices.Concat(found...), err
}

// suspectedServices are those with an address that is out of every range, or none.
func (v *View) suspectedServices(ctx context.Context) (out []client.ObjectKey, err error) {
	list := &corev1.ServiceList{}
	if err := v.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if len(service.Judge(&list.Items[i], v.offered)) > 0 {
			out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return out, nil
}

// offered reports whether some ServiceCIDR has an address. Where the bitmap allocates and nobody has written the default ServiceCIDR, the ranges are not known.
func (v *View) offered(a netip.Addr) bool {
	return len(v.index.Covering(a)) > 0 || v.bitmap && !v.policies.Current().Knows(v1alpha1.DefaultServiceCIDR)
}

// Repair does what a finding of Audit says, if the API server still shows the same. now is what it shows instead, nil if nothing is wrong any more.
func (v *View) Repair(ctx context.Context, f ipaddress.Finding, dryRun bool) (now *ipaddress.Finding, done bool, err error) {
	return v.repairer().Repair(ctx, f, dryRun)
}

func (v *View) repairer() *ipaddress.Reconciler {
	return &ipaddress.Reconciler{Client: v.live, Live: v.live, Index: v.index, Clock: clock.RealClock{}, Bitmap: v.bitmap}
}
