package renumber

import (
	"context"
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
