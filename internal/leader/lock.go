package leader

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/clusterip-operator/clusterip-operator/internal/timeline"
)

// renewDeadline is controller-runtime's default. Requests for the Lease end well before it.
const renewDeadline = 10 * time.Second

// rereadWithin is how long a request waits for the Lease to be read for it.
const rereadWithin = 200 * time.Millisecond

// Lock is the election's resource lock. It remembers its holder, and is safe for concurrent use.
type Lock struct {
	resourcelock.Interface
	holder atomic.Pointer[string]
	// reader is a lock of the same Lease for Reread: the election's is not for concurrent use.
	reader  resourcelock.Interface
	reading singleflight.Group
}

// NewLock returns the lock of a Lease. name is that of the pod, for people; address is where other
// replicas reach the webhooks of this process, "host:port", or empty if it serves none. Neither
// reaches the API server before the election starts. guard is told the versions of the Lease.
func NewLock(config *rest.Config, guard *timeline.Guard, namespace, lease, name, address string) (*Lock, error) {
	// A container that crashed and came back in its pod is another replica than before.
	identity := fmt.Sprintf("%s_%s@%s", name, utilrand.String(6), address)
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	config.Timeout = renewDeadline / 2
	config.QPS = -1 // each sends one request at a time
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the lock of Lease %s/%s: %w", namespace, lease, err)
	}
	seen := &witness{LeasesGetter: client, guard: guard}
	lock := func() resourcelock.Interface {
		return &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: lease}, Client: seen,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}
	}
	return &Lock{Interface: lock(), reader: lock()}, nil
}

// Get implements resourcelock.Interface.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	return record, raw, l.remember(record, err)
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.remember(&record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.remember(&record, l.Interface.Update(ctx, record))
}

// remember keeps the holder of the Lease unless reading or writing it failed, and returns err.
func (l *Lock) remember(record *resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.holder.Store(&record.HolderIdentity)
	}
	return err
}

// Known reports whether the Lease has been read or written at least once.
func (l *Lock) Known() bool { return l.holder.Load() != nil }

// Address returns where the webhooks of the leader are. It is empty while no replica leads, or the
// leader is unknown or serves no webhooks, and for the leader itself.
func (l *Lock) Address() string {
	holder := l.holder.Load()
	if holder == nil || l.leads(holder) {
		return ""
	}
	return (*holder)[strings.LastIndex(*holder, "@")+1:]
}

// Reread returns Address after reading the Lease again, for a replica that would draw because it
// knows no other leader: the election reads it only now and then. The leader reads nothing.
// Concurrent calls share a request of 200 ms at most; if it fails, the answer is what was known.
func (l *Lock) Reread(ctx context.Context) string {
	if before := l.holder.Load(); !l.leads(before) {
		_, _, _ = l.reading.Do("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rereadWithin)
			defer cancel()
			record, _, err := l.reader.Get(ctx)
			if err == nil {
				l.holder.CompareAndSwap(before, &record.HolderIdentity) // what the election has learnt meanwhile is newer
			}
			return nil, err
		})
	}
	return l.Address()
}

func (l *Lock) leads(holder *string) bool { return holder != nil && *holder == l.Identity() }
