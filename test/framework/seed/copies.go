// Package seed writes Services to etcd as the API server would have stored them: the more exist,
// the longer the API server takes for the next one, up to hours for 50,000. Start with Copies.
package seed

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Where kube-apiserver keeps Services and IPAddresses. Namespace and name follow for a Service.
const (
	servicesPrefix    = "/registry/services/specs/"
	ipAddressesPrefix = "/registry/ipaddresses/"
)

// writers write at the same time, so that etcd can join their writes into few syncs of its disk.
const writers = 32

// Copies are copies of a Service that the API server made, from number From to below To. They
// differ only in name, address, UID and creation time. Etcd, Template, Ranges and To are required.
type Copies struct {
	// Etcd is the URL of etcd.
	Etcd string
	// Template is NAMESPACE/NAME of the Service.
	Template string
	// Ranges are one per family, the primary first; copies are scattered over the dynamic band.
	Ranges []netip.Prefix
	// From and To are numbers.
	From, To int
	// Pace is objects written per second; 0: what etcd takes. A running API server keeps up with Pace.
	Pace int
	// Over is the time over which they have come into being, evenly, the first longest ago; 0: now.
	Over time.Duration
	// Mixed: 7 of 100 copies are headless, 3 of type ExternalName; MixedNamespaces have them.
	Mixed bool
}

// MixedNamespaces are those of mixed copies. The caller creates them.
var MixedNamespaces = strings.Fields("a b c d e f g h i j k l m n o p q r s t")

// HasAddresses reports whether a copy has ClusterIPs.
func (c Copies) HasAddresses(i int) bool { return !c.Mixed || i%100 >= 10 }

// created is when a copy came into being.
func (c Copies) created(i int) metav1.Time {
	return metav1.NewTime(time.Now().Add(-time.Duration(float64(c.Over) * float64(c.To-i) / float64(c.To-c.From))))
}

// Pace is as fast as an API server's caches follow: it cuts off the watches of clients that fall
// behind, its own included, which then need seconds to catch up.
const Pace = 2000

// seeding is one run.
type seeding struct {
	Copies
	etcd      *clientv3.Client
	service   *corev1.Service         // the template, as the API server stored it
	ipAddress *networkingv1.IPAddress // its IPAddress, where IPAddresses are copied
}

// WriteServices writes the Services. Without their IPAddresses the API server repairs them at once.
func (c Copies) WriteServices(ctx context.Context) error { return c.run(ctx, (*seeding).writeServices) }

// WriteIPAddresses writes those of the first Range. One without its Service has a minute's grace.
func (c Copies) WriteIPAddresses(ctx context.Context) error {
	return c.run(ctx, (*seeding).writeIPAddresses)
}

// WriteBitmaps sets the copies' bits, for API servers up to 1.33. None may allocate meanwhile.
func (c Copies) WriteBitmaps(ctx context.Context) error { return c.run(ctx, (*seeding).writeBitmaps) }

// run connects to etcd, and reads the template.
func (c Copies) run(ctx context.Context, write func(*seeding, context.Context) error) error {
	objects, err := Open(ctx, c.Etcd)
	if err != nil {
		return err
	}
	defer func() { _ = objects.Close() }()
	s := &seeding{Copies: c, etcd: objects.etcd}
	if s.service, err = read(ctx, s.etcd, servicesPrefix+c.Template, &corev1.Service{}); err != nil {
		return err
	}
	return write(s, ctx)
}

func (s *seeding) writeServices(ctx context.Context) error { return s.write(ctx, s.putService) }

func (s *seeding) writeIPAddresses(ctx context.Context) (err error) {
	for _, text := range s.service.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err != nil || a.Is4() != s.Ranges[0].Addr().Is4() {
			continue
		}
		if s.ipAddress, err = read(ctx, s.etcd, ipAddressesPrefix+text, &networkingv1.IPAddress{}); err != nil {
			return err
		}
	}
	if s.ipAddress == nil {
		return fmt.Errorf("service %s has no address of the family of %s", s.Template, s.Ranges[0])
	}
	return s.write(ctx, s.putIPAddress)
}

// putter returns the write of the i-th copy.
type putter func(i int, now metav1.Time) (clientv3.Op, error)

func (s *seeding) write(ctx context.Context, put putter) error {
	return paced(ctx, s.etcd, s.From, s.To, s.Pace, func(i int) (clientv3.Op, error) { return put(i, s.created(i)) })
}

func (s *seeding) putIPAddress(i int, now metav1.Time) (clientv3.Op, error) {
	ip := s.ipAddress.DeepCopy()
	ip.Name, ip.UID, ip.CreationTimestamp = scatter(s.Ranges[0], i).String(), uuid.NewUUID(), now
	ip.Spec.ParentRef.Name = serviceName(i)
	return put(ipAddressesPrefix+ip.Name, networkingv1.SchemeGroupVersion.WithKind("IPAddress"), ip)
}

func (s *seeding) putService(i int, now metav1.Time) (clientv3.Op, error) {
	service := s.service.DeepCopy()
	service.Name, service.UID, service.CreationTimestamp = serviceName(i), uuid.NewUUID(), now
	if s.Mixed {
		service.Namespace = MixedNamespaces[i%len(MixedNamespaces)]
	}
	switch {
	case s.HasAddresses(i):
		service.Spec.ClusterIPs = nil
		for _, prefix := range s.Ranges {
			service.Spec.ClusterIPs = append(service.Spec.ClusterIPs, scatter(prefix, i).String())
		}
		service.Spec.ClusterIP = service.Spec.ClusterIPs[0]
	case i%100 < 7:
		service.Spec.ClusterIP, service.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	default:
		service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com", Ports: service.Spec.Ports, SessionAffinity: service.Spec.SessionAffinity}
	}
	return put(servicesPrefix+service.Namespace+"/"+service.Name, corev1.SchemeGroupVersion.WithKind("Service"), service)
}

func serviceName(i int) string { return fmt.Sprintf("service-%06d", i) }
