package watch

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// head is what an informer asks of an object that it stores. It stands in for an ObjectMeta, which is six times as large.
type head struct{ namespace, name, version string }

func headOf(o metav1.Object) head {
	return head{namespace: o.GetNamespace(), name: o.GetName(), version: o.GetResourceVersion()}
}

// GetObjectMeta makes everything that embeds a head a [metav1.ObjectMetaAccessor]. It builds what it returns.
func (h *head) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: h.namespace, Name: h.name, ResourceVersion: h.version}
}

// key is namespace/name, or the name of an object without namespace.
func (h *head) key() string {
	return cache.ObjectName{Namespace: h.namespace, Name: h.name}.String()
}

// object is what the stores hold.
type object interface {
	comparable
	metav1.ObjectMetaAccessor
	key() string
}

// word is a string of which there are few and which is held often, such as the name of a node: 8 bytes, and one copy of the letters.
type word = unique.Handle[string]

func wordOf(s string) word { return unique.Make(s) }
