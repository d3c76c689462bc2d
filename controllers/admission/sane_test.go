package admission

import (
	_ "embed"
	"encoding/json"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

//go:embed testdata/shapes.yaml
var shapesText []byte

// shape is a row of testdata/shapes.yaml.
type shape struct {
	Name, Verdict, Why string
	Service, Old       json.RawMessage
}

func shapes(t testing.TB) (all []shape) {
	t.Helper()
	if err := yaml.UnmarshalStrict(shapesText, &all); err != nil || len(all) < 50 {
		t.Fatal(len(all), err)
	}
	return all
}

// request is what an API server asks about a shape.
func (s shape) request() admission.Request {
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "ns", Object: runtime.RawExtension{Raw: s.Service},
	}}
	if s.Old != nil {
		r.Operation, r.OldObject.Raw = admissionv1.Update, s.Old
	}
	return r
}

// What is insane has no effect, and passes; everything else is decided on. What a real API server
// makes of the same shapes stands in controllers/shapes_test.go.
func TestInsane(t *testing.T) {
	c := newCluster(t, setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.96.0.0/16", "fd00:10:96::/112")}})
	for _, row := range shapes(t) {
		r, err := decode(row.request())
		if err != nil {
			t.Fatalf("%s: %v", row.Name, err)
		}
		if why := r.malformed; why != row.Why || (why != "") != (row.Verdict == "insane") {
			t.Errorf("%s: insane says %q, want %q", row.Name, why, row.Why)
		}
		response, result := c.steerer.answer(t.Context(), row.request())
		switch row.Verdict {
		case "insane":
			if !response.Allowed || result != malformed || len(response.Patches) > 0 || c.steerer.Index.InFlight() > 0 {
				t.Errorf("%s: %s %+v, %d addresses are in flight", row.Name, result, response, c.steerer.Index.InFlight())
			}
		case "denied":
			if response.Allowed || c.steerer.Index.InFlight() > 0 {
				t.Errorf("%s: %s %+v, %d addresses are in flight", row.Name, result, response, c.steerer.Index.InFlight())
			}
		default:
			if !response.Allowed || result == malformed {
				t.Errorf("%s: %s %+v", row.Name, result, response)
			}
		}
		c.giveBack(r, response)
		if n := c.steerer.Index.InFlight(); n > 0 {
			t.Fatalf("%s: %d addresses are in flight that nobody has", row.Name, n)
		}
	}
}

// giveBack ends the flight of the addresses that a request names, and of those that it was given.
func (c *cluster) giveBack(r request, response admission.Response) {
	all := slices.Clone(r.service.ips())
	if len(response.Patches) > 0 {
		for _, text := range response.Patches[0].Value.([]string) {
			all = append(all, clusterIPOf(text))
		}
	}
	for _, ip := range all {
		c.steerer.Index.Forget(ip.address, addressindex.Holder{Service: r.service.key(), Review: r.review})
	}
}
