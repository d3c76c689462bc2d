package million

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// ranges are those of the cluster: an IPv4 range as large as API servers take, of 1,048,574
// addresses, and another one beside it, so that a million Services do not fill them.
var ranges = map[allocator.Family][]netip.Prefix{
	allocator.IPv4: {netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.112.0.0/12")},
	allocator.IPv6: {netip.MustParsePrefix("fd00:10:96::/108"), netip.MustParsePrefix("fd00:10:112::/108")},
}

// address is that of the i-th Service: every other address of all ranges of the family, in the
// order of a walk that jumps far.
func address(f allocator.Family, i int) netip.Addr {
	const places, step = 1 << 20, 611953 // no factor in common: each place is met once
	place := uint32(i*step%places) * 2
	in := ranges[f][place>>20]
	a := in.Addr().AsSlice()
	low := a[len(a)-4:]
	binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+place&(1<<20-1)+1)
	out, _ := netip.AddrFromSlice(a)
	return out
}

func name(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: fmt.Sprint("team-", i%1000), Name: fmt.Sprintf("service-%07d", i)}
}

// feeds hand objects to an index as the informers of a cache do, and keep none.
type feeds struct {
	cache.Informers
	of map[string]toolscache.ResourceEventHandler // by type
}

// GetInformer implements cache.Informers.
func (f feeds) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return feed{of: f.of, kind: fmt.Sprintf("%T", o)}, nil
}

type feed struct {
	cache.Informer
	of   map[string]toolscache.ResourceEventHandler
	kind string
}

// AddEventHandler implements cache.Informer.
func (f feed) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	f.of[f.kind] = h
	return listed{}, nil
}

type listed struct {
	toolscache.ResourceEventHandlerRegistration
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (listed) HasSynced() bool { return true }

func (f feeds) add(o client.Object) { f.of[fmt.Sprintf("%T", o)].OnAdd(o, true) }

// addService hands over the i-th Service with its IPAddresses.
func (f feeds) addService(i int) {
	n := name(i)
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name, ResourceVersion: "1"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}}
	for _, family := range allocator.Families {
		a := address(family, i)
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, a.String())
		f.add(&networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: a.String(), ResourceVersion: "1", Labels: labels[family]},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: n.Namespace, Name: n.Name}},
		})
	}
	f.add(s)
}

// labels are those that API servers write.
var labels = map[allocator.Family]map[string]string{
	allocator.IPv4: {networkingv1.LabelManagedBy: v1alpha1.ManagedByAPIServer, networkingv1.LabelIPAddressFamily: "IPv4"},
	allocator.IPv6: {networkingv1.LabelManagedBy: v1alpha1.ManagedByAPIServer, networkingv1.LabelIPAddressFamily: "IPv6"},
}

// index measures the manager's part.
func (m *measuring) index(ctx context.Context) error {
	ix, in := addressindex.New(), feeds{of: map[string]toolscache.ResourceEventHandler{}}
	if err := ix.WatchAddresses(ctx, in); err != nil {
		return err
	}
	for i := range ranges[allocator.IPv4] {
		cidrs := []string{ranges[allocator.IPv4][i].String(), ranges[allocator.IPv6][i].String()}
		in.add(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("range-", i), ResourceVersion: "1"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}})
	}
	err := m.fill(Part{Name: "address index"}, func() error {
		for i := range m.size.Services {
			in.addService(i)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	m.each("a Service with two addresses comes: events on the index", func(i int) { in.addService(m.size.Services + i) })
	return m.pool(ix)
}

// pool measures draws, and counts of what is used, in the filled index.
func (m *measuring) pool(ix *addressindex.Index) error {
	for _, f := range allocator.Families {
		r, err := allocator.NewRange(ranges[f][0])
		if err != nil {
			return err
		}
		tier, err := allocator.NewTier([]allocator.Span{r.Band(allocator.Dynamic), r.Band(allocator.Static)}, nil)
		if err != nil {
			return err
		}
		tiers, failed := []*allocator.Tier{tier}, error(nil)
		m.each(fmt.Sprintf("an address is drawn and let go, %s", f), func(i int) {
			to := addressindex.Holder{Service: name(i)}
			drawn, err := ix.Draw(tiers, to)
			if err != nil {
				failed = err
				return
			}
			ix.Forget(drawn.Addr, to)
		})
		if failed != nil {
			return fmt.Errorf("drawing an address: %w", failed)
		}
		m.each(fmt.Sprintf("what is used of a range is counted, %s", f), func(int) { ix.Usage(r.Span()) })
	}
	return nil
}
