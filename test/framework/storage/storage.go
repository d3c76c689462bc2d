// Package storage reads and writes what API servers have stored in etcd, past all of them. What
// fails here fails the spec. Start with [Open].
package storage

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// Registry begins all keys of an API server.
const Registry = "/registry/"

// Storage is an etcd.
type Storage struct{ Client *clientv3.Client }

// Open connects to an etcd until the calling node ends.
func Open(etcd *framework.Etcd) Storage {
	GinkgoHelper()
	client := suite.Must(clientv3.New(clientv3.Config{
		Endpoints: []string{etcd.URL()}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second, BackoffWaitBetween: 20 * time.Millisecond,
	}))
	DeferCleanup(client.Close)
	return Storage{client}
}

// Value is what is stored under a key; its zero value is that of a key that does not exist.
type Value struct {
	Raw []byte
	// Revision is that of the last write, Version the number of writes since the key was created.
	Revision, Version int64
}

// Values are keys with what is stored there, all at one revision.
type Values map[string]Value

// Get reads a key.
func (s Storage) Get(ctx context.Context, key string) Value {
	GinkgoHelper()
	return s.read(ctx, key)[key]
}

// Below reads all keys with a prefix.
func (s Storage) Below(ctx context.Context, prefix string) Values {
	GinkgoHelper()
	return s.read(ctx, prefix, clientv3.WithPrefix())
}

func (s Storage) read(ctx context.Context, key string, options ...clientv3.OpOption) Values {
	GinkgoHelper()
	got := suite.Must(s.Client.Get(ctx, key, options...))
	all := Values{}
	for _, kv := range got.Kvs {
		all[string(kv.Key)] = Value{kv.Value, kv.ModRevision, kv.Version}
	}
	return all
}

// Count is how many keys with a prefix there are.
func (s Storage) Count(ctx context.Context, prefix string) int {
	GinkgoHelper()
	got := suite.Must(s.Client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly()))
	return int(got.Count)
}

// Revision is that of the last write of any client.
func (s Storage) Revision(ctx context.Context) int64 {
	GinkgoHelper()
	got := suite.Must(s.Client.Get(ctx, "nothing", clientv3.WithCountOnly()))
	return got.Header.Revision
}

// Put writes a key.
func (s Storage) Put(ctx context.Context, key string, raw []byte) {
	GinkgoHelper()
	Expect(s.Client.Put(ctx, key, string(raw))).Error().NotTo(HaveOccurred())
}

// Remove deletes a key, with options maybe more.
func (s Storage) Remove(ctx context.Context, key string, options ...clientv3.OpOption) {
	GinkgoHelper()
	Expect(s.Client.Delete(ctx, key, options...)).Error().NotTo(HaveOccurred())
}

// unasked are keys that a living API server writes by itself, some of them at its start.
var unasked = []string{
	Registry + "leases/kube-system/", Registry + "masterleases/", Registry + "peerserverleases/", Registry + "events/", Registry + "flowschemas/",
	Registry + "prioritylevelconfigurations/", Registry + "apiregistration.k8s.io/", Registry + "clusterroles/", Registry + "clusterrolebindings/",
	Registry + "roles/", Registry + "rolebindings/", "compact_rev_key",
}

// Unasked reports whether a living API server writes a key by itself.
func Unasked(key string) bool {
	return slices.ContainsFunc(unasked, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// Below are those with a prefix.
func (v Values) Below(prefix string) Values {
	some := maps.Clone(v)
	maps.DeleteFunc(some, func(key string, _ Value) bool { return !strings.HasPrefix(key, prefix) })
	return some
}

// Changes says which keys are new, gone or written later, even with the same value, but for those
// that API servers write unasked.
func (v Values) Changes(later Values) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(v)) {
		switch now, there := later[key]; {
		case Unasked(key):
		case !there:
			all = append(all, key+" is gone")
		case now.Revision != v[key].Revision:
			all = append(all, fmt.Sprintf("%s was written: %q -> %q", key, v[key].Raw, now.Raw))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(later)) {
		if _, was := v[key]; !was && !Unasked(key) {
			all = append(all, key+" is new")
		}
	}
	return all
}

// Decode reads what an API server, or a program that writes like one, has stored.
func Decode[T runtime.Object](stored Value) T {
	GinkgoHelper()
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(stored.Raw, nil, nil)
	Expect(err).NotTo(HaveOccurred(), "%q", stored.Raw)
	Expect(object).To(BeAssignableToTypeOf(*new(T)))
	return object.(T)
}

// Encode writes an object of v1 or networking.k8s.io/v1 as an API server stores it.
func Encode(object runtime.Object) []byte {
	GinkgoHelper()
	info, found := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	Expect(found).To(BeTrue())
	var out bytes.Buffer
	codec := scheme.Codecs.EncoderForVersion(info.Serializer, schema.GroupVersions{networkingv1.SchemeGroupVersion, corev1.SchemeGroupVersion})
	Expect(codec.Encode(object, &out)).To(Succeed())
	return out.Bytes()
}
