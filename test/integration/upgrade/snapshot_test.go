package upgrade_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// Where an API server keeps its objects in etcd.
const (
	addressKeys = "/registry/ipaddresses/"
	cidrKeys    = "/registry/servicecidrs/"
	rangeKeys   = "/registry/ranges/"
	serviceKeys = "/registry/services/specs/"
	eventKeys   = "/registry/events/"
)

// snapshot is etcd at one revision and the length of the API server's log. It needs no API server.
type snapshot struct {
	addresses, cidrs, bitmaps, services, events values

	log int64
}

// values are keys with what is stored there.
type values map[string]value

type value struct {
	raw     []byte
	version int64 // the revision of the last write
}

// snapshot takes a snapshot.
func (s *environment) snapshot(ctx context.Context) snapshot {
	GinkgoHelper()
	p := snapshot{log: s.logLength()}
	answer, err := s.etcd.Txn(ctx).Then(
		below(addressKeys), below(cidrKeys), below(rangeKeys), below(serviceKeys), below(eventKeys)).Commit()
	Expect(err).NotTo(HaveOccurred())
	for i, into := range []*values{&p.addresses, &p.cidrs, &p.bitmaps, &p.services, &p.events} {
		*into = values{}
		for _, kv := range answer.Responses[i].GetResponseRange().Kvs {
			(*into)[string(kv.Key)] = value{raw: kv.Value, version: kv.ModRevision}
		}
	}
	return p
}

// keys are all keys in etcd, but those that an API server writes unasked.
func (s *environment) keys(ctx context.Context) (all []string) {
	GinkgoHelper()
	answer, err := s.etcd.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	Expect(err).NotTo(HaveOccurred())
	for _, kv := range answer.Kvs {
		key := string(kv.Key)
		if !strings.HasPrefix(key, eventKeys) && !strings.HasPrefix(key, "/registry/leases/") && !strings.HasPrefix(key, "/registry/masterleases/") {
			all = append(all, key)
		}
	}
	return all
}

func below(prefix string) clientv3.Op { return clientv3.OpGet(prefix, clientv3.WithPrefix()) }

func (s *environment) logLength() int64 {
	GinkgoHelper()
	info, err := os.Stat(s.API.LogFile())
	Expect(err).NotTo(HaveOccurred())
	return info.Size()
}

// put writes a value as no API server would.
func (s *environment) put(ctx context.Context, key string, raw []byte) {
	GinkgoHelper()
	_, err := s.etcd.Put(ctx, key, string(raw))
	Expect(err).NotTo(HaveOccurred())
}

// writes says what became of each key that is new, gone or written, even with the same value.
func (v values) writes(later values) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(v)) {
		switch now, there := later[key]; {
		case !there:
			all = append(all, key+" is gone")
		case now.version != v[key].version:
			all = append(all, fmt.Sprintf("%s was written: %q, before %q", key, now.raw, v[key].raw))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(later)) {
		if _, was := v[key]; !was {
			all = append(all, key+" is new")
		}
	}
	return all
}

// clusterIPs are each Service's, under namespace/name, also for Services that have none.
func (p snapshot) clusterIPs() map[string][]string {
	GinkgoHelper()
	all := map[string][]string{}
	for key, stored := range p.services {
		service := decode[*corev1.Service](stored)
		all[strings.TrimPrefix(key, serviceKeys)] = inventory.ClusterIPs(service)
	}
	return all
}

// owners are the Services of each address.
func (p snapshot) owners() map[string][]string {
	GinkgoHelper()
	owners := map[string][]string{}
	for name, addresses := range p.clusterIPs() {
		for _, address := range addresses {
			owners[address] = append(owners[address], name)
		}
	}
	return owners
}

// repairsSince are the repair events that have come, or come again, since an earlier snapshot.
func (p snapshot) repairsSince(earlier snapshot) (all []string) {
	GinkgoHelper()
	for _, event := range p.repairEvents(earlier) {
		all = append(all, describe(event))
	}
	return all
}

func (p snapshot) repairEvents(earlier snapshot) (all []*corev1.Event) {
	GinkgoHelper()
	for key, stored := range p.events {
		if stored.version == earlier.events[key].version {
			continue
		}
		if event := decode[*corev1.Event](stored); slices.Contains(migrate.Repairs, event.Reason) {
			all = append(all, event)
		}
	}
	return all
}

func describe(event *corev1.Event) string {
	return fmt.Sprintf("%s %s/%s: %s", event.Reason, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Message)
}

// decode reads what an API server, or a program that writes like one, has stored.
func decode[T runtime.Object](stored value) T {
	GinkgoHelper()
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(stored.raw, nil, nil)
	Expect(err).NotTo(HaveOccurred(), "%q", stored.raw)
	Expect(object).To(BeAssignableToTypeOf(*new(T)))
	return object.(T)
}

// address is an IPAddress with the version of the API that it is stored in.
type address struct {
	networkingv1.IPAddress
	storedIn string
}

// addressOf reads an IPAddress in either version; they are alike.
func addressOf(stored value) address {
	GinkgoHelper()
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(stored.raw, nil, nil)
	Expect(err).NotTo(HaveOccurred(), "%q", stored.raw)
	switch ip := object.(type) {
	case *networkingv1.IPAddress:
		return address{IPAddress: *ip, storedIn: kind.GroupVersion().String()}
	case *networkingv1beta1.IPAddress:
		return address{storedIn: kind.GroupVersion().String(), IPAddress: networkingv1.IPAddress{
			TypeMeta: ip.TypeMeta, ObjectMeta: ip.ObjectMeta,
			Spec: networkingv1.IPAddressSpec{ParentRef: (*networkingv1.ParentReference)(ip.Spec.ParentRef)},
		}}
	}
	Fail(fmt.Sprintf("%T is no IPAddress", object))
	return address{}
}

// managers are the field managers that have written the IPAddress.
func (a address) managers() (names []string) {
	for _, entry := range a.ManagedFields {
		names = append(names, entry.Manager)
	}
	return names
}

// exact are stored IPAddresses, by key, as if written at one moment by one manager. Each is encoded
// again and must stay the same: what is decoded is all that there is.
func exact(all values) map[string]string {
	GinkgoHelper()
	texts := map[string]string{}
	for key, stored := range all {
		ip := decode[*networkingv1.IPAddress](stored)
		Expect(encode(ip)).To(Equal(stored.raw), key)
		ip.UID, ip.CreationTimestamp = "", metav1.Time{}
		for i := range ip.ManagedFields {
			ip.ManagedFields[i].Time, ip.ManagedFields[i].Manager = &metav1.Time{Time: time.Unix(0, 0)}, ""
		}
		texts[key] = string(encode(ip))
	}
	return texts
}

// encode writes a networking.k8s.io/v1 object as an API server stores it.
func encode(object runtime.Object) []byte {
	GinkgoHelper()
	info, found := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	Expect(found).To(BeTrue())
	var out bytes.Buffer
	codec := scheme.Codecs.EncoderForVersion(info.Serializer, schema.GroupVersions{networkingv1.SchemeGroupVersion})
	Expect(codec.Encode(object, &out)).To(Succeed())
	return out.Bytes()
}

// alike are stored IPAddresses, by key, as far as an API server's allocator looks at them.
func alike(all values) map[string]string {
	GinkgoHelper()
	texts := map[string]string{}
	for key, stored := range all {
		ip := addressOf(stored)
		texts[key] = fmt.Sprintf("%s %v %v %+v, finalizers %q, owners %v", ip.Name, ip.Labels, ip.Annotations, *ip.Spec.ParentRef, ip.Finalizers, ip.OwnerReferences)
	}
	return texts
}
