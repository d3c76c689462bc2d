package leader

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// renewDeadline is controller-runtime's default. Requests for the Lease end before it.
const renewDeadline = 10 * time.Second

// Lock is the resource lock of the leader election, which remembers who holds it. It is safe for concurrent use.
type Lock struct {
	resourcelock.Interface
	holder atomic.Pointer[string]
}

// NewLock returns the lock of a Lease. name is that of the pod, for people; address is where other replicas reach the webhooks of this process,
// "host:port", or empty if it serves none. Neither reaches the API server before the election starts.
func NewLock(config *rest.Config, namespace, lease, name, address string) (*Lock, error) {
	// A container that crashed and came back in its pod is another replica than before.
	identity := fmt.Sprintf("%s_%s@%s", name, utilrand.String(6), address)
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, lease,
		resourcelock.ResourceLockConfig{Identity: identity}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("making the lock of Lease %s/%s: %w", namespace, lease, err)
	}
	return &Lock{Interface: lock}, nil
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

// remember keeps who holds the Lease, unless reading or writing it failed, and returns that error.
func (l *Lock) remember(record *resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.holder.Store(&record.HolderIdentity)
	}
	return err
}

// Known reports whether the Lease has been read or written at least once.
func (l *Lock) Known() bool { return l.holder.Load() != nil }

// Address returns where the webhooks of another process are that leads. It is empty while nobody leads, or nobody knows, or the leader serves no webhooks, and
// for the leader itself.
func (l *Lock) Address() string {
	holder := l.holder.Load()
	if holder == nil || *holder == l.Identity() {
		return ""
	}
	return (*holder)[strings.LastIndex(*holder, "@")+1:]
}
