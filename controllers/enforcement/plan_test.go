package enforcement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	policy := func(change func(*admissionregistrationv1.ValidatingAdmissionPolicy)) *admissionregistrationv1.ValidatingAdmissionPolicy {
		p := shipped.DeepCopy()
		change(p)
		return p
	}
	ours := policy(func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { p.Labels = map[string]string{"a": "b"} })
	older := policy(func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { p.Spec.ParamKind.Kind = "ExclusiveRanges" })
	opened := policy(func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { p.Spec.Validations[1].Expression = "true" })
	bound := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{Spec: bindingSpec("home")}
	elsewhere := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{Spec: bindingSpec("other")}
	owned := bound.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "ExclusiveRanges"}}
	want := map[string]string{"ipv4": "24"}
	data := func(more string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{"ipv4": "24" + more}}
	}
	for name, tc := range map[string]struct {
		found found
		data  map[string]string
		want  []write
	}{
		"nothing is wanted, and nothing there":         {found{policy: ours}, nil, nil},
		"nothing is wanted":                            {found{ours, bound, data("")}, nil, []write{deleteBinding, deleteData}},
		"nothing is wanted, and the policy is gone":    {found{nil, bound, nil}, nil, []write{deleteBinding}},
		"nothing is there":                             {found{policy: ours}, want, []write{writeData, writeBinding}},
		"all is there":                                 {found{ours, bound, data("")}, want, nil},
		"the data are others":                          {found{ours, bound, data(" 16")}, want, []write{writeData}},
		"somebody has added to the data":               {found{ours, bound, &corev1.ConfigMap{Data: map[string]string{"ipv4": "24", "more": "x"}}}, want, nil},
		"the data are gone":                            {found{ours, bound, nil}, want, []write{writeData}},
		"the binding is gone":                          {found{ours, nil, data("")}, want, []write{writeBinding}},
		"the binding leads elsewhere":                  {found{ours, elsewhere, data("")}, want, []write{deleteBinding, writeBinding}},
		"the binding goes with an object that may go":  {found{ours, owned, data("")}, want, []write{deleteBinding, writeBinding}},
		"the policy is missing, which cannot be bound": {found{}, want, []write{writeData}},
		"the policy is of another version":             {found{older, nil, nil}, want, []write{writeData}},
		"somebody has changed the policy":              {found{opened, elsewhere, data("")}, want, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, plan(tc.found, tc.data, "home")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
