package leader

import (
	"context"
	"errors"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/clusterip-operator/clusterip-operator/internal/timeline"
)

// stored is a Lease of an API server that answers with versions as it is told.
type stored struct {
	coordinationclient.LeaseInterface
	version string
	err     error
	writes  int
}

func (s *stored) Leases(string) coordinationclient.LeaseInterface { return s }

func (s *stored) answer() (*coordinationv1.Lease, error) {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease", ResourceVersion: s.version}}, s.err
}

func (s *stored) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return s.answer()
}

func (s *stored) Create(context.Context, *coordinationv1.Lease, metav1.CreateOptions) (*coordinationv1.Lease, error) {
	s.writes++
	return s.answer()
}

func (s *stored) Update(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	s.writes++
	return s.answer()
}

// Whatever the election does with a Lease that is older than it was, it ends the process, and
// writes it no more.
func TestALeaseThatGoesBackEndsTheProcess(t *testing.T) {
	for name, do := range map[string]func(context.Context, resourcelock.Interface) error{
		"get": func(ctx context.Context, l resourcelock.Interface) error { _, _, err := l.Get(ctx); return err },
		"create": func(ctx context.Context, l resourcelock.Interface) error {
			return l.Create(ctx, resourcelock.LeaderElectionRecord{})
		},
		"update": func(ctx context.Context, l resourcelock.Interface) error {
			return l.Update(ctx, resourcelock.LeaderElectionRecord{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := &stored{}
			guard, ctx := timeline.NewGuard(t.Context())
			seen := &witness{LeasesGetter: api, guard: guard}
			election := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease"}, Client: seen}
			reader := &resourcelock.LeaseLock{LeaseMeta: election.LeaseMeta, Client: seen}
			for _, version := range []string{"9", "10", "10", "120"} {
				api.version = version
				if _, _, err := election.Get(ctx); err != nil {
					t.Fatalf("version %s: %v", version, err)
				}
			}
			api.version, api.err = "1", errors.New("the API server is away")
			if _, _, err := reader.Get(ctx); !errors.Is(err, api.err) || guard.Proof() != nil {
				t.Fatalf("an answer that is none: %v, proof %v", err, guard.Proof())
			}
			api.version, api.err = "99", nil
			if err := do(ctx, election); err == nil || !errors.Is(err, guard.Proof()) || !errors.Is(context.Cause(ctx), err) {
				t.Errorf("%v, proof %v, cause %v", err, guard.Proof(), context.Cause(ctx))
			}
		})
	}
}
