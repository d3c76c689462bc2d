package cleanup

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// annotations takes the list of additional addresses, which are about to go, off the Services. What their owners asked for stays. It is
// removed by way of the status, as it was written: nobody who uninstalls need be allowed to change what a Service is for.
func (o Options) annotations(ctx context.Context) error {
	services := metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	return o.each(ctx, services, client.InNamespace(metav1.NamespaceAll), func(s *metav1.PartialObjectMetadata) error {
		if _, ours := s.Annotations[v1alpha1.AnnotationAdditionalIPs]; !ours {
			return nil
		}
		if !o.say("removed the annotation %s of Service %s/%s", v1alpha1.AnnotationAdditionalIPs, s.Namespace, s.Name) {
			return nil
		}
		return o.unlist(ctx, s)
	})
}

func (o Options) unlist(ctx context.Context, s *metav1.PartialObjectMetadata) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": s.UID, "annotations": map[string]any{v1alpha1.AnnotationAdditionalIPs: nil},
	}})
	if err != nil {
		return err
	}
	if err := o.Client.Status().Patch(ctx, s, client.RawPatch(types.MergePatchType, body)); ignoreGone(err) != nil {
		return fmt.Errorf("removing the annotation of Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}
