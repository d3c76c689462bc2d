package renumber

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// record is what a Service was before the first update. v1alpha1.AnnotationRenumbering keeps it, to
// be found after a command was killed between the two updates.
//
// The owner of the Service may write that annotation, and the second update is written under the
// name of an administrator, who may do more: it may give away node ports, load balancers and their
// addresses. So the record has to prove itself. Its digest is in v1alpha1.ConditionRenumbering:
// a tenant may not write the status of its Service. It is written before the first update, and
// the record, whose nonce cannot be guessed, comes with that. So a record that fits its
// digest is what the Service was at the moment of the first update, and there was one.
//
// A record is trusted only as long as the digest stands there, and only by the plan that wrote it.
type record struct {
	Nonce string             `json:"nonce"`
	Spec  corev1.ServiceSpec `json:"spec"`
	// Balancer is the status of a load balancer.
	Balancer corev1.LoadBalancerStatus `json:"loadBalancer,omitzero"`
	// Labels and Annotations are those of a NodePort or LoadBalancer Service.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// newRecord returns the record of a Service, as the annotation has it. Of a ClusterIP Service it
// has no more than the first update takes away.
func newRecord(s *corev1.Service) (string, error) {
	was := record{Nonce: rand.Text(), Spec: *s.Spec.DeepCopy(), Balancer: s.Status.LoadBalancer}
	if ownersEditsStay(&was) {
		was.Spec.Ports, was.Spec.Selector, was.Spec.ExternalIPs = nil, nil, nil
	} else {
		was.Labels, was.Annotations = s.Labels, s.Annotations
	}
	text, err := json.Marshal(was)
	if err != nil {
		return "", fmt.Errorf("writing annotation %s: %w", v1alpha1.AnnotationRenumbering, err)
	}
	return string(text), nil
}

// ownersEditsStay reports whether a Service keeps what its owner changes between the two updates.
//
// That of a ClusterIP Service stays: its owner may make the same change before or afterwards.
// Clusters forbid more about node ports and load balancers, going by the type: an owner that waits
// for the moment in which its Service is an ExternalName could have an administrator open a port,
// or the internet, that is closed to it. Such a Service becomes what it was.
func ownersEditsStay(was *record) bool {
	return was.Spec.Type == corev1.ServiceTypeClusterIP
}

var (
	errUnproven = errors.New("it says that it is being renumbered, and its status does not prove that the annotation " + v1alpha1.AnnotationRenumbering +
		" is what `kubectl clusterip renumber` has written: its owner has to give it its type again")
	errOtherPlan = errors.New("it is between the two updates of another plan: run that one again")
)

// recordOf returns the record of a Service, if it proves itself. A Service without one is no error.
func recordOf(s *corev1.Service) (*record, error) {
	text, has := s.Annotations[v1alpha1.AnnotationRenumbering]
	if !has {
		return nil, nil
	}
	proof := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionRenumbering)
	if proof == nil || proof.Message != digest(text) {
		return nil, errUnproven
	}
	was := &record{}
	if err := json.Unmarshal([]byte(text), was); err != nil {
		return nil, errUnproven
	}
	return was, nil
}

// between reports whether a Service is between the two updates of a plan, with a proven record.
func between(s *corev1.Service) bool {
	was, err := recordOf(s)
	return err == nil && was != nil && v1alpha1.BeingRenumbered(s)
}

// underway returns the record of a Service between the two updates of an item, nil for any other.
func underway(i Item, s *corev1.Service) (*record, error) {
	if !v1alpha1.BeingRenumbered(s) {
		return nil, nil
	}
	was, err := recordOf(s)
	switch {
	case err != nil && s.Spec.Type != corev1.ServiceTypeExternalName:
		return nil, nil // a load balancer with an annotation of its owner is like any other
	case err != nil:
		return nil, err
	}
	if left := parse(was.Spec.ClusterIPs); !slices.Equal(left, i.Old) && !slices.Equal(left, i.New) {
		return nil, errOtherPlan
	}
	return was, nil
}

// proves adds the digest of a record to the status of a Service.
func proves(s *corev1.Service, text string) *corev1.Service {
	out := s.DeepCopy()
	meta.SetStatusCondition(&out.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionRenumbering, Status: metav1.ConditionTrue, Reason: "BeingMoved", Message: digest(text),
	})
	return out
}

func digest(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// settled returns a Service that is not between any more without the record, and whether it had a
// proof in its status, or an annotation.
func settled(s *corev1.Service) (out *corev1.Service, proof, annotation bool) {
	out = s.DeepCopy()
	proof = meta.RemoveStatusCondition(&out.Status.Conditions, v1alpha1.ConditionRenumbering)
	_, annotation = out.Annotations[v1alpha1.AnnotationRenumbering]
	delete(out.Annotations, v1alpha1.AnnotationRenumbering)
	return out, proof, annotation
}
