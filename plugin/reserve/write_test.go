package reserve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// TestApply writes one policy that is as it should be, one that is not, and one that is missing.
func TestApply(t *testing.T) {
	resource := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "servicecidrpolicies"}
	for name, tc := range map[string]struct {
		dryRun bool
		answer error // to the change
		want   string
	}{
		"all go": {want: "services unchanged, services-2 configured, services-3 created; patch of 7, create"},
		"tried":  {dryRun: true, want: "services unchanged (server dry run), services-2 configured (server dry run), services-3 created (server dry run); patch of 7 [All], create [All]"},
		"another client was faster": {
			answer: apierrors.NewConflict(resource, "services-2", errors.New("changed")),
			want:   "services unchanged; patch of 7; writing ServiceCIDRPolicy services-2: another client has changed it since it was read; run it again",
		},
		"no right to it": {
			answer: apierrors.NewForbidden(resource, "services-2", errors.New("who?")),
			want:   "services unchanged; patch of 7; writing ServiceCIDRPolicy services-2: servicecidrpolicies.clusterip-operator.io \"services-2\" is forbidden: who?",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := []v1alpha1.ServiceCIDRPolicy{reserving("services", "services", "10.96.0.9 for a/b"), reserving("services-2", "services", "10.96.0.10 for a/b")}
			before[1].ResourceVersion = "7"
			changed, missing := before[1].DeepCopy(), reserving("services-3", "services", "10.96.0.11 for a/b")
			changed.Spec.Reservations = nil
			var asked []string
			tried := func(all []string) string { return strings.TrimSuffix(fmt.Sprint(" ", all), " []") }
			s := interceptor.NewClient(nil, interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.CreateOption) error {
					asked = append(asked, "create"+tried((&client.CreateOptions{}).ApplyOptions(options).DryRun))
					return nil
				},
				Patch: func(_ context.Context, _ client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
					text, err := patch.Data(o)
					if err != nil || !strings.Contains(string(text), `"resourceVersion":"7"`) {
						t.Errorf("the patch is %s, error %v", text, err)
					}
					asked = append(asked, "patch of 7"+tried((&client.PatchOptions{}).ApplyOptions(options).DryRun))
					return tc.answer
				},
			})
			p := &plugintest.Printed{}
			err := apply(t.Context(), &cli.Session{Streams: p.Streams()}, s, before, []*v1alpha1.ServiceCIDRPolicy{&before[0], changed, &missing}, tc.dryRun)
			said := strings.ReplaceAll(strings.TrimSpace(p.Out.String()), "servicecidrpolicy.clusterip-operator.io/", "")
			got := strings.ReplaceAll(said, "\n", ", ") + "; " + strings.Join(asked, ", ")
			if err != nil {
				got += "; " + err.Error()
			}
			if got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}
