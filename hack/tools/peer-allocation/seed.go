package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Where kube-apiserver keeps Services and IPAddresses. A Service is followed by its namespace and name.
const (
	servicesPrefix    = "/registry/services/specs/"
	ipAddressesPrefix = "/registry/ipaddresses/"
)

const (
	// writers write at the same time, so that etcd can join their writes into few syncs of its disk.
	writers = 32
	// pace is the number of objects per second: the API server cuts off the watches of clients that fall behind,
	// its own included, and these then need seconds to catch up.
	pace = 2000
)

// seeding is one run of the subcommand seed.
type seeding struct {
	etcd      *clientv3.Client
	prefix    netip.Prefix
	service   *corev1.Service         // the template, as the API server stored it
	ipAddress *networkingv1.IPAddress // its IPAddress
}

// seeded is what a seeding came to.
type seeded struct {
	Objects int     `json:"objects"`
	Seconds float64 `json:"seconds"`
}

// seed writes copies of a Service or of its IPAddress, both made by the API server, straight into etcd. A copy
// differs from the template in name, address, UID and time of creation, and in nothing else. The IPAddresses have
// to come first: one without a Service has a minute's grace, a Service without an IPAddress is repaired by the
// API server at once.
func seed(ctx context.Context, args []string) (any, error) {
	flags := flag.NewFlagSet("seed", flag.ContinueOnError)
	url := flags.String("etcd", "", "where etcd listens")
	template := flags.String("template", "", "NAMESPACE/NAME of the Service to copy")
	kind := flags.String("kind", "", "what to write: ipaddresses or services")
	from := flags.Int("from", 0, "number of the first copy")
	to := flags.Int("to", 0, "number after the last copy")
	text := flags.String("range", "", "IPv4 prefix whose dynamic band the copies are scattered over")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	prefix, err := netip.ParsePrefix(*text)
	if err != nil || !prefix.Addr().Is4() {
		return nil, fmt.Errorf("--range %q is no IPv4 prefix", *text)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{*url}, DialTimeout: 10 * time.Second, Context: ctx})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	defer func() { _ = etcd.Close() }()
	s := &seeding{etcd: etcd, prefix: prefix.Masked()}
	if err := s.readTemplate(ctx, *template); err != nil {
		return nil, err
	}
	put, known := map[string]putter{"ipaddresses": s.putIPAddress, "services": s.putService}[*kind]
	if !known {
		return nil, fmt.Errorf("--kind %q is neither ipaddresses nor services", *kind)
	}
	start := time.Now()
	if err := s.write(ctx, put, *from, *to); err != nil {
		return nil, err
	}
	return seeded{Objects: *to - *from, Seconds: time.Since(start).Seconds()}, nil
}

// readTemplate reads what the API server stored for a Service and for its IPAddress.
func (s *seeding) readTemplate(ctx context.Context, name string) (err error) {
	if s.service, err = read(ctx, s.etcd, servicesPrefix+name, &corev1.Service{}); err != nil {
		return err
	}
	s.ipAddress, err = read(ctx, s.etcd, ipAddressesPrefix+s.service.Spec.ClusterIP, &networkingv1.IPAddress{})
	return err
}

// putter returns the write of the i-th copy.
type putter func(i int, now metav1.Time) (clientv3.Op, error)

// write writes each copy in a revision of its own. A transaction of many would be faster, and wrong: they would share
// one resourceVersion, and a watch that is taken up again behind one of them would miss the rest.
func (s *seeding) write(ctx context.Context, put putter, from, to int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	start := time.Now()
	for i := from; i < to && ctx.Err() == nil; i++ {
		time.Sleep(time.Until(start.Add(time.Duration(i-from) * time.Second / pace)))
		group.Go(func() error {
			op, err := put(i, metav1.Now())
			if err != nil {
				return err
			}
			if _, err := s.etcd.Do(ctx, op); err != nil {
				return fmt.Errorf("writing copy %d to etcd: %w", i, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (s *seeding) putIPAddress(i int, now metav1.Time) (clientv3.Op, error) {
	ip := s.ipAddress.DeepCopy()
	ip.Name, ip.UID, ip.CreationTimestamp = scatter(s.prefix, i).String(), uuid.NewUUID(), now
	ip.Spec.ParentRef.Name = serviceName(i)
	return put(ipAddressesPrefix+ip.Name, networkingv1.SchemeGroupVersion.WithKind("IPAddress"), ip)
}

func (s *seeding) putService(i int, now metav1.Time) (clientv3.Op, error) {
	address := scatter(s.prefix, i).String()
	service := s.service.DeepCopy()
	service.Name, service.UID, service.CreationTimestamp = serviceName(i), uuid.NewUUID(), now
	service.Spec.ClusterIP, service.Spec.ClusterIPs = address, []string{address}
	return put(servicesPrefix+service.Namespace+"/"+service.Name, corev1.SchemeGroupVersion.WithKind("Service"), service)
}

func serviceName(i int) string { return fmt.Sprintf("service-%06d", i) }
