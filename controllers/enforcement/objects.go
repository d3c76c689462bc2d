package enforcement

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	acadmission "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// room is how many bytes the ExclusiveRanges may have, roughly. etcd takes 1.5 MiB.
const room = 1 << 20

// Objects are the resources of the objects, all of the name v1alpha1.ExclusiveRangesName, in the order in which they are deleted: without its binding a policy is
// not evaluated.
func Objects() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"),
		admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"),
		v1alpha1.GroupVersion.WithResource("exclusiveranges"),
	}
}

// kinds are the kinds of the same objects.
func kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
		v1alpha1.GroupVersion.WithKind("ExclusiveRanges"),
	}
}

// matchConditions say which requests need a look at the ranges. An update that leaves the addresses as they are is none, so that a Service which has a closed
// address already can still be changed. The API server creates Service default/kubernetes for itself.
var matchConditions = []*acadmission.MatchConditionApplyConfiguration{
	acadmission.MatchCondition().WithName("has-addresses").
		WithExpression(`object.spec.?clusterIPs.orValue([]).exists(a, a != "" && a != "None")`),
	acadmission.MatchCondition().WithName("has-other-addresses-than-before").
		WithExpression(`oldObject == null || object.spec.clusterIPs != oldObject.spec.?clusterIPs.orValue([])`),
	acadmission.MatchCondition().WithName("not-the-service-of-the-api-server").
		WithExpression(`!(object.metadata.name == "kubernetes" && object.metadata.namespace == "default")`),
}

// variables are evaluated when they are first used. Of the ranges that an address lies in, the one with the longest prefix decides; cidr(a/l).masked() is the
// only one of length l that it can lie in.
var variables = []*acadmission.VariableApplyConfiguration{
	acadmission.Variable().WithName("before").
		WithExpression(`oldObject == null ? [] : oldObject.spec.?clusterIPs.orValue([])`),
	acadmission.Variable().WithName("gained").
		WithExpression(`object.spec.clusterIPs.filter(a, a != "" && a != "None" && !(a in variables.before))`),
	acadmission.Variable().WithName("ranges").
		WithExpression(`variables.gained.filter(a, isIP(a)).map(a, (ip(a).family() == 4 ? params.spec.ipv4Lengths : params.spec.ipv6Lengths).
			map(l, string(cidr(a + "/" + string(l)).masked())).filter(r, r in params.spec.ranges)).filter(rs, rs.size() > 0).map(rs, rs[0])`),
	acadmission.Variable().WithName("namespaceLabels").
		WithExpression(`namespaceObject.metadata.?labels.orValue({})`),
	acadmission.Variable().WithName("labels").
		WithExpression(`object.metadata.?labels.orValue({})`),
	acadmission.Variable().WithName("closed").
		WithExpression(fmt.Sprintf(`variables.ranges.filter(r, !(params.spec.ranges[r].?open.orValue(false) ||
			params.spec.ranges[r].?service.orValue("") == object.metadata.namespace + "/" + object.metadata.name ||
			params.spec.ranges[r].?selectors.orValue([]).exists(i, %s && %s)))`,
			fulfils("params.spec.selectors[i].namespace", "variables.namespaceLabels"), fulfils("params.spec.selectors[i].service", "variables.labels"))),
}

// fulfils is the expression that labels fulfil a list of LabelSelectorRequirements. Both are expressions of ours.
func fulfils(requirements, labels string) string {
	return fmt.Sprintf(`%[1]s.all(q, q.operator == "In" ? q.key in %[2]s && %[2]s[q.key] in q.values :
		q.operator == "NotIn" ? !(q.key in %[2]s && %[2]s[q.key] in q.values) : (q.operator == "Exists") == (q.key in %[2]s))`, requirements, labels)
}

var validations = []*acadmission.ValidationApplyConfiguration{
	acadmission.Validation().WithExpression(`variables.gained.all(a, isIP(a))`).
		WithMessage("write addresses in spec.clusterIPs in their usual form, without leading zeros; whether others may have them cannot be told otherwise"),
	acadmission.Validation().WithExpression(`variables.closed.size() == 0`).
		WithMessageExpression(`"ServiceCIDRPolicy \"" + params.spec.ranges[variables.closed[0]].policy + "\": the address that was chosen, or that the API server drew, lies in " +
			variables.closed[0] + ", which this policy keeps for others; leave the choice to the cluster, and create the Service again"`),
}

// admissionPolicy is the ValidatingAdmissionPolicy. It has nothing of users in it.
func admissionPolicy(owner *metav1ac.OwnerReferenceApplyConfiguration) *acadmission.ValidatingAdmissionPolicyApplyConfiguration {
	services := acadmission.NamedRuleWithOperations().WithAPIGroups("").WithAPIVersions("v1").WithResources("services").
		WithOperations(admissionregistrationv1.Create, admissionregistrationv1.Update)
	return acadmission.ValidatingAdmissionPolicy(v1alpha1.ExclusiveRangesName).WithOwnerReferences(owner).
		WithSpec(acadmission.ValidatingAdmissionPolicySpec().
			WithFailurePolicy(admissionregistrationv1.Fail).
			WithParamKind(acadmission.ParamKind().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("ExclusiveRanges")).
			WithMatchConstraints(acadmission.MatchResources().WithResourceRules(services)).
			WithMatchConditions(matchConditions...).WithVariables(variables...).WithValidations(validations...))
}

// binding is the ValidatingAdmissionPolicyBinding. Without the ExclusiveRanges nothing is closed: somebody has deleted them, and the binding goes too.
func binding(owner *metav1ac.OwnerReferenceApplyConfiguration) *acadmission.ValidatingAdmissionPolicyBindingApplyConfiguration {
	return acadmission.ValidatingAdmissionPolicyBinding(v1alpha1.ExclusiveRangesName).WithOwnerReferences(owner).
		WithSpec(acadmission.ValidatingAdmissionPolicyBindingSpec().
			WithPolicyName(v1alpha1.ExclusiveRangesName).
			WithValidationActions(admissionregistrationv1.Deny).
			WithParamRef(acadmission.ParamRef().WithName(v1alpha1.ExclusiveRangesName).WithParameterNotFoundAction(admissionregistrationv1.AllowAction)))
}

// install writes the objects: first what is looked up, last what has it looked up.
func install(ctx context.Context, c client.Client, spec v1alpha1.ExclusiveRangesSpec) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return fmt.Errorf("converting ExclusiveRanges: %w", err)
	}
	ranges := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ExclusiveRanges", "metadata": map[string]any{"name": v1alpha1.ExclusiveRangesName}, "spec": content,
	}}
	options := []client.ApplyOption{client.FieldOwner(v1alpha1.ManagerEnforcement), client.ForceOwnership}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(ranges), options...); err != nil {
		return fmt.Errorf("writing the ExclusiveRanges: %w", err)
	}
	owner := metav1ac.OwnerReference().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("ExclusiveRanges").
		WithName(v1alpha1.ExclusiveRangesName).WithUID(ranges.GetUID())
	if err := c.Apply(ctx, admissionPolicy(owner), options...); err != nil {
		return fmt.Errorf("writing the ValidatingAdmissionPolicy: %w", err)
	}
	if err := c.Apply(ctx, binding(owner), options...); err != nil {
		return fmt.Errorf("writing the ValidatingAdmissionPolicyBinding: %w", err)
	}
	return nil
}

// uninstall deletes the objects, as far as they are there.
func uninstall(ctx context.Context, c client.Client) error {
	for _, kind := range kinds() {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExclusiveRangesName}}
		o.SetGroupVersionKind(kind)
		if err := c.Delete(ctx, o); err != nil && !notServed(err) {
			return fmt.Errorf("deleting the %s: %w", kind.Kind, err)
		}
	}
	return nil
}

// notServed reports whether an error says that the API server does not know a kind: it never did, or does not any more. An apply finds no object missing.
func notServed(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }
