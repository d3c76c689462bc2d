package admission

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Only a trial that is marked, and needs no address, is answered; nothing is in flight afterwards.
func TestProbe(t *testing.T) {
	marked := func(ips ...string) *corev1.Service {
		s := corev1Service("probe", ips...)
		s.Annotations = map[string]string{v1alpha1.AnnotationProbe: ""}
		return s
	}
	for name, tc := range map[string]struct {
		service  *corev1.Service
		isDryRun bool
		answered bool
	}{
		"a probe":            {marked(corev1.ClusterIPNone), true, true},
		"a Service":          {marked(corev1.ClusterIPNone), false, false},
		"a trial":            {corev1Service("a", corev1.ClusterIPNone), true, false},
		"it wants addresses": {marked(), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, blue(nil))
			c.steerer.Probe = &Probe{Replica: "manager-1", Version: "v1.2.3"}
			asked := time.Now().UTC().Truncate(time.Second)
			r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "ns", Object: rawOf(t, tc.service), DryRun: &tc.isDryRun}}
			response := c.steerer.Handle(t.Context(), r)
			if !response.Allowed || (len(response.Warnings) == 1) != tc.answered {
				t.Fatalf("the answer is %+v", response)
			}
			if !tc.answered {
				return
			}
			got, ok := ParseReached(response.Warnings[0])
			if !ok || got.Since.Before(asked) || got.Since.After(time.Now()) {
				t.Errorf("%q says %+v", response.Warnings[0], got)
			}
			got.Since = time.Time{}
			if diff := cmp.Diff(Reached{Replica: "manager-1", Version: "v1.2.3"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := c.steerer.Index.InFlight(); n > 0 {
				t.Errorf("%d addresses are in flight", n)
			}
		})
	}
}
