package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"strings"
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
	// defaultPace is the number of objects per second: the API server cuts off the watches of clients that fall behind,
	// its own included, and these then need seconds to catch up.
	defaultPace = 2000
)

// seeding is one run of the subcommand seed.
type seeding struct {
	etcd     *clientv3.Client
	prefixes []netip.Prefix // one for each family, the primary one first
	from, to int            // the copies to write
	pace     int            // objects per second, 0 for as many as etcd takes

	template  string                  // its namespace and name
	service   *corev1.Service         // it, as the API server stored it
	ipAddress *networkingv1.IPAddress // its IPAddress, where IPAddresses are copied
}

// seed writes copies of a Service or of its IPAddress, both made by the API server, straight into etcd. A copy
// differs from the template in name, address, UID and time of creation, and in nothing else. The IPAddresses have
// to come first: one without a Service has a minute's grace, a Service without an IPAddress is repaired by the
// API server at once. An API server that allocates from bitmaps wants the bits of the Services instead: services and bitmaps
// are for while it does not run.
func seed(ctx context.Context, args []string) (err error) {
	var s seeding
	flags := flag.NewFlagSet("seed", flag.ContinueOnError)
	url := flags.String("etcd", "", "where etcd listens")
	flags.StringVar(&s.template, "template", "", "NAMESPACE/NAME of the Service to copy")
	kind := flags.String("kind", "", "what to write: ipaddresses, services or bitmaps")
	flags.IntVar(&s.from, "from", 0, "number of the first copy")
	flags.IntVar(&s.to, "to", 0, "number after the last copy")
	flags.IntVar(&s.pace, "pace", defaultPace, "objects per second; 0 for as many as etcd takes")
	ranges := flags.String("range", "", "prefix whose dynamic band the copies are scattered over, or two of different families")
	if err := flags.Parse(args); err != nil {
		return err
	}
	write, known := map[string]func(*seeding, context.Context) error{
		"ipaddresses": (*seeding).writeIPAddresses, "services": (*seeding).writeServices, "bitmaps": (*seeding).writeBitmaps,
	}[*kind]
	if !known {
		return fmt.Errorf("--kind %q is none of ipaddresses, services and bitmaps", *kind)
	}
	for part := range strings.SplitSeq(*ranges, ",") {
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return fmt.Errorf("--range %q: %w", *ranges, err)
		}
		s.prefixes = append(s.prefixes, prefix.Masked())
	}
	s.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{*url}, DialTimeout: 10 * time.Second, Context: ctx})
	if err != nil {
		return fmt.Errorf("connecting to etcd: %w", err)
	}
	defer func() { _ = s.etcd.Close() }()
	return write(&s, ctx)
}

func (s *seeding) writeServices(ctx context.Context) error {
	if err := s.readService(ctx); err != nil {
		return err
	}
	return s.write(ctx, s.putService)
}

// writeIPAddresses writes those of one family.
func (s *seeding) writeIPAddresses(ctx context.Context) error {
	if len(s.prefixes) != 1 {
		return fmt.Errorf("IPAddresses are copied in one range, not in %d", len(s.prefixes))
	}
	if err := s.readService(ctx); err != nil {
		return err
	}
	var err error
	if s.ipAddress, err = read(ctx, s.etcd, ipAddressesPrefix+s.service.Spec.ClusterIP, &networkingv1.IPAddress{}); err != nil {
		return err
	}
	return s.write(ctx, s.putIPAddress)
}

// readService reads the template.
func (s *seeding) readService(ctx context.Context) (err error) {
	s.service, err = read(ctx, s.etcd, servicesPrefix+s.template, &corev1.Service{})
	return err
}

// putter returns the write of the i-th copy.
type putter func(i int, now metav1.Time) (clientv3.Op, error)

// write writes each copy in a revision of its own. A transaction of many would be faster, and wrong: they would share
// one resourceVersion, and a watch that is taken up again behind one of them would miss the rest.
func (s *seeding) write(ctx context.Context, put putter) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	start := time.Now()
	for i := s.from; i < s.to && ctx.Err() == nil; i++ {
		if s.pace > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i-s.from) * time.Second / time.Duration(s.pace))))
		}
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
	ip.Name, ip.UID, ip.CreationTimestamp = scatter(s.prefixes[0], i).String(), uuid.NewUUID(), now
	ip.Spec.ParentRef.Name = serviceName(i)
	return put(ipAddressesPrefix+ip.Name, networkingv1.SchemeGroupVersion.WithKind("IPAddress"), ip)
}

func (s *seeding) putService(i int, now metav1.Time) (clientv3.Op, error) {
	service := s.service.DeepCopy()
	service.Name, service.UID, service.CreationTimestamp = serviceName(i), uuid.NewUUID(), now
	service.Spec.ClusterIPs = nil
	for _, prefix := range s.prefixes {
		service.Spec.ClusterIPs = append(service.Spec.ClusterIPs, scatter(prefix, i).String())
	}
	service.Spec.ClusterIP = service.Spec.ClusterIPs[0]
	return put(servicesPrefix+service.Namespace+"/"+service.Name, corev1.SchemeGroupVersion.WithKind("Service"), service)
}

func serviceName(i int) string { return fmt.Sprintf("service-%06d", i) }
