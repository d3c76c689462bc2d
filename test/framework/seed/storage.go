package seed

import (
	"bytes"
	"context"
	"fmt"
	"math/big"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// codec is kube-apiserver's format for its own kinds: protobuf in an envelope that names the kind.
var codec = newCodec()

func newCodec() *protobuf.Serializer {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(networkingv1.AddToScheme(scheme))
	utilruntime.Must(discoveryv1.AddToScheme(scheme))
	scheme.AddKnownTypes(schema.GroupVersion{Group: networkingv1.GroupName, Version: "v1beta1"}, &networkingv1.IPAddress{}) // as 1.33 stores it: the same fields
	return protobuf.NewSerializer(scheme, scheme)
}

// read reads an object from etcd.
func read[T runtime.Object](ctx context.Context, etcd *clientv3.Client, key string, into T) (T, error) {
	response, err := etcd.Get(ctx, key)
	if err != nil {
		return into, fmt.Errorf("reading %s from etcd: %w", key, err)
	}
	if len(response.Kvs) == 0 {
		return into, fmt.Errorf("etcd has no %s", key)
	}
	if _, _, err := codec.Decode(response.Kvs[0].Value, nil, into); err != nil {
		return into, fmt.Errorf("decoding %s: %w", key, err)
	}
	return into, nil
}

// put returns the write of an object.
func put(key string, kind schema.GroupVersionKind, o runtime.Object) (clientv3.Op, error) {
	o.GetObjectKind().SetGroupVersionKind(kind)
	var value bytes.Buffer
	if err := codec.Encode(o, &value); err != nil {
		return clientv3.Op{}, fmt.Errorf("encoding %s: %w", key, err)
	}
	return clientv3.OpPut(key, value.String()), nil
}

// bitmaps are the keys under which API servers up to 1.32 keep what they allocate from: for the
// primary range and for the secondary one.
var bitmaps = []string{"/registry/ranges/serviceips", "/registry/ranges/secondaryserviceips"}

// writeBitmaps sets each copy's bit in bitmaps, which the API server must have created before.
func (s *seeding) writeBitmaps(ctx context.Context) error {
	if len(s.Ranges) > len(bitmaps) {
		return fmt.Errorf("there are bitmaps for %d ranges at most", len(bitmaps))
	}
	for n, prefix := range s.Ranges {
		allocation, err := read(ctx, s.etcd, bitmaps[n], &corev1.RangeAllocation{})
		if err != nil {
			return err
		}
		bits := new(big.Int).SetBytes(allocation.Data)
		for i := s.From; i < s.To; i++ {
			if s.HasAddresses(i) {
				bits.SetBit(bits, bit(prefix, i), 1)
			}
		}
		allocation.Data = bits.Bytes()
		op, err := put(bitmaps[n], corev1.SchemeGroupVersion.WithKind("RangeAllocation"), allocation)
		if err != nil {
			return err
		}
		if _, err := s.etcd.Do(ctx, op); err != nil {
			return fmt.Errorf("writing %s to etcd: %w", bitmaps[n], err)
		}
	}
	return nil
}
