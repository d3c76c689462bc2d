package cleanup

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/webhook"
)

// home takes away what is left in the operator's namespace, which may outlive the operator: the certificate of the webhooks.
func (o Options) home(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := o.Client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: webhook.SecretName}, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Secret %s/%s: %w", o.Namespace, webhook.SecretName, err)
	}
	if err != nil {
		return nil
	}
	return o.remove(ctx, "Secret", secret)
}

// enforcement takes away what the API server itself goes by when it keeps Services out of exclusive ranges. The binding goes first: without it the policy is not evaluated.
func (o Options) enforcement(ctx context.Context) error {
	for _, kind := range []metav1.TypeMeta{
		{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicyBinding"},
		{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"},
		{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ExclusiveRanges"},
	} {
		object := &metav1.PartialObjectMetadata{TypeMeta: kind}
		switch err := o.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ExclusiveRangesName}, object); {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		case err != nil:
			return fmt.Errorf("reading %s %s: %w", kind.Kind, v1alpha1.ExclusiveRangesName, err)
		default:
			if err := o.remove(ctx, kind.Kind, object); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o Options) remove(ctx context.Context, kind string, target client.Object) error {
	name := strings.TrimPrefix(client.ObjectKeyFromObject(target).String(), "/")
	if !o.say("deleted %s %s", kind, name) {
		return nil
	}
	uid := target.GetUID()
	if err := o.Client.Delete(ctx, target, client.Preconditions{UID: &uid}); ignoreGone(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", kind, name, err)
	}
	return nil
}
