package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// Sources is where a Snapshot is read from: an API server, its etcd, or both.
type Sources struct {
	API        client.Client // reaches the API server; nil means that it is not asked
	Served     bool          // it serves ServiceCIDRs and IPAddresses, under APIVersion
	APIVersion string
	Version    *version.Info  // what it says of itself
	Servers    []APIServer    // all of the cluster's, where the command has asked for them
	Store      Store          // reaches etcd; nil means that bitmaps are not looked at
	Ranges     []netip.Prefix // the API server's --service-cluster-ip-range, nil if the admin gave none
	Clock      clock.PassiveClock
}

// Store is the storage of an API server, which only package etcdstore reaches. A key without a
// leading slash is relative to the API server's prefix ("ranges/serviceips"). The methods may be
// called concurrently; while the store is away they wait, with back-off, until ctx ends.
type Store interface {
	// Get reads a key. A key that does not exist is a Value with ModRevision 0 and no error.
	Get(ctx context.Context, key string) (Value, error)
	// List visits all keys below a folder ("ranges/"), in ascending order, page by page, as they were
	// at one revision (0: now), which it returns. It ends early with the error of visit.
	List(ctx context.Context, prefix string, at int64, visit func(Value) error) (revision int64, err error)
	// Watch shows each change below a folder after a revision, in order, until ctx ends or see fails.
	// A deleted key is a Value with the deletion's ModRevision, no Raw. ErrCompacted: list again.
	Watch(ctx context.Context, prefix string, after int64, see func(Value) error) error
	// Commit writes all or nothing in one transaction, and returns its revision; see ErrConflict.
	Commit(ctx context.Context, writes []Write) (revision int64, err error)
}

// MaxWrites is how many writes a Commit takes at most: etcd's default --max-txn-ops.
const MaxWrites = 128

var (
	// ErrConflict says that a key was not as the guard of a Write wanted it; nothing was written.
	ErrConflict = errors.New("the key was changed by another writer")
	// ErrCompacted says that the store has forgotten what happened after a revision.
	ErrCompacted = errors.New("the store has forgotten the changes after that revision")
	// ErrEncrypted is in Value.Err if the API server encrypts its storage (EncryptionConfiguration).
	ErrEncrypted = errors.New("the value is encrypted at rest")
)

// Value is what the store has for a key.
type Value struct {
	Key string // relative to the prefix, like that of a Write
	Raw []byte // as it is stored; nil for a key that does not exist
	// CreateRevision and ModRevision are of the key's creation and of its last change.
	CreateRevision, ModRevision int64
	// Object is Raw decoded, with the ModRevision as resourceVersion: an object of k8s.io/api core/v1,
	// or networking/v1 whatever version was stored. It is nil with Err set if that was not possible.
	Object     runtime.Object
	APIVersion string // that the value was stored in, "networking.k8s.io/v1beta1"
	Err        error  // ErrEncrypted, or what is wrong with the bytes
}

// Exists reports whether the key has a value.
func (v Value) Exists() bool { return v.Raw != nil }

// Write is one change of a Commit.
type Write struct {
	Key   string
	Guard int64 // the ModRevision that the key must have; 0: it must not exist
	// Object is stored as kube-apiserver does it (protobuf in its envelope), in APIVersion or else v1.
	Object     runtime.Object
	APIVersion string
	// Raw is stored as it is. Exactly one of Object and Raw is set, or Delete.
	Raw    []byte
	Delete bool
}

// pageSize bounds what is in memory of a listing beside what is kept of it.
const pageSize = 1000

// Where an API server keeps what we read, relative to its prefix.
const (
	prefixRanges       = "ranges/"
	prefixServices     = "services/specs/"
	prefixIPAddresses  = "ipaddresses/"
	prefixServiceCIDRs = "servicecidrs/"
	keyOfCluster       = "namespaces/kube-system"
)

// Snapshot reads the cluster. An API server is read kind by kind, IPAddresses before Services: one
// without a Service has lost it by the end. From etcd alone, all is of one revision.
func (s Sources) Snapshot(ctx context.Context) (Snapshot, error) {
	for {
		w, err := s.read(ctx)
		if !apierrors.IsResourceExpired(err) { // the API server has forgotten the revision of a listing
			return w, err
		}
	}
}

func (s Sources) read(ctx context.Context) (w Snapshot, err error) {
	w = Snapshot{Now: s.Clock.Now(), Served: s.API != nil && s.Served, Given: s.Ranges}
	if s.Store != nil {
		if err := s.readBitmaps(ctx, &w); err != nil {
			return Snapshot{}, fmt.Errorf("reading the bitmaps from etcd: %w", err)
		}
	}
	for _, kind := range []struct {
		list   client.ObjectList
		prefix string
	}{
		{&networkingv1.IPAddressList{}, prefixIPAddresses}, {&networkingv1.ServiceCIDRList{}, prefixServiceCIDRs}, {&corev1.ServiceList{}, prefixServices},
	} {
		switch {
		case s.API != nil && (s.Served || kind.prefix == prefixServices):
			err = w.readAPI(ctx, s.API, kind.list)
		case s.Store != nil:
			err = w.readStore(ctx, s.Store, kind.prefix)
		}
		if err != nil {
			return Snapshot{}, fmt.Errorf("reading %s: %w", kind.prefix, err)
		}
	}
	if w.Cluster, err = s.Cluster(ctx); err != nil {
		return Snapshot{}, fmt.Errorf("reading namespace kube-system: %w", err)
	}
	w.Allocator = s.allocator(w)
	return w, nil
}

func (s Sources) readBitmaps(ctx context.Context, w *Snapshot) (err error) {
	w.Revision, err = s.Store.List(ctx, prefixRanges, 0, func(v Value) error {
		if v.Key == KeyPrimary || v.Key == KeySecondary { // the third one is of node ports
			w.Bitmaps = append(w.Bitmaps, newStoredBitmap(v))
		}
		return nil
	})
	slices.SortFunc(w.Bitmaps, func(a, b StoredBitmap) int { return cmp.Compare(b.Key, a.Key) }) // serviceips first
	return err
}

func newStoredBitmap(v Value) StoredBitmap {
	s := StoredBitmap{Key: v.Key, ModRevision: v.ModRevision, Err: v.Err}
	switch allocation, ok := v.Object.(*corev1.RangeAllocation); {
	case v.Err != nil:
	case !ok:
		s.Err = fmt.Errorf("it holds a %T instead of a RangeAllocation", v.Object)
	default:
		s.Range = allocation.Range
		s.Bitmap, s.Err = bitmap.Parse(allocation.Range, allocation.Data)
	}
	return s
}

func (w *Snapshot) readAPI(ctx context.Context, c client.Client, list client.ObjectList) error {
	for {
		token := list.GetContinue()
		if err := batch.Retry(ctx, func() error { return c.List(ctx, list, client.Limit(pageSize), client.Continue(token)) }); err != nil {
			return err
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error { w.add(o); return nil }); err != nil || list.GetContinue() == "" {
			return err
		}
	}
}

func (w *Snapshot) readStore(ctx context.Context, store Store, prefix string) error {
	_, err := store.List(ctx, prefix, w.Revision, func(v Value) error {
		if !w.add(v.Object) {
			w.Unreadable = append(w.Unreadable, Value{Key: v.Key, Err: cmp.Or(v.Err, fmt.Errorf("it holds a %T", v.Object))})
		}
		return nil
	})
	return err
}

func (w *Snapshot) add(o runtime.Object) bool {
	switch o := o.(type) {
	case *corev1.Service:
		w.Services = append(w.Services, newService(o))
	case *networkingv1.IPAddress:
		if ip, ok := relation.NewIPAddress(o); ok {
			w.IPAddresses = append(w.IPAddresses, ip)
		}
	case *networkingv1.ServiceCIDR:
		w.ServiceCIDRs = append(w.ServiceCIDRs, newServiceCIDR(o))
	default:
		return false
	}
	return true
}

// allocator tells what API servers allocate from, by their version or, if down, by what they wrote.
func (s Sources) allocator(w Snapshot) Allocator {
	c := w.defaultCIDR()
	created := c != nil && c.ByAPIServer || slices.ContainsFunc(w.IPAddresses, func(ip relation.IPAddress) bool { return ip.ByAPIServer })
	minor, known := upstream.Minor(s.Version)
	switch {
	case known && minor >= firstWithoutDualWrite && !slices.ContainsFunc(s.Servers, APIServer.KeepsBitmaps):
		return AllocatorIPAddresses
	case known && (created || minor >= firstWithoutDualWrite):
		return AllocatorBoth
	case known || !created && len(w.Bitmaps) > 0:
		return AllocatorBitmap
	case created:
		return AllocatorIPAddresses
	default:
		return AllocatorUnknown
	}
}

// Cluster reads by what a plan knows its cluster: the UID of namespace kube-system.
func (s Sources) Cluster(ctx context.Context) (types.UID, error) {
	if s.API != nil {
		ns := &corev1.Namespace{}
		err := batch.Retry(ctx, func() error { return s.API.Get(ctx, types.NamespacedName{Name: "kube-system"}, ns) })
		return ns.UID, client.IgnoreNotFound(err)
	}
	v, err := s.Store.Get(ctx, keyOfCluster)
	if ns, ok := v.Object.(*corev1.Namespace); ok {
		return ns.UID, err
	}
	return "", err
}

// Check makes sure that etcd is the API server's and the prefix right, by namespace kube-system.
func (s Sources) Check(ctx context.Context) error {
	if s.Store == nil {
		return nil
	}
	v, err := s.Store.Get(ctx, keyOfCluster)
	ns, ok := v.Object.(*corev1.Namespace)
	switch {
	case err == nil && !v.Exists():
		return errors.New("there is no cluster in this etcd: it has no namespace kube-system below --etcd-prefix; look at --etcd-servers and --etcd-prefix")
	case err != nil, !ok, s.API == nil:
		return err // if it is encrypted it cannot be told
	}
	uid, err := s.Cluster(ctx)
	if err == nil && uid != ns.UID {
		err = fmt.Errorf("etcd is that of cluster %s, the API server is of cluster %s (UIDs of namespace kube-system): look at --etcd-servers and at the kubeconfig", ns.UID, uid)
	}
	return err
}
