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

// Object is what the API server is given, of the name v1alpha1.ExclusiveRangesName.
type Object struct {
	schema.GroupVersion
	Kind, Resource string
}

// Objects are all of them, in the order in which they are deleted: without its binding a policy is not evaluated.
func Objects() []Object {
	return []Object{
		{admissionregistrationv1.SchemeGroupVersion, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"},
		{admissionregistrationv1.SchemeGroupVersion, "ValidatingAdmissionPolicy", "validatingadmissionpolicies"},
		{v1alpha1.GroupVersion, "ExclusiveRanges", "exclusiveranges"},
	}
}

// matchConditions say which requests need a look at the ranges. An update that leaves the addresses as they are is none, so that a Service which has a closed
// address already can still be changed. The API server creates Service default/kubernetes for itself. In a dry run it draws the first address of any range, closed ones
// too, which cannot be told from one that the user chose, and is given to nobody.
var matchConditions = []*acadmission.MatchConditionApplyConfiguration{
	acadmission.MatchCondition().WithName("not-a-dry-run").
		WithExpression(`!request.?dryRun.orValue(false)`),
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
	ranges, err := apply(ctx, c, &v1alpha1.ExclusiveRanges{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ExclusiveRanges"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExclusiveRangesName}, Spec: spec,
	})
	if err != nil {
		return err
	}
	owner := metav1ac.OwnerReference().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("ExclusiveRanges").
		WithName(v1alpha1.ExclusiveRangesName).WithUID(ranges.GetUID())
	if _, err := apply(ctx, c, admissionPolicy(owner)); err != nil {
		return err
	}
	_, err = apply(ctx, c, binding(owner))
	return err
}

// apply writes an object, as it is or as an apply configuration, and returns what is there then. The scheme of the client need not know the kind.
func apply(ctx context.Context, c client.Client, object any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	u := &unstructured.Unstructured{Object: content}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(v1alpha1.ManagerEnforcement), client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("writing the %s: %w", u.GetKind(), err)
	}
	return u, nil
}

// uninstall deletes the objects, as far as they are there.
func uninstall(ctx context.Context, c client.Client) error {
	for _, one := range Objects() {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExclusiveRangesName}}
		o.SetGroupVersionKind(one.WithKind(one.Kind))
		if err := c.Delete(ctx, o); err != nil && !notServed(err) {
			return fmt.Errorf("deleting the %s: %w", one.Kind, err)
		}
	}
	return nil
}

// notServed reports whether an error says that the API server does not know a kind: it never did, or does not any more. An apply finds no object missing.
func notServed(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }
