package renumber

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// An API server that is overloaded for a moment ends no run, and keeps nothing that is given up.
func TestDeletingWaitsForTheAPIServer(t *testing.T) {
	for name, do := range map[string]func(context.Context, Mover, netip.Addr) error{
		"held": func(ctx context.Context, m Mover, a netip.Addr) error { return m.unhold(ctx, web, a) },
		"left behind": func(ctx context.Context, m Mover, a netip.Addr) error {
			_, err := m.sweep(ctx, web, []netip.Addr{a}, true)
			return err
		},
	} {
		for _, a := range []netip.Addr{four, six} {
			t.Run(name+" "+a.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ip := upstream.NewIPAddress(a, web.Key())
					if name == "held" {
						ip.Labels[networkingv1.LabelManagedBy], ip.Finalizers = v1alpha1.ManagedByOperator, []string{v1alpha1.FinalizerFormer}
					}
					asked := 0
					m := Mover{Client: fake.NewClientBuilder().WithObjects(ip).WithInterceptorFuncs(interceptor.Funcs{
						Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
							if asked++; asked < 3 {
								return apierrors.NewTooManyRequests("later", 1)
							}
							return c.Delete(ctx, o, options...)
						},
					}).Build()}
					if err := do(t.Context(), m, a); err != nil || asked != 3 {
						t.Errorf("asked %d times: %v", asked, err)
					}
					if left, err := m.ipAddress(t.Context(), a); left != nil || err != nil {
						t.Errorf("it is still there: %v, %v", left, err)
					}
				})
			})
		}
	}
}

// A run that dies between its writes leaves what the next one finds.
func TestUnholdGoesOnAfterAKill(t *testing.T) {
	for _, a := range []netip.Addr{four, six} {
		ip := upstream.NewIPAddress(a, web.Key())
		ip.Labels[networkingv1.LabelManagedBy], ip.Finalizers = v1alpha1.ManagedByOperator, []string{v1alpha1.FinalizerFormer}
		ctx, kill := context.WithCancel(t.Context())
		dying := func(ctx context.Context, write func() error) error {
			defer kill()
			if err := ctx.Err(); err != nil {
				return err
			}
			return write()
		}
		m := Mover{Client: fake.NewClientBuilder().WithObjects(ip).WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				return dying(ctx, func() error { return c.Delete(ctx, o, options...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				return dying(ctx, func() error { return c.Patch(ctx, o, p, options...) })
			},
		}).Build()}
		if err := m.unhold(ctx, web, a); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: it does not die: %v", a, err)
		}
		if err := m.unhold(t.Context(), web, a); err != nil {
			t.Errorf("%s: the next run: %v", a, err)
		}
		if left, err := m.ipAddress(t.Context(), a); left != nil || err != nil {
			t.Errorf("%s: it is still there: %v, %v", a, left, err)
		}
	}
}
