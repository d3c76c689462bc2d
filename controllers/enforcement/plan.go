package enforcement

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	manifest "github.com/clusterip-operator/clusterip-operator/config/enforcement"
)

// room is how many bytes the data of the ConfigMap may have: more the API server does not take.
const room = corev1.MaxSecretSize

// shipped is the ValidatingAdmissionPolicy that the data of this version are for.
var shipped = func() (p admissionregistrationv1.ValidatingAdmissionPolicy) {
	if err := yaml.UnmarshalStrict(manifest.Policy, &p); err != nil {
		panic(err) // the text is constant
	}
	return p
}()

// found are the three objects as they are in the cluster; nil for each that is not there.
type found struct {
	policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	data    *corev1.ConfigMap
}

// policyState says how the ValidatingAdmissionPolicy is, which admins write, not the operator.
type policyState int

const (
	policyMissing policyState = iota
	// policyDiffers: it is that of another version, or an admin has changed it.
	policyDiffers
	policyShipped
)

// installed says how the ValidatingAdmissionPolicy is, which only an admin may write.
func (f found) installed() policyState {
	switch {
	case f.policy == nil:
		return policyMissing
	case !equality.Semantic.DeepEqual(f.policy.Spec, shipped.Spec):
		return policyDiffers
	default:
		return policyShipped
	}
}

// write is one of those that bring the objects to where they should be.
type write int

const (
	writeData write = iota
	writeBinding
	deleteBinding
	deleteData
)

// plan returns the writes that are due, in their order: the data are there before the binding, and
// go after it. data is what the ConfigMap should have, nil where no policy wants the API server to
// enforce. A binding is written beside the policy of this version alone: with another the API
// server might refuse all Services, and the operator may not bind one that is not there.
func plan(f found, data map[string]string, namespace string) (due []write) {
	if data == nil {
		if f.binding != nil {
			due = append(due, deleteBinding)
		}
		if f.data != nil {
			due = append(due, deleteData)
		}
		return due
	}
	if f.data == nil || !contains(f.data.Data, data) {
		due = append(due, writeData)
	}
	if f.installed() != policyShipped {
		return due
	}
	switch {
	case f.binding == nil:
		return append(due, writeBinding)
	case !equality.Semantic.DeepEqual(f.binding.Spec, bindingSpec(namespace)) || len(f.binding.OwnerReferences) > 0:
		// An apply leaves what another user has added, which may narrow the binding.
		return append(due, deleteBinding, writeBinding)
	default:
		return due
	}
}

// contains reports whether a map has everything of another one. Keys that another writer added to
// the ConfigMap, which an apply leaves there, no expression looks up: it goes by our lengths.
func contains(has, all map[string]string) bool {
	for key, value := range all {
		if got, ok := has[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// bindingSpec is what the binding should be. Without the ConfigMap nothing is closed: otherwise the
// deletion of a namespace would be an outage of the cluster.
func bindingSpec(namespace string) admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec {
	return admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName:        v1alpha1.ExclusiveName,
		ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		ParamRef: &admissionregistrationv1.ParamRef{
			Name: v1alpha1.ExclusiveName, Namespace: namespace, ParameterNotFoundAction: new(admissionregistrationv1.AllowAction),
		},
	}
}
