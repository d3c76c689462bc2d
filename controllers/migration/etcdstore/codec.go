package etcdstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

var (
	scheme         = newScheme()
	protobufFormat = protobuf.NewSerializer(scheme, scheme)
	jsonFormat     = json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
)

// newScheme knows the kinds that migration reads. The v1beta1 kinds of networking.k8s.io that 1.31
// to 1.33 store have the same fields and numbers as those of v1, so that one Go type serves both.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(s))
	utilruntime.Must(networkingv1.AddToScheme(s))
	v1beta1 := schema.GroupVersion{Group: networkingv1.GroupName, Version: "v1beta1"}
	s.AddKnownTypes(v1beta1, &networkingv1.IPAddress{}, &networkingv1.ServiceCIDR{})
	return s
}

// encryptedBy is what encrypted a value, provider and key: "aescbc:v1:key1". The rest is not shown.
var encryptedBy = regexp.MustCompile(`^k8s:enc:([a-z]+:v[0-9]+:[!-9;-~]{1,64}):`)

// decode returns the object in a stored value, and the version that it was stored in, if it can
// even beside an error. The object has neither kind nor resourceVersion.
func decode(raw []byte) (o runtime.Object, apiVersion string, err error) {
	var format runtime.Decoder
	switch {
	case len(raw) == 0:
		return nil, "", errors.New("the value is empty")
	case bytes.HasPrefix(raw, []byte("k8s:enc:")): // what the API server writes before a value tells formats apart
		if by := encryptedBy.FindSubmatch(raw); by != nil {
			return nil, "", fmt.Errorf("%w (by %s)", migration.ErrEncrypted, by[1])
		}
		return nil, "", migration.ErrEncrypted
	case bytes.HasPrefix(raw, []byte("k8s\x00")):
		format = protobufFormat
	case bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")):
		format = jsonFormat
	default:
		return nil, "", fmt.Errorf("the value, of %d bytes, is neither protobuf nor JSON of Kubernetes", len(raw))
	}
	o, kind, err := format.Decode(raw, nil, nil)
	if kind != nil {
		apiVersion = kind.GroupVersion().String()
	}
	if err != nil {
		return nil, apiVersion, fmt.Errorf("the value, of %d bytes, cannot be decoded: %w", len(raw), err)
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return o, apiVersion, nil
}

// encode returns an object as kube-apiserver stores it in a version, or v1, and leaves it as it is.
func encode(o runtime.Object, apiVersion string) ([]byte, error) {
	kinds, _, err := scheme.ObjectKinds(o)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(kinds, func(k schema.GroupVersionKind) bool {
		return k.GroupVersion().String() == cmp.Or(apiVersion, schema.GroupVersion{Group: k.Group, Version: "v1"}.String())
	})
	if i < 0 {
		return nil, fmt.Errorf("%s cannot be stored as %s", kinds[0].Kind, apiVersion)
	}
	o = o.DeepCopyObject()
	o.GetObjectKind().SetGroupVersionKind(kinds[i])
	if m, err := meta.Accessor(o); err == nil {
		m.SetResourceVersion("")
		m.SetSelfLink("")
	}
	var raw bytes.Buffer
	if err := protobufFormat.Encode(o, &raw); err != nil {
		return nil, fmt.Errorf("encoding a %s: %w", kinds[i].Kind, err)
	}
	return raw.Bytes(), nil
}
