package watch

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// labelProxyName is the label of Services for a proxy other than the cluster's default one.
const labelProxyName = "service.kubernetes.io/service-proxy-name"

const (
	// nodeTimeout is how long to wait for the own Node once Services and EndpointSlices are known:
	// without its zone and podCIDRs the first rules would soon be replaced, but traffic flows. An
	// unregistered Node is not waited for: the agent may start before the kubelet.
	nodeTimeout = 5 * time.Second
	// networkingTimeout is the same for IPAddresses and ServiceCIDRs, which some clusters withhold.
	networkingTimeout = 10 * time.Second
)

// ErrNotServed is what [Source.Run] returns with [model.Enforce] if no IPAddresses are served.
var ErrNotServed = errors.New("the API server does not serve IPAddress of networking.k8s.io/v1, and without IPAddresses nothing may be served: " +
	"use Kubernetes 1.33 or later, or allocations prefer or ignore")

// Options say what to follow. NodeName is required, the rest may be zero.
type Options struct {
	// NodeName is the Node that the agent runs on.
	NodeName string
	// ProxyName serves only Services with this value of service.kubernetes.io/service-proxy-name;
	// empty: only those without this label. All other Services are Foreign.
	ProxyName string
	// FollowNodes lets endpoint weights depend on Nodes, which are followed while a Service asks.
	FollowNodes bool
	// Allocations defaults to [model.Prefer]. Here it decides only what happens without IPAddresses.
	Allocations model.AllocationMode
	// Logger gets what goes wrong; its zero value discards that.
	Logger logr.Logger
}

// Source follows an API server. Its methods may be called concurrently, Run once.
//
// Memory follows the number of objects; an event and the next Take cost what their Services cost.
type Source struct {
	options Options
	server  discovery.ServerVersionInterfaceWithContext
	reports *reports
	pending *pending
	ready   chan struct{}

	services  *informer[*service]
	slices    *informer[*slice]
	nodes     *informer[*node]
	addresses *informer[*allocation]
	cidrs     *informer[*serviceCIDR]
	slicesOf  slicesOf
	holds     *holds
	formers   *formers
	peers     *peers

	// began is set before the informers run.
	began time.Time

	taking sync.Mutex
	// last is the Node as it was known last, under taking.
	last model.Node
}

// New prepares a Source that follows nothing yet.
//
// EndpointSlices are not selected by proxy name, as kube-proxy does not: only the label on the
// Service counts, and EndpointSlices written by hand do not have it.
func New(client kubernetes.Interface, o Options) (*Source, error) {
	s := &Source{options: o, pending: newPending(), ready: make(chan struct{}), slicesOf: slicesOf{of: map[model.ServiceName][]*slice{}, ready: map[word]int{}}, last: model.Node{Name: o.NodeName}}
	s.holds = newHolds(func(n model.ServiceName) { s.pending.mark(func(b *batch) { b.services[n] = struct{}{} }) })
	held := func(n model.ServiceName) bool {
		last, _ := s.holds.get(n)
		return last != nil
	}
	s.formers = newFormers(held, func(a netip.Addr) { s.pending.mark(func(b *batch) { b.allocations[a] = struct{}{} }) })
	withIP := fields.OneTermNotEqualSelector("spec.clusterIP", corev1.ClusterIPNone).String()
	own := fields.OneTermEqualSelector(metav1.ObjectNameField, o.NodeName).String()
	all := metav1.NamespaceAll
	s.server, s.reports = discovery.ToServerVersionInterfaceWithContext(client.Discovery()), newReports(o.Logger)
	s.peers = newPeers(func() cache.SharedIndexInformer { return coreinformers.NewNodeInformer(client, 0, cache.Indexers{}) }, s.peersChanged, s.reports)
	var errs [5]error
	s.services, errs[0] = newInformer("Service",
		coreinformers.NewFilteredServiceInformer(client, all, 0, cache.Indexers{}, selecting("", withIP)), converter(o), s.serviceChanged, s.reports)
	s.slices, errs[1] = newInformer("EndpointSlice",
		discoveryinformers.NewFilteredEndpointSliceInformer(client, all, 0, cache.Indexers{},
			selecting("!"+corev1.IsHeadlessService, "")), convertSlice, s.sliceChanged, s.reports)
	s.nodes, errs[2] = newInformer("Node",
		coreinformers.NewFilteredNodeInformer(client, 0, cache.Indexers{}, selecting("", own)), convertNode, s.nodeChanged, s.reports)
	s.addresses, errs[3] = newInformer("IPAddress",
		networkinginformers.NewIPAddressInformer(client, 0, cache.Indexers{}), convertIPAddress, s.addressChanged, s.reports)
	s.cidrs, errs[4] = newInformer("ServiceCIDR",
		networkinginformers.NewServiceCIDRInformer(client, 0, cache.Indexers{}), convertServiceCIDR, s.cidrChanged, s.reports)
	return s, errors.Join(errs[:]...)
}

// selecting restricts requests by selectors. Empty ones select everything.
func selecting(labels, fields string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = labels, fields }
}

// Run follows the API server until ctx ends, and then returns nil, also if the server never
// answers. It returns [ErrNotServed] early if allocations are to be enforced and there are none.
func (s *Source) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(logr.NewContext(ctx, s.options.Logger))
	defer cancel(nil)
	s.awaitServer(ctx)
	s.began = time.Now()
	var group sync.WaitGroup
	for _, shared := range []cache.SharedIndexInformer{s.services.shared, s.slices.shared, s.nodes.shared, s.addresses.shared, s.cidrs.shared} {
		group.Go(func() { shared.RunWithContext(ctx) })
	}
	group.Go(func() { s.peers.run(ctx) })
	group.Go(func() {
		if err := s.gate(ctx); err != nil {
			cancel(err)
		}
	})
	group.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, ErrNotServed) {
		return cause
	}
	return nil
}

// awaitServer waits until the API server answers anything, or ctx ends. Informers started before
// would each pause for up to a minute, and the first rules would lack what some of them follow.
func (s *Source) awaitServer(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (answers bool, _ error) {
		ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
		defer cancel()
		_, err := s.server.ServerVersionWithContext(ctx)
		status, ok := errors.AsType[*apierrors.StatusError](err)
		if answers = err == nil || ok && status.ErrStatus.Code < http.StatusInternalServerError; !answers {
			s.reports.failed("version", err)
		}
		return answers, nil
	})
}

// gate opens pending once everything is known, or the timeouts have passed.
func (s *Source) gate(ctx context.Context) error {
	cache.WaitFor(ctx, "", s.services.synced, s.slices.synced)
	forNode, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	forNetworking, cancel := context.WithTimeout(ctx, networkingTimeout)
	defer cancel()
	await(forNode, s.nodes)
	s.peers.await(forNode)
	await(forNetworking, s.cidrs)
	enforced := s.options.Allocations == model.Enforce
	if enforced {
		forNetworking = ctx
	}
	await(forNetworking, s.addresses)
	if enforced && ctx.Err() == nil && !cache.IsDone(s.addresses.synced) {
		return ErrNotServed
	}
	if ctx.Err() == nil {
		s.pending.open()
		close(s.ready)
	}
	return nil
}

// await waits until a kind is known, or known to be absent, or until ctx ends.
func await[T object](ctx context.Context, i *informer[T]) {
	select {
	case <-i.synced.Done():
	case <-i.absent:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			logr.FromContextOrDiscard(ctx).Info("Not known yet and waited for long enough; taken in when it comes", "kind", i.kind)
		}
	}
}

// Ready returns a channel that is closed once all that [Source.Take] has to tell has been listed.
// If Node, IPAddresses or ServiceCIDRs cannot be read it is closed after a while, and they come
// later; except IPAddresses with [model.Enforce], without which nothing could be served.
func (s *Source) Ready() <-chan struct{} { return s.ready }

// Wake returns a channel that holds a token when there is something to take, first when the Source
// becomes ready. One token stands for any number of events.
func (s *Source) Wake() <-chan struct{} { return s.pending.wake }

// Take returns what may have changed since the last call, first everything; before Ready nothing.
//
// A deleted Node comes as it was last, with Leaving set, and one that has no addresses or podCIDRs
// yet with the last ones. Slices in the result are shared with later results and not changed.
func (s *Source) Take() model.Changes {
	s.taking.Lock()
	defer s.taking.Unlock()
	b, ok := s.pending.take()
	if !ok {
		return model.Changes{}
	}
	changes := model.Changes{Triggers: b.triggers, ServiceEvents: b.serviceEvents, EndpointEvents: b.sliceEvents}
	if len(b.services) > 0 {
		changes.Services = make(map[model.ServiceName]*model.Service, len(b.services))
	}
	for name := range b.services {
		if service, known := s.build(name); known {
			changes.Services[name] = service
		}
	}
	if len(b.allocations) > 0 {
		changes.Allocations = make(map[netip.Addr]*model.Allocation, len(b.allocations))
	}
	for addr := range b.allocations {
		var now *model.Allocation
		if known, ok := s.addresses.get(addr.String()); ok {
			now = &known.model
		}
		changes.Allocations[addr] = s.formers.or(addr, now)
	}
	if b.ranges {
		ranges := rangesOf(s.cidrs.shared.GetStore().List())
		changes.Ranges = &ranges
	}
	if b.node {
		changes.Node = s.takeNode()
	}
	return changes
}

// build puts a Service together with its endpoints; nil for one that is not served. It reports
// false if nothing can be said of the Service until its event arrives, which the store is ahead of.
func (s *Source) build(name model.ServiceName) (*model.Service, bool) {
	known, _ := s.services.get(name.String())
	if known.isRenumbering() {
		held, seen := s.holds.get(name)
		if !seen {
			return nil, false
		}
		if held != nil || !known.served {
			known = held
		}
	}
	if known.isForeign() {
		out := known.model
		return &out, true
	}
	if !known.isServed() {
		return nil, true
	}
	out := known.model
	found := s.slicesOf.get(name)
	n := 0
	for _, f := range found {
		n += len(f.ports) * len(f.addresses)
	}
	out.Endpoints = make([]model.Endpoint, 0, n)
	weight := s.weigher(known.weights)
	for _, f := range found {
		out.Endpoints = f.appendEndpoints(out.Endpoints, weight)
	}
	return &out, true
}

func (s *Source) takeNode() *model.Node {
	now := s.last
	if known, ok := s.nodes.get(s.options.NodeName); ok {
		now = known.model
	} else {
		now.Leaving = true
	}
	// A Node that is deleted, or made again, keeps its addresses and podCIDRs until it has new ones:
	// pods still run here, and clients come to its node ports. The cloud's and the cluster's
	// controllers set both only after the kubelet has created the new Node.
	if len(now.IPs) == 0 {
		now.IPs = s.last.IPs
	}
	if len(now.PodCIDRs) == 0 {
		now.PodCIDRs = s.last.PodCIDRs
	}
	s.last = now
	return &now
}
