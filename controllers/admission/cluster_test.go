package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/internal/webhook"
)

// cluster is an API server of few words: it keeps IPAddresses and Services, and its watches feed
// the index of a webhook. The hooks put faults in its way.
type cluster struct {
	client.Writer
	steerer *ServiceSteerer
	sources map[string]*cachetesting.FakeControllerSource

	mu        sync.Mutex
	addresses map[string]*networkingv1.IPAddress
	services  map[string]*corev1.Service // those that live; the watch may show others
	uids      int
	// deleting is called before a deletion, and makes it fail with its error.
	deleting func(*networkingv1.IPAddress) error
	// down: Services cannot be read any more.
	down   bool
	writes []string
}

var errDown = errors.New("connection refused")

// setting is what there is before a test.
type setting struct {
	policies   []*v1alpha1.ServiceCIDRPolicy
	cidrs      []*networkingv1.ServiceCIDR
	addresses  []*networkingv1.IPAddress
	services   []*corev1.Service
	namespaces client.Reader
}

func newCluster(t testing.TB, s setting) *cluster {
	t.Helper()
	c := &cluster{addresses: map[string]*networkingv1.IPAddress{}, services: map[string]*corev1.Service{}, sources: map[string]*cachetesting.FakeControllerSource{}}
	for _, o := range s.policies {
		c.source(o).Add(o)
	}
	for _, o := range s.cidrs {
		c.source(o).Add(o)
	}
	for _, o := range s.services {
		c.source(o).Add(o)
		c.services[o.Name] = o
	}
	for _, o := range s.addresses {
		c.put(o)
	}
	if s.namespaces == nil {
		s.namespaces = namespaceReader{"ns": {"team": "ns"}}
	}
	c.steerer = c.replica(t, s)
	return c
}

// replica starts a webhook with an index of its own.
func (c *cluster) replica(t testing.TB, s setting) *ServiceSteerer {
	t.Helper()
	policies, index := steering.NewCache(), addressindex.New()
	policies.Subscribe(func(_, after *steering.Compiled) { index.SetRules(after) })
	fed := &fed{cluster: c, ctx: t.Context(), made: map[string]toolscache.SharedIndexInformer{}}
	for _, watch := range []func(context.Context, cache.Informers) error{policies.Watch, index.Watch} {
		if err := watch(t.Context(), fed); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = policies.Start(t.Context()) }()
	await(t, "everything is listed", func() bool {
		return policies.Synced() && index.Synced() && len(policies.Current().Policies()) == len(s.policies) && policies.Current().Knows(v1alpha1.DefaultServiceCIDR)
	})
	return &ServiceSteerer{
		Writer: c, Namespaces: s.namespaces, Live: liveReader{s.namespaces, c}, Index: index, Policies: policies, Refusals: NewRefusals(nil, &events.FakeRecorder{}), Clock: clock.RealClock{},
	}
}

// await waits for longer than an address stays assumed of which nothing is seen.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// source is the watch of a kind.
func (c *cluster) source(o kruntime.Object) *cachetesting.FakeControllerSource {
	kind := fmt.Sprintf("%T", o)
	if c.sources[kind] == nil {
		c.sources[kind] = cachetesting.NewFakeControllerSource()
	}
	return c.sources[kind]
}

// fed are informers of the cluster.
type fed struct {
	cache.Informers
	cluster *cluster
	ctx     context.Context //nolint:containedctx // as long as the test
	made    map[string]toolscache.SharedIndexInformer
}

// GetInformer implements cache.Informers.
func (f *fed) GetInformer(_ context.Context, of client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	kind := fmt.Sprintf("%T", of)
	if f.made[kind] == nil {
		f.made[kind] = toolscache.NewSharedIndexInformer(f.cluster.source(of), of, 0, toolscache.Indexers{})
		go f.made[kind].Run(f.ctx.Done())
	}
	return f.made[kind], nil
}

// put stores an IPAddress as a new one.
func (c *cluster) put(o *networkingv1.IPAddress) {
	c.uids++
	o.UID = types.UID(fmt.Sprint("uid-", c.uids))
	o.CreationTimestamp = metav1.Now()
	c.addresses[o.Name] = o.DeepCopy()
	c.source(o).Add(o.DeepCopy())
}

// Delete implements client.Writer.
func (c *cluster) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	if c.deleting != nil {
		if err := c.deleting(o.(*networkingv1.IPAddress)); err != nil {
			return err
		}
	}
	there := c.addresses[o.GetName()]
	switch {
	case there == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "ipaddresses"}, o.GetName())
	case options.Preconditions == nil || options.Preconditions.UID == nil:
		return errors.New("a deletion without precondition")
	case *options.Preconditions.UID != there.UID:
		return apierrors.NewConflict(schema.GroupResource{Resource: "ipaddresses"}, o.GetName(), errors.New("another UID"))
	}
	c.drop(there)
	c.writes = append(c.writes, "delete "+there.Labels[v1alpha1.LabelPurpose])
	return nil
}

func (c *cluster) drop(o *networkingv1.IPAddress) {
	delete(c.addresses, o.Name)
	c.source(o).Delete(o)
}

// accept is the API server writing what it answers, IPAddresses, then the Service: all or nothing.
func (c *cluster) accept(name string, ips ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ip := range ips {
		if there := c.addresses[ip]; there != nil {
			return fmt.Errorf("%s is allocated already: %v", ip, there.Labels)
		}
	}
	for _, ip := range ips {
		c.put(upstream.NewIPAddress(netip.MustParseAddr(ip), types.NamespacedName{Namespace: "ns", Name: name}))
	}
	s := corev1Service(name, ips...)
	c.services[name] = s
	c.source(s).Add(s)
	return nil
}

// purposes are those of the IPAddresses that are left, by address.
func (c *cluster) purposes() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]string{}
	for name, o := range c.addresses {
		out[name] = o.Labels[v1alpha1.LabelPurpose]
	}
	return out
}

// namespaceReader are labels by namespace.
type namespaceReader map[string]map[string]string

// Get implements client.Reader.
func (n namespaceReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	labels, ok := n[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
	}
	into.SetName(key.Name)
	into.SetLabels(labels)
	return nil
}

// liveReader reads namespaces, and the Services and IPAddresses that the API server has.
type liveReader struct {
	client.Reader
	cluster *cluster
}

// Get implements client.Reader.
func (l liveReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	if ip, ok := into.(*networkingv1.IPAddress); ok {
		there, ok := l.cluster.addresses[key.Name]
		if !ok {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "ipaddresses"}, key.Name)
		}
		there.DeepCopyInto(ip)
		return nil
	}
	service, ok := into.(*corev1.Service)
	if !ok {
		return l.Reader.Get(ctx, key, into, o...)
	}
	if l.cluster.down {
		return errDown
	}
	there, ok := l.cluster.services[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, key.Name)
	}
	there.DeepCopyInto(service)
	return nil
}

// List implements client.Reader.
func (namespaceReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("nobody lists namespaces for a request")
}

func corev1Service(name string, ips ...string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: ips},
	}
	if len(ips) > 0 {
		s.Spec.ClusterIP = ips[0]
	}
	return s
}

// dualStack asks for both families.
func dualStack(s *corev1.Service) *corev1.Service {
	policy := corev1.IPFamilyPolicyRequireDualStack
	s.Spec.IPFamilyPolicy = &policy
	return s
}

func rangeOf(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
		Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{
			Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
		}}},
	}
}

func policyOfRanges(name string, change func(*v1alpha1.ServiceCIDRPolicySpec), cidrs ...string) *v1alpha1.ServiceCIDRPolicy {
	p := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.ServiceCIDRs = cidrs
	if change != nil {
		change(&p.Spec)
	}
	return p
}

// reservation is an IPAddress that the leader has written.
func reservation(ip string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{
		Name: ip, Labels: map[string]string{networkingv1.LabelManagedBy: v1alpha1.ManagedByOperator, v1alpha1.LabelPurpose: v1alpha1.PurposeReservation},
	}}
}

// create asks the webhook for a new Service.
func (c *cluster) create(t *testing.T, s *corev1.Service) answer {
	t.Helper()
	return c.ask(t, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: rawOf(t, s)}})
}

func (c *cluster) ask(t *testing.T, r admission.Request) answer {
	t.Helper()
	return askOf(t, c.steerer, r)
}

func askOf(t *testing.T, steerer *ServiceSteerer, r admission.Request) answer {
	t.Helper()
	if r.Namespace == "" {
		r.Namespace = "ns"
	}
	ctx, cancel := context.WithTimeout(t.Context(), webhook.Budget)
	defer cancel()
	response := steerer.Handle(ctx, r)
	a := answer{Allowed: response.Allowed, Warnings: response.Warnings}
	if response.Result != nil {
		a.Message = response.Result.Message
		if !a.Allowed && response.Result.Code != 403 {
			t.Errorf("refused with code %d", response.Result.Code)
		}
	}
	if err := response.Complete(r); err != nil { // one that was handed on is complete
		t.Error(err)
	}
	var patches []struct {
		Path  string
		Value json.RawMessage
	}
	if response.Patch != nil {
		if err := json.Unmarshal(response.Patch, &patches); err != nil {
			t.Error(err)
		}
	}
	for _, p := range patches {
		switch p.Path {
		case "/spec/clusterIPs":
			_ = json.Unmarshal(p.Value, &a.IPs)
		case "/spec/clusterIP":
			_ = json.Unmarshal(p.Value, &a.IP)
		default:
			t.Errorf("an unexpected patch of %s", p.Path)
		}
	}
	return a
}

func rawOf(t *testing.T, s *corev1.Service) kruntime.RawExtension {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return kruntime.RawExtension{Raw: raw}
}

// answer is what the API server hears.
type answer struct {
	Allowed  bool
	Message  string
	IP       string
	IPs      []string
	Warnings []string
}

// expectAtRest checks that nothing is in flight, and that of our IPAddresses only those are left.
func (c *cluster) expectAtRest(t *testing.T, left map[string]string) {
	t.Helper()
	if n := c.steerer.Index.InFlight(); n != 0 {
		t.Errorf("%d addresses are in flight", n)
	}
	got := c.purposes()
	for ip, purpose := range got {
		if purpose != "" && left[ip] != purpose {
			t.Errorf("left is %s for %s", ip, purpose)
		}
	}
	for ip, purpose := range left {
		if got[ip] != purpose {
			t.Errorf("%s for %s is gone", ip, purpose)
		}
	}
}

// usableOf lists the addresses of a small range.
func usableOf(text string) []string {
	r := allocator.MustParseRange(text)
	var out []string
	for a := r.Span().First; r.Contains(a); a = a.Next() {
		out = append(out, a.String())
	}
	return slices.Clip(out)
}
