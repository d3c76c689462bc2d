package check

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// An API server makes again what is deleted, so that no cluster shows these for long.
func TestLookAtDefaults(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	gone, forbidden, broken := apierrors.NewNotFound(services, "kubernetes"), apierrors.NewForbidden(services, "kubernetes", errors.New("no role")), errors.New("connection refused")
	four, six := []networkingv1.ServiceCIDR{*plugintest.ServiceCIDR("other", "10.0.0.0/24"), *plugintest.ServiceCIDR("kubernetes", "10.96.0.0/16")}, []networkingv1.ServiceCIDR{*plugintest.ServiceCIDR("kubernetes", "fd00::/112")}
	for name, tc := range map[string]struct {
		ranges  []networkingv1.ServiceCIDR
		bitmap  bool
		service error
		want    Defaults
		wantErr string
	}{
		"both are there":                   {four, false, nil, Defaults{First: netip.MustParseAddr("10.96.0.1")}, ""},
		"both, of IPv6":                    {six, false, nil, Defaults{First: netip.MustParseAddr("fd00::1")}, ""},
		"the range is gone":                {four[:1], false, nil, Defaults{WithoutRange: true}, ""},
		"both are gone":                    {nil, false, gone, Defaults{WithoutRange: true, WithoutService: true}, ""},
		"the Service is gone":              {four, false, gone, Defaults{WithoutService: true, First: netip.MustParseAddr("10.96.0.1")}, ""},
		"the Service is gone, of IPv6":     {six, false, gone, Defaults{WithoutService: true, First: netip.MustParseAddr("fd00::1")}, ""},
		"a bitmap has no ServiceCIDR":      {nil, true, nil, Defaults{}, ""},
		"the Service is gone, of a bitmap": {nil, true, gone, Defaults{WithoutService: true}, ""},
		"the user may not read the Service": {four, false, forbidden,
			Defaults{First: netip.MustParseAddr("10.96.0.1"), Unknown: []Unknown{{"the user may not get Service default/kubernetes", []string{"APIServiceMissing"}}}}, ""},
		"the API server is away": {four, false, broken, Defaults{}, "reading Service default/kubernetes: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			r := interceptor.NewClient(nil, interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				if key.String() != "default/kubernetes" {
					t.Errorf("it reads %s", key)
				}
				return tc.service
			}})
			got, err := LookAtDefaults(t.Context(), r, tc.ranges, tc.bitmap)
			if tc.wantErr != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
