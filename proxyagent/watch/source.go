package watch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// labelProxyName is the label of Services that are for another proxy than the cluster's default one.
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// byService is the index of EndpointSlices by the key of their Service.
const byService = "service"

const (
	// nodeTimeout is how long to wait for the own Node, from when Services and EndpointSlices are known. Without it there is no zone and
	// no podCIDR, so that the first rules would soon be replaced; but traffic flows. A Node that is not registered is not waited for: the
	// agent may start before the kubelet.
	nodeTimeout = 5 * time.Second
	// networkingTimeout is the same for IPAddresses and ServiceCIDRs. Some clusters do not let us read them.
	networkingTimeout = 10 * time.Second
)

// Options say what to follow. NodeName is required, the rest may be zero.
type Options struct {
	// NodeName is the Node that the agent runs on.
	NodeName string
	// ProxyName follows only Services with this value of the label service.kubernetes.io/service-proxy-name; empty: only those
	// without the label.
	ProxyName string
	// Allocations defaults to [model.Prefer]. It decides what happens without IPAddresses, and nothing else here.
	Allocations model.AllocationMode
	// Resync is the period of the informers, zero for none. Nothing here depends on it.
	Resync time.Duration
	// Logger gets what goes wrong; its zero value discards that.
	Logger logr.Logger
}

// Source follows an API server. Its methods may be called concurrently, Run once.
//
// Memory follows the number of objects; an event and the Take after it cost what the Services concerned cost.
type Source struct {
	client  kubernetes.Interface
	options Options
	reports *reports
	pending *pending
	ready   chan struct{}

	services  *informer[*service]
	slices    *informer[*slice]
	nodes     *informer[*node]
	addresses *view[*allocation]
	cidrs     *view[*serviceCIDR]

	running atomic.Bool
	absent  sync.Once // for saying that there are no IPAddresses
	// began is set before the informers run.
	began time.Time

	taking sync.Mutex
	// last is the Node as it was known last, under taking.
	last model.Node
}

// New prepares a Source that follows nothing yet. It returns an error for options that can never work.
func New(client kubernetes.Interface, o Options) (*Source, error) {
	if o.NodeName == "" {
		return nil, errors.New("following the API server: no name of the own node")
	}
	s := &Source{
		client: client, options: o, reports: newReports(o.Logger), pending: newPending(), ready: make(chan struct{}),
		last:      model.Node{Name: o.NodeName},
		addresses: newView[*allocation](), cidrs: newView[*serviceCIDR](),
	}
	var failed, err error
	s.services, err = s.serviceInformer()
	failed = errors.Join(failed, err)
	s.slices, err = s.sliceInformer()
	failed = errors.Join(failed, err)
	s.nodes, err = s.nodeInformer()
	return s, errors.Join(failed, err)
}

// Run follows the API server until ctx ends, and returns nil then. It returns [ErrNotServed] early where allocations are to be enforced
// and there are none. API servers that do not answer are no error, however long they do not. The second call is an error.
func (s *Source) Run(ctx context.Context) error {
	if s.running.Swap(true) {
		return errors.New("following the API server: already running")
	}
	s.began = time.Now()
	ctx, cancel := context.WithCancel(logr.NewContext(ctx, s.options.Logger))
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for _, shared := range []cache.SharedIndexInformer{s.services.shared, s.slices.shared, s.nodes.shared} {
		group.Go(func() { shared.RunWithContext(ctx) })
	}
	group.Go(func() { s.gate(ctx) })
	return s.followNetworking(ctx)
}

// Ready returns a channel that is closed once everything has been listed that [Source.Take] has to tell. Where Node, IPAddresses or
// ServiceCIDRs cannot be read it is closed after a while without them, and they are delivered later; except IPAddresses with
// [model.Enforce], because then nothing could be served.
func (s *Source) Ready() <-chan struct{} { return s.ready }

// Wake returns a channel that holds a token when there is something to take, the first time when the Source becomes ready. One token
// stands for any number of events.
func (s *Source) Wake() <-chan struct{} { return s.pending.wake }

// Take returns what may have changed since it was called last, the first time everything. Before Ready that is nothing.
//
// A deleted Node is delivered as it was last, with Leaving set. Slices in the result are shared with later results and not changed.
func (s *Source) Take() model.Changes {
	s.taking.Lock()
	defer s.taking.Unlock()
	b, ok := s.pending.take()
	if !ok {
		return model.Changes{}
	}
	return model.Changes{
		Services:       s.takeServices(b.services),
		Allocations:    s.takeAllocations(b.allocations),
		Ranges:         s.takeRanges(b.ranges),
		Node:           s.takeNode(b.node),
		Triggers:       b.triggers,
		ServiceEvents:  b.serviceEvents,
		EndpointEvents: b.sliceEvents,
	}
}

func (s *Source) takeServices(names map[model.ServiceName]struct{}) map[model.ServiceName]*model.Service {
	if len(names) == 0 {
		return nil
	}
	out := make(map[model.ServiceName]*model.Service, len(names))
	for name := range names {
		out[name] = s.build(name)
	}
	return out
}

// build puts a Service together with its endpoints; nil for one that is not served.
func (s *Source) build(name model.ServiceName) *model.Service {
	known, ok := s.services.get(name.String())
	if !ok || !known.served {
		return nil
	}
	out := known.model
	out.Endpoints = s.endpoints(name)
	return &out
}

func (s *Source) endpoints(name model.ServiceName) []model.Endpoint {
	found, err := s.slices.shared.GetIndexer().ByIndex(byService, name.String())
	if err != nil {
		return nil // the index is there from the beginning
	}
	n := 0
	for _, obj := range found {
		n += len(obj.(*slice).ports) * len(obj.(*slice).addresses)
	}
	out := make([]model.Endpoint, 0, n)
	for _, obj := range found {
		out = obj.(*slice).appendEndpoints(out)
	}
	return out
}

func (s *Source) takeAllocations(addrs map[netip.Addr]struct{}) map[netip.Addr]*model.Allocation {
	if len(addrs) == 0 {
		return nil
	}
	out := make(map[netip.Addr]*model.Allocation, len(addrs))
	for addr := range addrs {
		out[addr] = nil
		if known, ok := s.addresses.get(addr.String()); ok {
			out[addr] = &known.model
		}
	}
	return out
}

func (s *Source) takeRanges(changed bool) *[]netip.Prefix {
	shown := s.cidrs.current.Load()
	if !changed || shown == nil {
		return nil
	}
	ranges := rangesOf(shown.all())
	return &ranges
}

func (s *Source) takeNode(changed bool) *model.Node {
	if !changed {
		return nil
	}
	if known, ok := s.nodes.get(s.options.NodeName); ok {
		s.last = known.model
	} else {
		// Pods may still run here, and the podCIDRs tell their traffic from others: they stay.
		s.last.Leaving = true
	}
	now := s.last
	return &now
}

// gate opens pending once everything is known, or the timeouts have passed.
func (s *Source) gate(ctx context.Context) {
	if !closed(ctx, s.services.synced) || !closed(ctx, s.slices.synced) {
		return
	}
	began := time.Now()
	s.await(ctx, "Node", s.nodes.synced, began.Add(nodeTimeout))
	s.await(ctx, "ServiceCIDR", s.cidrs.known, began.Add(networkingTimeout))
	s.await(ctx, "IPAddress", s.addresses.known, began.Add(networkingTimeout))
	if s.options.Allocations == model.Enforce {
		closed(ctx, s.addresses.known)
	}
	if ctx.Err() == nil {
		s.pending.open()
		close(s.ready)
	}
}

// await waits until a kind is known, or until a point in time.
func (s *Source) await(ctx context.Context, kind string, known <-chan struct{}, until time.Time) {
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if !closed(waiting, known) && ctx.Err() == nil {
		s.options.Logger.Info("Not known yet and waited for long enough; taken in when it comes", "kind", kind)
	}
}

// sayLate logs that a kind is known which await gave up waiting for.
func (s *Source) sayLate(kind string) {
	select {
	case <-s.ready:
		s.options.Logger.Info("Listed again, or for the first time after failures", "kind", kind)
	default:
	}
}

func (s *Source) serviceInformer() (*informer[*service], error) {
	selector, err := proxySelector(s.options.ProxyName)
	if err != nil {
		return nil, err
	}
	withIP := fields.OneTermNotEqualSelector("spec.clusterIP", corev1.ClusterIPNone).String()
	return newInformer(kind[*corev1.Service, *service]{
		name:    "Service",
		objects: listWatch(s.client, s.client.CoreV1().Services(metav1.NamespaceAll), selector, withIP),
		example: &corev1.Service{},
		convert: convertService,
		changed: s.serviceChanged,
		resync:  s.options.Resync,
	}, s.reports)
}

// sliceInformer does not select by the proxy's name, as kube-proxy does not: the label counts on the Service alone, and EndpointSlices that
// were written by hand do not have it.
func (s *Source) sliceInformer() (*informer[*slice], error) {
	return newInformer(kind[*discoveryv1.EndpointSlice, *slice]{
		name:    "EndpointSlice",
		objects: listWatch(s.client, s.client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll), "!"+corev1.IsHeadlessService, ""),
		example: &discoveryv1.EndpointSlice{},
		convert: convertSlice,
		index:   cache.Indexers{byService: serviceOf},
		changed: s.sliceChanged,
		resync:  s.options.Resync,
	}, s.reports)
}

func (s *Source) nodeInformer() (*informer[*node], error) {
	own := fields.OneTermEqualSelector(metav1.ObjectNameField, s.options.NodeName).String()
	return newInformer(kind[*corev1.Node, *node]{
		name:    "Node",
		objects: listWatch(s.client, s.client.CoreV1().Nodes(), "", own),
		example: &corev1.Node{},
		convert: convertNode,
		changed: s.nodeChanged,
		resync:  s.options.Resync,
	}, s.reports)
}

// proxySelector selects the Services of a proxy by its name; empty for the cluster's default one.
func proxySelector(name string) (string, error) {
	operator, values := selection.DoesNotExist, []string(nil)
	if name != "" {
		operator, values = selection.Equals, []string{name}
	}
	requirement, err := labels.NewRequirement(labelProxyName, operator, values)
	if err != nil {
		return "", fmt.Errorf("selecting Services for the proxy %q: %w", name, err)
	}
	return requirement.String(), nil
}

// serviceOf is the index function of byService.
func serviceOf(obj any) ([]string, error) {
	owner := obj.(*slice).owner()
	if owner == (model.ServiceName{}) {
		return nil, nil
	}
	return []string{owner.String()}, nil
}

func (s *Source) serviceChanged(_ *informer[*service], c change[*service]) {
	if c.old.same(c.new) {
		return
	}
	one := c.new
	if one == nil {
		one = c.old
	}
	s.pending.mark(func(b *batch) {
		b.services[one.model.Name] = struct{}{}
		b.serviceEvents++
	})
}

// sliceChanged marks the Service, and the one before when the slice moved. Services that do not exist or are not served are left out:
// they come with an event of their own, and the slice is in the index by then.
func (s *Source) sliceChanged(_ *informer[*slice], c change[*slice]) {
	if c.old.same(c.new) {
		return
	}
	before, after := c.old.owner(), c.new.owner()
	marksBefore, marksAfter := before != after && s.serves(before), s.serves(after)
	if !marksBefore && !marksAfter {
		return
	}
	s.pending.mark(func(b *batch) {
		if marksBefore {
			b.services[before] = struct{}{}
		}
		if marksAfter {
			b.services[after] = struct{}{}
		}
		b.sliceEvents++
		if at, ok := s.trigger(c); ok && marksAfter {
			b.triggers = append(b.triggers, at)
		}
	})
}

func (s *Source) serves(name model.ServiceName) bool {
	known, ok := s.services.get(name.String())
	return ok && known.served
}

// trigger returns when the pods behind an event changed. It reports false where that does not measure our latency: for objects that
// are older than the agent, for changes that no pod caused, and for deletions.
func (s *Source) trigger(c change[*slice]) (time.Time, bool) {
	if c.initial || c.new == nil || c.new.trigger == 0 || c.old != nil && c.old.trigger == c.new.trigger {
		return time.Time{}, false
	}
	at := time.Unix(0, c.new.trigger)
	return at, at.After(s.began)
}

func (s *Source) nodeChanged(_ *informer[*node], c change[*node]) {
	if !c.old.same(c.new) {
		s.pending.mark(func(b *batch) { b.node = true })
	}
}
