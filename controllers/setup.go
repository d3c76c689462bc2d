package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/history"
	"github.com/clusterip-operator/clusterip-operator/controllers/ipaddress"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration/condition"
	"github.com/clusterip-operator/clusterip-operator/controllers/service"
	"github.com/clusterip-operator/clusterip-operator/controllers/servicecidr"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/drift"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/internal/leader"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/internal/nodeports"
	"github.com/clusterip-operator/clusterip-operator/internal/refusal"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/timeline"
)

// Options says how the loops run. See api/config/v1alpha1 for the meaning and the defaults of each.
type Options struct {
	// ServiceClusterIPRange is what the API server has, a prefix for each family; empty if unknown.
	ServiceClusterIPRange []netip.Prefix
	// ServiceNodePortRange is what the API server gives node ports from; metrics tell of it.
	ServiceNodePortRange nodeports.Range
	// ReservedNetworks are networks that Service ranges must not overlap, by name.
	ReservedNetworks []ReservedNetwork
	// BandLabels switches the label clusterip-operator.io/band; BandLabelQPS bounds its writes.
	BandLabels   bool
	BandLabelQPS float32
	// NearlyFull says when a range is reported as nearly full.
	NearlyFullPercent int
	NearlyFullWithin  time.Duration
	// HistoryOwners is how many former owners of an address are kept; 0: no history is.
	HistoryOwners int
	// GroupVersion is the answer of kube.Discover.
	GroupVersion schema.GroupVersion
	// Policies is the answer of kube.DiscoverPolicies.
	Policies bool
	// Namespace is where the certificate of the webhooks and the history are kept; empty when nothing
	// needs one.
	Namespace string
	// Lock is the lock of the leader election, which tells replicas which one to ask for addresses.
	// Nil without an election: then this replica answers alone.
	Lock *Lock
	// Replica is the name of this pod, Version what it runs: a probe of the webhooks is told both.
	Replica, Version string
	// Webhook says how admission webhooks are served, which needs Policies.
	Webhook Webhook
}

// Lock is the lock of a leader election, which remembers the leader.
type Lock = leader.Lock

// NewLock returns the lock of a leader election, for manager.Options and for Options. name is that
// of the pod; address is where other replicas reach the webhooks of this process, "host:port", or
// empty if it serves none. guard ends the process when the Lease goes back in time.
func NewLock(config *rest.Config, guard *timeline.Guard, namespace, lease, name, address string) (*Lock, error) {
	return leader.NewLock(config, guard, namespace, lease, name, address)
}

// ReservedNetwork is a network that something else than Services uses.
type ReservedNetwork struct {
	Name   string
	Prefix netip.Prefix
}

// Setup starts every loop with mgr: the address index first, because all other loops read it.
func Setup(ctx context.Context, mgr manager.Manager, o Options) error {
	d, bitmap, err := discover(ctx, mgr)
	if err != nil {
		return err
	}
	mgr.GetLogger().Info("Setting up the loops", "api", o.GroupVersion.String(), "allocatesFromBitmap", bitmap)

	index, err := o.index(ctx, mgr.GetCache(), bitmap)
	if err != nil {
		return err
	}
	ports := nodeports.NewIndex(o.ServiceNodePortRange)
	if err := ports.Watch(ctx, mgr.GetCache()); err != nil {
		return fmt.Errorf("watching node ports: %w", err)
	}
	gauges := &metrics.Addresses{Index: index, Migration: bitmap}
	board := &refusal.Board{}
	var policies *steering.Cache
	if o.Policies && !bitmap {
		policies = steering.NewCache()
		gauges.Cordoned = func(r allocator.Range) bool { return policies.Current().Cordoned(r) != nil }
	}
	loops := o.loops(mgr, index, policies, gauges, board, bitmap)
	if policies != nil {
		more, err := o.steer(ctx, mgr, index, policies, board)
		if err != nil {
			return fmt.Errorf("setting up policies: %w", err)
		}
		loops = append(loops, more...)
	}
	for _, l := range loops {
		if err := l.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("setting up %T: %w", l, err)
		}
	}
	if err := mgr.Add(o.watchVersion(d, mgr.GetAPIReader(), bitmap)); err != nil {
		return err
	}
	return errors.Join(ctrlmetrics.Registry.Register(gauges), ctrlmetrics.Registry.Register(&metrics.NodePorts{Index: ports}))
}

// discover returns a client for what the API server serves, and if that allocates from its bitmap.
func discover(ctx context.Context, mgr manager.Manager) (*discovery.DiscoveryClient, bool, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, false, fmt.Errorf("making a discovery client: %w", err)
	}
	bitmap, err := kube.AllocatesFromBitmap(ctx, d, mgr.GetAPIReader())
	if err != nil {
		return nil, false, fmt.Errorf("finding out who allocates: %w", err)
	}
	return d, bitmap, nil
}

// index returns the address index, which follows the API server through c.
func (o Options) index(ctx context.Context, c cache.Cache, bitmap bool) (*addressindex.Index, error) {
	if bitmap && len(o.ServiceClusterIPRange) == 0 {
		return nil, errors.New("the API server allocates from its bitmap (Kubernetes 1.32 or older, or 1.33 with the feature gate MultiCIDRServiceAllocator off), so the operator has to be told its range: " +
			"set --service-cluster-ip-range to the value that kube-apiserver was started with")
	}
	index := addressindex.New()
	if bitmap {
		if err := declare(index, o.ServiceClusterIPRange); err != nil {
			return nil, err
		}
	}
	if err := index.Watch(ctx, c); err != nil {
		return nil, fmt.Errorf("watching addresses: %w", err)
	}
	return index, nil
}

type controller interface {
	SetupWithManager(mgr manager.Manager) error
}

// cluster is what the loop of a name has of the cluster.
func cluster(mgr manager.Manager, index *addressindex.Index, name string) loop.Cluster {
	return loop.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Index: index, Events: mgr.GetEventRecorder("clusterip-operator-" + name), Clock: clock.RealClock{}}
}

func (o Options) loops(mgr manager.Manager, index *addressindex.Index, policies *steering.Cache, gauges *metrics.Addresses, board *refusal.Board, bitmap bool) []controller {
	api, clk := o.GroupVersion.String(), clock.RealClock{}
	addresses := &ipaddress.Reconciler{Cluster: cluster(mgr, index, "ipaddress"), Bitmap: bitmap}
	addresses.Client = writer(mgr, refusal.Options{What: "repair", Board: board})
	services := &service.Reconciler{Cluster: cluster(mgr, index, "service")}
	gauges.Drift = []func() map[drift.Type]int{addresses.Tracker.Count, services.Tracker.Count}

	migrated := &condition.Reconciler{Client: mgr.GetClient(), Index: index, Clock: clk, APIVersion: api, Bitmap: bitmap}
	loops := []controller{addresses, services, migrated, &servicecidr.Reconciler{
		Cluster: cluster(mgr, index, "servicecidr"), APIVersion: api, Bitmap: bitmap, Unsteered: !o.Webhook.Enabled(), Refusals: board, Policies: policies,
		Limits:   servicecidr.Limits{FreePercent: o.NearlyFullPercent, Within: o.NearlyFullWithin},
		Networks: o.networks(),
	}}
	loops = append(loops,
		&servicecidr.DefaultReconciler{Cluster: cluster(mgr, index, "default-servicecidr"), Ranges: o.ServiceClusterIPRange, APIVersion: api, Bitmap: bitmap},
		&history.Recorder{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clk, Namespace: o.Namespace, Owners: o.HistoryOwners})
	if o.BandLabels {
		loops = append(loops, &ipaddress.BandLabeler{
			Client: writer(mgr, refusal.Options{
				What: "band labels", Remedy: ", or start it with --band-labels=false", Board: board,
				Pace: flowcontrol.NewTokenBucketRateLimiter(o.BandLabelQPS, max(1, int(o.BandLabelQPS))),
			}),
			Index: index, APIVersion: api,
		})
	}
	return loops
}

// writer is a client of a loop for IPAddresses. It stops while the API server refuses them.
func writer(mgr manager.Manager, o refusal.Options) client.Client {
	o.Events, o.Clock = mgr.GetEventRecorder("clusterip-operator-writes"), clock.RealClock{}
	return refusal.New(mgr.GetClient(), o)
}

func (o Options) networks() []addressindex.Network {
	out := make([]addressindex.Network, 0, len(o.ReservedNetworks))
	for _, n := range o.ReservedNetworks {
		out = append(out, addressindex.Network{Owner: "network " + n.Name, Prefix: n.Prefix})
	}
	return out
}

// declare enters the API server's range: the bitmap has it whatever the default ServiceCIDR says.
func declare(index *addressindex.Index, prefixes []netip.Prefix) error {
	ranges := make([]allocator.Range, 0, len(prefixes))
	for _, p := range prefixes {
		r, err := allocator.NewRange(p)
		if err != nil {
			return fmt.Errorf("--service-cluster-ip-range: %w", err)
		}
		ranges = append(ranges, r)
	}
	index.Declare(ranges)
	return nil
}

const versionCheck = time.Minute

// watchVersion ends the process when the API server begins to serve another version, as after an
// upgrade from 1.32, or to allocate in another way, or begins or ceases to serve policies: what
// runs has to change with it, and a start takes all of it in. The kubelet restarts the pod.
func (o Options) watchVersion(d discovery.DiscoveryInterface, live client.Reader, bitmap bool) manager.Runnable {
	changed := func(ctx context.Context) error { return o.changed(ctx, d, live, bitmap) }
	return everywhere(func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, versionCheck, false, func(ctx context.Context) (bool, error) {
			if changed(ctx) == nil {
				return false, nil
			}
			// An API server that has just started may not serve everything yet: it is asked once more. The
			// pause is random, so that not all replicas restart at once.
			select {
			case <-ctx.Done():
			case <-time.After(wait.Jitter(versionCheck/6, 2)):
			}
			return false, changed(ctx)
		})
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

// changed says what the API server serves anew. One that cannot be asked just now has not changed.
func (o Options) changed(ctx context.Context, d discovery.DiscoveryInterface, live client.Reader, bitmap bool) error {
	if now, err := kube.Discover(d); err == nil && now != o.GroupVersion {
		return fmt.Errorf("the API server now serves %s instead of %s; restarting", now, o.GroupVersion)
	}
	if now, err := kube.DiscoverPolicies(d); err == nil && now != o.Policies {
		return fmt.Errorf("whether the API server serves ServiceCIDRPolicies has changed to %t; restarting", now)
	}
	if now, err := kube.AllocatesFromBitmap(ctx, d, live); err == nil && now != bitmap {
		return fmt.Errorf("whether the API server allocates from the bitmap has changed to %t; restarting", now)
	}
	return nil
}
