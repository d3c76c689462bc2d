package migration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/clock"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// memory is a Store in memory, with revisions, guards, history and faults. It stores JSON; nothing
// here depends on the form. Make one with newMemory, within the bubble of synctest if there is one.
type memory struct {
	mu        sync.Mutex
	revision  int64
	compacted int64            // what happened up to here is forgotten
	keys      map[string]Value // as they are
	history   []Value          // every change in order; a deletion has no Raw
	changed   chan struct{}
	calls     []call
	ops       map[string]int // how many calls of each op

	// before is asked when a call begins, after when it has taken effect: the call answers with their
	// error instead. They may use the store, as another writer does.
	before, after func(call) error
}

// call is one use of the Store.
type call struct {
	op   string // Get, List, Watch or Commit
	key  string // or the prefix; of a Commit the key of its first write
	at   int    // how many of this op came before
	size int    // how many writes a Commit has
}

func newMemory() *memory {
	return &memory{changed: make(chan struct{}), revision: 1, keys: map[string]Value{}, ops: map[string]int{}}
}

var _ Store = (*memory)(nil)

// begin counts a call and lets before interfere.
func (m *memory) begin(op, key string, size int) (call, error) {
	m.mu.Lock()
	c := call{op: op, key: key, size: size, at: m.ops[op]}
	m.ops[op]++
	m.calls = append(m.calls, c)
	before := m.before
	m.mu.Unlock()
	if before == nil {
		return c, nil
	}
	return c, before(c)
}

// interfere sets before, while other goroutines use the store.
func (m *memory) interfere(before func(call) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = before
}

// once lets another writer act just before the next call of an op on a key that begins so.
func (m *memory) once(op, prefix string, do func()) {
	m.interfere(func(c call) error {
		if c.op == op && strings.HasPrefix(c.key, prefix) {
			m.interfere(nil)
			do()
		}
		return nil
	})
}

// fail answers every call of an op with an error, of any op if that is "".
func (m *memory) fail(op string, err error) {
	m.interfere(func(c call) error {
		if op == "" || c.op == op {
			return err
		}
		return nil
	})
}

func (m *memory) end(c call) error {
	if m.after == nil {
		return nil
	}
	return m.after(c)
}

// Get implements Store.
func (m *memory) Get(ctx context.Context, key string) (Value, error) {
	if _, err := m.begin("Get", key, 0); err != nil || ctx.Err() != nil {
		return Value{}, errors.Join(err, ctx.Err())
	}
	return m.now(key), nil
}

// List implements Store.
func (m *memory) List(ctx context.Context, prefix string, at int64, visit func(Value) error) (int64, error) {
	if _, err := m.begin("List", prefix, 0); err != nil {
		return 0, err
	}
	m.mu.Lock()
	if at == 0 {
		at = m.revision
	}
	all, forgotten := m.state(at), at < m.compacted
	m.mu.Unlock()
	if forgotten {
		return 0, ErrCompacted
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if below(key, prefix) {
			if err := visit(decoded(all[key])); err != nil {
				return 0, err
			}
		}
	}
	return at, nil
}

// Watch implements Store.
func (m *memory) Watch(ctx context.Context, prefix string, after int64, see func(Value) error) error {
	if _, err := m.begin("Watch", prefix, 0); err != nil {
		return err
	}
	for {
		m.mu.Lock()
		changed, forgotten := m.changed, after < m.compacted
		news := slices.DeleteFunc(slices.Clone(m.history), func(v Value) bool { return v.ModRevision <= after })
		m.mu.Unlock()
		if forgotten {
			return ErrCompacted
		}
		for _, v := range news {
			after = v.ModRevision
			if !below(v.Key, prefix) {
				continue
			}
			if err := see(decoded(v)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// below reports whether a key is in a folder; everything is in "".
func below(key, folder string) bool {
	return folder == "" || strings.HasPrefix(key, strings.TrimSuffix(folder, "/")+"/")
}

// Commit implements Store.
func (m *memory) Commit(ctx context.Context, writes []Write) (int64, error) {
	if len(writes) == 0 || len(writes) > MaxWrites {
		return 0, fmt.Errorf("a transaction of %d writes", len(writes))
	}
	c, err := m.begin("Commit", writes[0].Key, len(writes))
	if err != nil || ctx.Err() != nil {
		return 0, errors.Join(err, ctx.Err())
	}
	revision, err := m.commit(writes)
	if err != nil {
		return 0, err
	}
	return revision, m.end(c)
}

func (m *memory) commit(writes []Write) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range writes {
		if m.keys[w.Key].ModRevision != w.Guard {
			return 0, ErrConflict
		}
	}
	m.revision++
	for _, w := range writes {
		v := Value{Key: w.Key, CreateRevision: m.keys[w.Key].CreateRevision, ModRevision: m.revision, Raw: w.Raw}
		if v.CreateRevision == 0 {
			v.CreateRevision = m.revision
		}
		if w.Object != nil {
			v.Raw = encoded(w.Object, w.APIVersion)
		}
		m.history = append(m.history, v)
		m.keys[w.Key] = v
		if v.Raw == nil {
			delete(m.keys, w.Key)
		}
	}
	close(m.changed)
	m.changed = make(chan struct{})
	return m.revision, nil
}

// state is every key as it was at a revision.
func (m *memory) state(at int64) map[string]Value {
	if at == m.revision {
		return maps.Clone(m.keys)
	}
	all := map[string]Value{}
	for _, v := range m.history {
		switch {
		case v.ModRevision > at:
			return all
		case v.Raw == nil:
			delete(all, v.Key)
		default:
			all[v.Key] = v
		}
	}
	return all
}

// now is a key as it is; the zero Value with its Key if it does not exist.
func (m *memory) now(key string) Value {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.keys[key]
	if !ok {
		return Value{Key: key}
	}
	return decoded(v)
}

// put writes whatever is there: as API servers do, or an admin with etcdctl.
func (m *memory) put(w Write) {
	w.Guard = m.now(w.Key).ModRevision
	if _, err := m.commit([]Write{w}); err != nil {
		panic(err)
	}
}

func (m *memory) remove(key string) {
	if m.now(key).Exists() {
		m.put(Write{Key: key, Delete: true})
	}
}

// compact forgets what has happened up to now.
func (m *memory) compact() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compacted = m.revision
}

// commits is how often Commit was called.
func (m *memory) commits() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops["Commit"]
}

// String shows all keys and what matters of their values, so that two states compare as text. What
// differs from one try to the next (UIDs, times, revisions, names of notes) is left out.
func (m *memory) String() string {
	m.mu.Lock()
	all := m.state(m.revision)
	m.mu.Unlock()
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		v := decoded(all[key])
		if strings.HasPrefix(key, prefixNotes) {
			continue
		}
		fmt.Fprintf(&b, "%s %s %s\n", key, v.APIVersion, contents(v))
	}
	return b.String()
}

func contents(v Value) string {
	switch o := v.Object.(type) {
	case *corev1.Service:
		return fmt.Sprint(o.Spec.ClusterIPs)
	case *networkingv1.IPAddress:
		return fmt.Sprint(upstream.Service(o), o.Labels)
	case *networkingv1.ServiceCIDR:
		return fmt.Sprint(o.Spec.CIDRs)
	case *corev1.RangeAllocation:
		return fmt.Sprintf("%s %x", o.Range, o.Data)
	default:
		return fmt.Sprintf("%q", v.Raw)
	}
}

// memoryFormat is JSON of the kinds that matter; IPAddresses and ServiceCIDRs have two versions.
var memoryScheme, memoryFormat = func() (*runtime.Scheme, runtime.Serializer) {
	s := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(s))
	utilruntime.Must(networkingv1.AddToScheme(s))
	s.AddKnownTypes(schema.GroupVersion{Group: networkingv1.GroupName, Version: "v1beta1"}, &networkingv1.IPAddress{}, &networkingv1.ServiceCIDR{})
	return s, json.NewSerializerWithOptions(json.DefaultMetaFactory, s, s, json.SerializerOptions{})
}()

// encoded is an object with its kind. Like an API server it stores no resourceVersion.
func encoded(o runtime.Object, apiVersion string) []byte {
	o = o.DeepCopyObject()
	must(meta.Accessor(o)).SetResourceVersion("")
	kinds, _, err := memoryScheme.ObjectKinds(o)
	kind := must(kinds[0], err)
	if apiVersion != "" {
		kind = schema.FromAPIVersionAndKind(apiVersion, kind.Kind)
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
	return must(runtime.Encode(memoryFormat, o))
}

// decoded is a value with its object, or what is wrong with it.
func decoded(v Value) Value {
	if v.Raw == nil {
		return v
	}
	o, kind, err := memoryFormat.Decode(v.Raw, nil, nil)
	switch {
	case strings.HasPrefix(string(v.Raw), "k8s:enc:"):
		v.Err = ErrEncrypted
	case err != nil:
		v.Err = fmt.Errorf("the value, of %d bytes, is broken", len(v.Raw))
	default:
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		must(meta.Accessor(o)).SetResourceVersion(fmt.Sprint(v.ModRevision))
		v.Object, v.APIVersion = o, kind.GroupVersion().String()
	}
	return v
}

// kubeSystem is by what every memory with a cluster in it is known.
const kubeSystem = types.UID("uid-of-kube-system")

// holding fills a memory with a cluster of these Services, objects and bitmaps.
func holding(w Snapshot) *memory {
	m := newMemory()
	m.put(Write{Key: "namespaces/kube-system", Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: kubeSystem}}})
	for _, s := range w.Services {
		m.putService(s)
	}
	for _, ip := range w.IPAddresses {
		m.put(Write{Key: prefixIPAddresses + ip.Address.String(), Object: objectOf(ip)})
	}
	for _, c := range w.ServiceCIDRs {
		m.put(Write{Key: prefixServiceCIDRs + c.Name, Object: cidrObject(c)})
	}
	for _, b := range w.Bitmaps {
		m.putBitmap(b.Key, b.Bitmap)
	}
	return m
}

func (m *memory) putService(s Service) { m.put(Write{Key: keyOfService(s), Object: serviceObject(s)}) }

func (m *memory) putBitmap(key string, b *bitmap.Bitmap) {
	m.put(Write{Key: key, Object: &corev1.RangeAllocation{Range: b.String(), Data: b.Data()}})
}

// bitmap is what is stored, nil if that cannot be read.
func (m *memory) bitmap(key string) *bitmap.Bitmap { return newStoredBitmap(m.now(key)).Bitmap }

// sources reads from this memory alone.
func (m *memory) sources() Sources { return Sources{Store: m, Clock: clock.RealClock{}} }

// snapshot is what the memory holds, as a plan sees it.
func (m *memory) snapshot(t *testing.T) Snapshot {
	t.Helper()
	return must(m.sources().Snapshot(t.Context()))
}

func keyOfService(s Service) string { return prefixServices + s.Name.String() }

func serviceObject(s Service) *corev1.Service {
	o := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name.Namespace, Name: s.Name.Name, UID: s.UID, CreationTimestamp: metav1.NewTime(s.Created)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}},
	}
	for i, a := range s.Addresses {
		if i == 0 {
			o.Spec.ClusterIP, o.Spec.ClusterIPs = a.String(), nil
		}
		o.Spec.ClusterIPs = append(o.Spec.ClusterIPs, a.String())
	}
	o.Spec.ClusterIPs = append(o.Spec.ClusterIPs, s.Invalid...)
	return o
}

func objectOf(ip relation.IPAddress) *networkingv1.IPAddress {
	o := upstream.NewIPAddress(ip.Address, ip.Service)
	if ip.Service == (types.NamespacedName{}) {
		o.Spec.ParentRef = &networkingv1.ParentReference{Group: "example.com", Resource: "gateways", Name: "g"}
	}
	o.UID, o.CreationTimestamp, o.Finalizers = ip.UID, metav1.NewTime(ip.Created), ip.Finalizers
	o.Labels = map[string]string{networkingv1.LabelManagedBy: ip.ManagedBy, networkingv1.LabelIPAddressFamily: ip.Family}
	sign(o, ip.Deleting, ip.ByAPIServer)
	return o
}

func cidrObject(c ServiceCIDR) *networkingv1.ServiceCIDR {
	o := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: c.Name, UID: c.UID, Finalizers: c.Finalizers}}
	for _, p := range c.CIDRs {
		o.Spec.CIDRs = append(o.Spec.CIDRs, p.String())
	}
	sign(o, c.Deleting, c.ByAPIServer)
	return o
}

func sign(o metav1.Object, deleting, byAPIServer bool) {
	if deleting {
		o.SetDeletionTimestamp(&metav1.Time{Time: noon})
	}
	if byAPIServer {
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate}})
	}
}
