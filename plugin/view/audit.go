package view

import (
	"cmp"
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
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
)

// Drift is what is wrong between Services, IPAddresses and ServiceCIDRs: the findings of the
// controllers, made by the functions by which they decide.
type Drift struct {
	Addresses []ipaddress.Finding
	Services  []service.Finding
}

// types are those of the findings, as the metric clusterip_operator_drift has them.
func (d Drift) types() (all []string) {
	for _, f := range d.Addresses {
		all = append(all, f.Drift)
	}
	for _, f := range d.Services {
		all = append(all, f.Drift)
	}
	return all
}

// confirmAfter is how long drift has to last: watches bring objects in another order than written.
const confirmAfter = 2 * time.Second

// Audit looks at every address and Service. It checks what it finds again after a while, at the API
// server itself, so that a burst of creations is no drift.
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

// suspectedAddresses are those with which something seems to be wrong, in order.
func (v *View) suspectedAddresses(ctx context.Context) ([]netip.Addr, error) {
	r := v.repairer()
	return forEach(ctx, v.index.Known(), func(ctx context.Context, a netip.Addr) (netip.Addr, bool, error) {
		f, err := r.Judge(ctx, a, v.cache)
		return a, f != nil, err
	})
}

// forEach asks about all addresses, of which there may be a hundred thousand, on all processors,
// and keeps in order what is answered with true.
func forEach[T any](ctx context.Context, all []netip.Addr, ask func(context.Context, netip.Addr) (T, bool, error)) ([]T, error) {
	parts := slices.Collect(slices.Chunk(all, max(1, (len(all)+runtime.NumCPU()-1)/runtime.NumCPU())))
	found := make([][]T, len(parts))
	workers, ctx := errgroup.WithContext(ctx)
	for i, part := range parts {
		workers.Go(func() error {
			for _, a := range part {
				one, keep, err := ask(ctx, a)
				if err != nil {
					return err
				}
				if keep {
					found[i] = append(found[i], one)
				}
			}
			return nil
		})
	}
	err := workers.Wait()
	return slices.Concat(found...), err
}

// driftOf is what seems to be wrong with an address, by the functions of Audit, which looks twice.
func (v *View) driftOf(ctx context.Context, a netip.Addr) (out Drift, err error) {
	f, err := v.repairer().Judge(ctx, a, v.cache)
	if f != nil {
		out.Addresses = []ipaddress.Finding{*f}
	}
	if err != nil {
		return out, err
	}
	for _, name := range v.index.Claims(a) {
		s, err := objects.Get(ctx, v.cache, name, &corev1.Service{})
		if err != nil {
			return out, err
		}
		if s == nil {
			continue
		}
		for _, f := range service.Judge(s, v.offered) {
			if text, ok := addressindex.ParseClusterIP(f.Text); ok && text == a {
				out.Services = append(out.Services, f)
			}
		}
	}
	return out, nil
}

// suspectedServices are those with an address that is out of every range, or none.
func (v *View) suspectedServices(ctx context.Context) (out []client.ObjectKey, err error) {
	err = v.EachService(ctx, func(s *corev1.Service) error {
		if len(service.Judge(s, v.offered)) > 0 {
			out = append(out, client.ObjectKeyFromObject(s))
		}
		return nil
	})
	slices.SortFunc(out, func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) })
	return out, err
}

// offered reports whether some ServiceCIDR has an address. Where the bitmap allocates and the
// default ServiceCIDR does not exist, the ranges are not known.
func (v *View) offered(a netip.Addr) bool {
	return len(v.index.Covering(a)) > 0 || v.bitmap && !v.policies.Current().Knows(v1alpha1.DefaultServiceCIDR)
}

// Repair does what a finding of Audit says if the API server still shows the same. now is what it
// shows instead, nil if all is well.
func (v *View) Repair(ctx context.Context, f ipaddress.Finding, dryRun bool) (now *ipaddress.Finding, done bool, err error) {
	return v.repairer().Repair(ctx, f, dryRun)
}

func (v *View) repairer() *ipaddress.Reconciler {
	return &ipaddress.Reconciler{Cluster: loop.Cluster{Client: v.live, Live: v.live, Index: v.index, Clock: clock.RealClock{}}, Bitmap: v.bitmap}
}
