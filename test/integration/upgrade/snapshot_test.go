package upgrade_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
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
	addresses, cidrs, bitmaps, services, events storage.Values

	log int64
}

// snapshot takes a snapshot.
func (s *environment) snapshot(ctx context.Context) snapshot {
	GinkgoHelper()
	log, all := s.logLength(), s.etcd.Below(ctx, storage.Registry)
	return snapshot{all.Below(addressKeys), all.Below(cidrKeys), all.Below(rangeKeys), all.Below(serviceKeys), all.Below(eventKeys), log}
}

// keys are all keys in etcd, but those that an API server writes unasked.
func (s *environment) keys(ctx context.Context) []string {
	GinkgoHelper()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.etcd.Below(ctx, ""))), storage.Unasked)
}

func (s *environment) logLength() int64 {
	GinkgoHelper()
	info, err := os.Stat(s.API.LogFile())
	Expect(err).NotTo(HaveOccurred())
	return info.Size()
}

// clusterIPs are each Service's, under namespace/name, also for Services that have none.
func (p snapshot) clusterIPs() map[string][]string {
	GinkgoHelper()
	all := map[string][]string{}
	for key, stored := range p.services {
		service := storage.Decode[*corev1.Service](stored)
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
		if stored.Revision == earlier.events[key].Revision {
			continue
		}
		if event := storage.Decode[*corev1.Event](stored); slices.Contains(migrate.Repairs, event.Reason) {
			all = append(all, event)
		}
	}
	return all
}

func describe(event *corev1.Event) string {
	return fmt.Sprintf("%s %s/%s: %s", event.Reason, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Message)
}

// address is an IPAddress with the version of the API that it is stored in.
type address struct {
	networkingv1.IPAddress
	storedIn string
}

// addressOf reads an IPAddress in either version; they are alike.
func addressOf(stored storage.Value) address {
	GinkgoHelper()
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(stored.Raw, nil, nil)
	Expect(err).NotTo(HaveOccurred(), "%q", stored.Raw)
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
func exact(all storage.Values) map[string]string {
	GinkgoHelper()
	texts := map[string]string{}
	for key, stored := range all {
		ip := storage.Decode[*networkingv1.IPAddress](stored)
		Expect(storage.Encode(ip)).To(Equal(stored.Raw), key)
		ip.UID, ip.CreationTimestamp = "", metav1.Time{}
		for i := range ip.ManagedFields {
			ip.ManagedFields[i].Time, ip.ManagedFields[i].Manager = &metav1.Time{Time: time.Unix(0, 0)}, ""
		}
		texts[key] = string(storage.Encode(ip))
	}
	return texts
}

// alike are stored IPAddresses, by key, as far as an API server's allocator looks at them.
func alike(all storage.Values) map[string]string {
	GinkgoHelper()
	texts := map[string]string{}
	for key, stored := range all {
		ip := addressOf(stored)
		texts[key] = fmt.Sprintf("%s %v %v %+v, finalizers %q, owners %v", ip.Name, ip.Labels, ip.Annotations, *ip.Spec.ParentRef, ip.Finalizers, ip.OwnerReferences)
	}
	return texts
}
