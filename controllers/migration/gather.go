package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// Sources is where a Snapshot is read from: an API server, its etcd, or both.
type Sources struct {
	// API reaches the API server; nil means that it is not asked. Served: it serves ServiceCIDRs and IPAddresses, under
	// APIVersion. Version is what it says of itself.
	API        client.Client
	Served     bool
	APIVersion string
	Version    *version.Info
	// Store reaches etcd; nil means that bitmaps are not looked at.
	Store Store
	// Ranges is the API server's --service-cluster-ip-range, nil if nobody told.
	Ranges []netip.Prefix
	Clock  clock.PassiveClock
}

// pageSize bounds what is in memory of a listing beside what is kept of it.
const pageSize = 1000

// Snapshot reads the cluster. With an API server it is read kind by kind: IPAddresses before Services, so that an IPAddress
// without a Service is one whose Service was gone when everything had been read. From etcd alone it is all of one revision.
func (s Sources) Snapshot(ctx context.Context) (Snapshot, error) {
	w := Snapshot{Now: s.Clock.Now(), Served: s.API != nil && s.Served, Given: s.Ranges}
	if s.Store != nil {
		if err := s.bitmaps(ctx, &w); err != nil {
			return Snapshot{}, fmt.Errorf("reading the bitmaps from etcd: %w", err)
		}
	}
	for _, read := range []struct {
		what string
		do   func(context.Context, *Snapshot) error
	}{
		{"IPAddresses", s.ipAddresses}, {"ServiceCIDRs", s.serviceCIDRs}, {"Services", s.services}, {"namespace kube-system", func(ctx context.Context, w *Snapshot) (err error) { w.Cluster, err = s.Cluster(ctx); return err }},
	} {
		if err := read.do(ctx, &w); err != nil {
			return Snapshot{}, fmt.Errorf("reading %s: %w", read.what, err)
		}
	}
	w.Allocator = s.allocator(w)
	return w, nil
}

// allocator tells from what the API servers allocate. An API server says its version; that of one which is down shows in what it
// wrote itself.
func (s Sources) allocator(w Snapshot) Allocator {
	c := w.defaultCIDR()
	created := c != nil && c.ByAPIServer || slices.ContainsFunc(w.IPAddresses, func(ip IPAddress) bool { return ip.ByAPIServer })
	minor, known := minorOf(s.Version)
	switch {
	case known && minor >= firstWithoutDualWrite:
		return AllocatorIPAddresses
	case known && (created || minor >= firstWithIPAddresses):
		return AllocatorBoth
	case known || !created && len(w.Bitmaps) > 0:
		return AllocatorBitmap
	case created:
		return AllocatorIPAddresses
	default:
		return AllocatorUnknown
	}
}

const (
	// firstWithIPAddresses is the minor version that allocates from IPAddresses by default.
	firstWithIPAddresses = 33
	// firstWithoutDualWrite is the one that does not keep the bitmap in step by default (DisableAllocatorDualWrite).
	firstWithoutDualWrite = 34
)

// minorOf reads the minor version of Kubernetes 1; "32+" is how some vendors write it.
//
// A server that emulates an older version (KEP-4330) behaves like that one.
func minorOf(v *version.Info) (minor int, ok bool) {
	if v == nil || v.Major != "1" {
		return 0, false
	}
	n, err := fmt.Sscanf(cmp.Or(v.EmulationMinor, v.Minor), "%d", &minor)
	return minor, n == 1 && err == nil
}

// bitmaps reads both keys as they were at one moment.
func (s Sources) bitmaps(ctx context.Context, w *Snapshot) error {
	w.Looked = true
	revision, err := s.Store.List(ctx, prefixRanges, 0, func(v Value) error {
		if v.Key == KeyPrimary || v.Key == KeySecondary { // the third one is of node ports
			w.Bitmaps = append(w.Bitmaps, newStoredBitmap(v))
		}
		return nil
	})
	w.Revision = revision
	slices.SortFunc(w.Bitmaps, func(a, b StoredBitmap) int { return cmp.Compare(b.Key, a.Key) }) // serviceips first
	return err
}

func newStoredBitmap(v Value) StoredBitmap {
	s := StoredBitmap{Key: v.Key, ModRevision: v.ModRevision, Err: v.Err}
	if v.Err != nil {
		return s
	}
	allocation, ok := v.Object.(*corev1.RangeAllocation)
	if !ok {
		s.Err = fmt.Errorf("it holds a %T instead of a RangeAllocation", v.Object)
		return s
	}
	s.Range = allocation.Range
	s.Bitmap, s.Err = bitmap.Parse(allocation.Range, allocation.Data)
	return s
}

func (s Sources) services(ctx context.Context, w *Snapshot) error {
	if s.API != nil {
		return pages(ctx, s.API, &corev1.ServiceList{}, func() { w.Services = nil }, func(l *corev1.ServiceList) {
			for i := range l.Items {
				w.Services = append(w.Services, newService(&l.Items[i]))
			}
		})
	}
	return fromStore(ctx, s.Store, prefixServices, w, func(o *corev1.Service) {
		w.Services = append(w.Services, newService(o))
	})
}

func (s Sources) ipAddresses(ctx context.Context, w *Snapshot) error {
	switch {
	case s.API != nil && s.Served:
		return pages(ctx, s.API, &networkingv1.IPAddressList{}, func() { w.IPAddresses = nil }, func(l *networkingv1.IPAddressList) {
			for i := range l.Items {
				w.addIPAddress(&l.Items[i])
			}
		})
	case s.Store == nil:
		return nil
	}
	return fromStore(ctx, s.Store, prefixIPAddresses, w, w.addIPAddress)
}

func (w *Snapshot) addIPAddress(o *networkingv1.IPAddress) {
	if ip, ok := newIPAddress(o); ok {
		w.IPAddresses = append(w.IPAddresses, ip)
	}
}

func (s Sources) serviceCIDRs(ctx context.Context, w *Snapshot) error {
	switch {
	case s.API != nil && s.Served:
		return pages(ctx, s.API, &networkingv1.ServiceCIDRList{}, func() { w.ServiceCIDRs = nil }, func(l *networkingv1.ServiceCIDRList) {
			for i := range l.Items {
				w.ServiceCIDRs = append(w.ServiceCIDRs, newServiceCIDR(&l.Items[i]))
			}
		})
	case s.Store == nil:
		return nil
	}
	return fromStore(ctx, s.Store, prefixServiceCIDRs, w, func(o *networkingv1.ServiceCIDR) {
		w.ServiceCIDRs = append(w.ServiceCIDRs, newServiceCIDR(o))
	})
}

// Cluster reads by what a plan knows its cluster: the UID of namespace kube-system.
func (s Sources) Cluster(ctx context.Context) (types.UID, error) {
	if s.API != nil {
		ns := &corev1.Namespace{}
		err := retry(ctx, func() error { return s.API.Get(ctx, types.NamespacedName{Name: "kube-system"}, ns) })
		return ns.UID, client.IgnoreNotFound(err)
	}
	v, err := s.Store.Get(ctx, keyOfCluster)
	if ns, ok := v.Object.(*corev1.Namespace); ok {
		return ns.UID, err
	}
	return "", err
}

// Check makes sure that etcd is that of the API server, and that the prefix is right: every cluster has the namespace kube-system.
func (s Sources) Check(ctx context.Context) error {
	if s.Store == nil {
		return nil
	}
	v, err := s.Store.Get(ctx, keyOfCluster)
	if err != nil {
		return err
	}
	if !v.Exists() {
		return errors.New("there is no cluster in this etcd: it has no namespace kube-system below --etcd-prefix; look at --etcd-servers and --etcd-prefix")
	}
	ns, ok := v.Object.(*corev1.Namespace)
	if !ok || s.API == nil {
		return nil // encrypted: it cannot be told
	}
	switch uid, err := s.Cluster(ctx); {
	case err != nil:
		return err
	case uid != ns.UID:
		return fmt.Errorf("etcd is that of cluster %s, the API server is of cluster %s (UIDs of namespace kube-system): look at --etcd-servers and at the kubeconfig", ns.UID, uid)
	}
	return nil
}

// keyOfCluster is where the namespace kube-system is.
const keyOfCluster = "namespaces/kube-system"

// Where an API server keeps what we read, relative to its prefix.
const (
	prefixRanges       = "ranges/"
	prefixServices     = "services/specs/"
	prefixIPAddresses  = "ipaddresses/"
	prefixServiceCIDRs = "servicecidrs/"
)

// pages lists a kind page by page. When the API server has forgotten the revision of the listing it is begun anew.
func pages[L client.ObjectList](ctx context.Context, c client.Client, list L, begin func(), keep func(L)) error {
	begin()
	for token := ""; ; {
		err := retry(ctx, func() error { return c.List(ctx, list, client.Limit(pageSize), client.Continue(token)) })
		switch {
		case apierrors.IsResourceExpired(err):
			begin()
			token = ""
			continue
		case err != nil:
			return err
		}
		keep(list)
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}

// fromStore reads all objects below a prefix, and notes those that cannot be decoded.
func fromStore[T any](ctx context.Context, store Store, prefix string, w *Snapshot, keep func(*T)) error {
	_, err := store.List(ctx, prefix, w.Revision, func(v Value) error {
		switch object, ok := any(v.Object).(*T); {
		case ok:
			keep(object)
		default:
			w.Unreadable = append(w.Unreadable, Unreadable{Key: v.Key, Err: cmp.Or(v.Err, fmt.Errorf("it holds a %T", v.Object))})
		}
		return nil
	})
	return err
}

// confirmAfter is how long a finding must last: a Service under creation has its bit, or its IPAddress, before it exists.
const confirmAfter = 3 * time.Second

// Confirmed returns a plan of which every finding was seen twice, some seconds apart; what only one of the two looks saw was a
// write under way.
func (s Sources) Confirmed(ctx context.Context, o Options) (Plan, error) {
	w, err := s.Snapshot(ctx)
	if err != nil {
		return Plan{}, err
	}
	first := NewPlan(w, o)
	if s.API == nil || first.Clean() {
		return first, nil
	}
	if err := sleep(ctx, confirmAfter); err != nil {
		return Plan{}, err
	}
	if w, err = s.Snapshot(ctx); err != nil {
		return Plan{}, err
	}
	return confirm(first, NewPlan(w, o)), nil
}

// confirm keeps of the second plan what the first had as well.
func confirm(first, second Plan) Plan {
	findings, steps := map[string]bool{}, map[string]bool{}
	for _, f := range first.Findings {
		findings[f.key()] = true
	}
	for _, s := range first.Steps {
		steps[s.key()] = true
	}
	before := len(second.Findings)
	second.Findings = slices.DeleteFunc(second.Findings, func(f Finding) bool { return !findings[f.key()] })
	second.Passing = before - len(second.Findings)
	drifted := slices.ContainsFunc(second.Findings, Finding.ofBits)
	second.Steps = slices.DeleteFunc(second.Steps, func(s Step) bool {
		return !steps[s.key()] || s.Do == RepairBitmap && !drifted // each look finds other Services under way
	})
	return second
}

// ofBits reports whether the finding is mended by RepairBitmap.
func (f Finding) ofBits() bool {
	return f.Kind == LeakedBit || f.Kind == MissingBit || f.Kind == BitmapEmpty
}

func (f Finding) key() string {
	return strings.Join([]string{string(f.Kind), f.Address.String(), strings.Join(f.Objects, ",")}, "|")
}
