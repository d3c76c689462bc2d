package history

import (
	"context"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/history"
)

// Recorder logs which Services get and lose addresses, and keeps it if Owners is not 0. Client,
// Live, Clock and Namespace are required.
type Recorder struct {
	// Client writes, Live reads from the API server itself.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Namespace is that of the operator, where the ConfigMaps are.
	Namespace string
	// Owners is how many former owners of an address are kept; 0 keeps no history.
	Owners int

	mu     sync.Mutex
	ledger *history.Ledger // nil without a history
	log    changeLog
	leads  atomic.Bool
	synced []toolscache.InformerSynced
	pages  [history.Shards]page
}

// SetupWithManager connects the recorder to the informers, on every replica, and has the leader
// write.
func (r *Recorder) SetupWithManager(mgr manager.Manager) error {
	if r.Owners > 0 {
		r.ledger = history.NewLedger(r.Owners)
	}
	r.log = newChangeLog(mgr.GetLogger().WithName("history"))
	err := r.watch(mgr.GetCache(), &corev1.Service{}, addressindex.Handler(func(before, now *corev1.Service, initial bool) {
		r.take(initial, ofService(before, now, initial, r.Clock.Now()))
	}))
	if err == nil {
		err = r.watch(mgr.GetCache(), &networkingv1.IPAddress{}, addressindex.Handler(func(before, now *networkingv1.IPAddress, initial bool) {
			r.take(initial, ofIPAddress(before, now, r.Clock.Now()))
		}))
	}
	if err != nil {
		return err
	}
	return mgr.Add(r)
}

func (r *Recorder) watch(informers cache.Informers, kind client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := informers.GetInformer(context.Background(), kind, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(handler)
	if err == nil {
		r.synced = append(r.synced, registration.HasSynced)
	}
	return err
}

// take logs a change and enters it.
func (r *Recorder) take(initial bool, c change) {
	if len(c.ended)+len(c.begun) == 0 { // as with nearly all events
		return
	}
	now := r.Clock.Now()
	if !initial && r.leads.Load() {
		r.log.tell(c, now)
	}
	if r.ledger == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range c.ended {
		r.ledger.End(one, now)
	}
	for _, one := range c.begun {
		r.ledger.Begin(one, now)
	}
}

// Start implements manager.Runnable: the manager calls it when this replica leads.
func (r *Recorder) Start(ctx context.Context) error {
	r.leads.Store(true)
	defer r.leads.Store(false)
	if r.ledger == nil {
		<-ctx.Done()
		return nil
	}
	if toolscache.WaitForCacheSync(ctx.Done(), r.synced...) {
		r.write(ctx)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *Recorder) NeedLeaderElection() bool { return true }
