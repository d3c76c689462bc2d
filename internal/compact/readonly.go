package compact

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// readOnly is the rest of metav1.Object and runtime.Object, which the handlers of events ask for.
// It has nothing, and refuses to be given anything: a caller that means to change an object needs
// the full one.
type readOnly struct{}

// refuse says what its caller has to do.
func refuse() {
	panic("a compact object of a cache is not changed; change what compact.Expand returns")
}

// GetObjectKind returns no kind, so that no client takes the object for one to be sent.
func (readOnly) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// GetGenerateName and what follows is empty: see identify.
func (readOnly) GetGenerateName() string { return "" }

// GetGeneration is none.
func (readOnly) GetGeneration() int64 { return 0 }

// GetSelfLink is none.
func (readOnly) GetSelfLink() string { return "" }

// GetDeletionTimestamp is none.
func (readOnly) GetDeletionTimestamp() *metav1.Time { return nil }

// GetDeletionGracePeriodSeconds is none.
func (readOnly) GetDeletionGracePeriodSeconds() *int64 { return nil }

// GetAnnotations are none.
func (readOnly) GetAnnotations() map[string]string { return nil }

// GetFinalizers are none.
func (readOnly) GetFinalizers() []string { return nil }

// GetOwnerReferences are none.
func (readOnly) GetOwnerReferences() []metav1.OwnerReference { return nil }

// GetManagedFields are none.
func (readOnly) GetManagedFields() []metav1.ManagedFieldsEntry { return nil }

// SetName is refused, as are all methods that begin with Set.
func (readOnly) SetName(string) { refuse() }

// SetNamespace is refused.
func (readOnly) SetNamespace(string) { refuse() }

// SetGenerateName is refused.
func (readOnly) SetGenerateName(string) { refuse() }

// SetUID is refused.
func (readOnly) SetUID(types.UID) { refuse() }

// SetResourceVersion is refused.
func (readOnly) SetResourceVersion(string) { refuse() }

// SetGeneration is refused.
func (readOnly) SetGeneration(int64) { refuse() }

// SetSelfLink is refused.
func (readOnly) SetSelfLink(string) { refuse() }

// SetCreationTimestamp is refused.
func (readOnly) SetCreationTimestamp(metav1.Time) { refuse() }

// SetDeletionTimestamp is refused.
func (readOnly) SetDeletionTimestamp(*metav1.Time) { refuse() }

// SetDeletionGracePeriodSeconds is refused.
func (readOnly) SetDeletionGracePeriodSeconds(*int64) { refuse() }

// SetLabels is refused.
func (readOnly) SetLabels(map[string]string) { refuse() }

// SetAnnotations is refused.
func (readOnly) SetAnnotations(map[string]string) { refuse() }

// SetFinalizers is refused.
func (readOnly) SetFinalizers([]string) { refuse() }

// SetOwnerReferences is refused.
func (readOnly) SetOwnerReferences([]metav1.OwnerReference) { refuse() }

// SetManagedFields is refused.
func (readOnly) SetManagedFields([]metav1.ManagedFieldsEntry) { refuse() }
