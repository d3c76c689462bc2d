package enforcement

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	acadmission "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
)

// leaderCache is a cache that only the leader fills.
type leaderCache struct{ cache.Cache }

// watch returns a cache of the three objects, each followed by its name, and nothing else.
func watch(mgr manager.Manager, namespace string) (cache.Cache, error) {
	if err := addToScheme(mgr.GetScheme()); err != nil {
		return nil, err
	}
	named := func(namespaces map[string]cache.Config) cache.ByObject {
		return cache.ByObject{
			Field: fields.OneTermEqualSelector("metadata.name", v1alpha1.ExclusiveName), Namespaces: namespaces, Transform: cache.TransformStripManagedFields(),
		}
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: named(map[string]cache.Config{namespace: {}}),
			&admissionregistrationv1.ValidatingAdmissionPolicy{}:        named(nil),
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}: named(nil),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache for the objects %s: %w", v1alpha1.ExclusiveName, err)
	}
	return c, mgr.Add(leaderCache{c})
}

func addToScheme(s *runtime.Scheme) error {
	if err := corev1.AddToScheme(s); err != nil {
		return err
	}
	return admissionregistrationv1.AddToScheme(s)
}

func find(ctx context.Context, reader client.Reader, namespace string) (f found, err error) {
	name := types.NamespacedName{Name: v1alpha1.ExclusiveName}
	if f.policy, err = objects.Get(ctx, reader, name, &admissionregistrationv1.ValidatingAdmissionPolicy{}); err != nil {
		return f, fmt.Errorf("reading the ValidatingAdmissionPolicy: %w", err)
	}
	if f.binding, err = objects.Get(ctx, reader, name, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}); err != nil {
		return f, fmt.Errorf("reading the ValidatingAdmissionPolicyBinding: %w", err)
	}
	name.Namespace = namespace
	if f.data, err = objects.Get(ctx, reader, name, &corev1.ConfigMap{}); err != nil {
		return f, fmt.Errorf("reading the ConfigMap: %w", err)
	}
	return f, nil
}

// carryOut does one write.
func carryOut(ctx context.Context, c client.Client, one write, data map[string]string, namespace string) (err error) {
	own := []client.ApplyOption{client.FieldOwner(v1alpha1.ManagerEnforcement), client.ForceOwnership}
	switch one {
	case writeData:
		if err = c.Apply(ctx, corev1ac.ConfigMap(v1alpha1.ExclusiveName, namespace).WithData(data), own...); err != nil {
			return fmt.Errorf("writing the ConfigMap: %w", err)
		}
	case writeBinding:
		if err = c.Apply(ctx, binding(namespace), own...); err != nil {
			return fmt.Errorf("writing the ValidatingAdmissionPolicyBinding: %w", err)
		}
	case deleteBinding:
		o := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		o.Name = v1alpha1.ExclusiveName
		if err = client.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
			return fmt.Errorf("deleting the ValidatingAdmissionPolicyBinding: %w", err)
		}
	case deleteData:
		o := &corev1.ConfigMap{}
		o.Namespace, o.Name = namespace, v1alpha1.ExclusiveName
		if err = client.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
			return fmt.Errorf("deleting the ConfigMap: %w", err)
		}
	}
	return nil
}

func binding(namespace string) *acadmission.ValidatingAdmissionPolicyBindingApplyConfiguration {
	spec := bindingSpec(namespace)
	return acadmission.ValidatingAdmissionPolicyBinding(v1alpha1.ExclusiveName).WithSpec(acadmission.ValidatingAdmissionPolicyBindingSpec().
		WithPolicyName(spec.PolicyName).WithValidationActions(spec.ValidationActions...).
		WithParamRef(acadmission.ParamRef().WithName(spec.ParamRef.Name).WithNamespace(spec.ParamRef.Namespace).
			WithParameterNotFoundAction(*spec.ParamRef.ParameterNotFoundAction)))
}
