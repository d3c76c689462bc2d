package dualstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// tries are those of one Service: another client may edit it each time before the write.
const tries = 20

// Runner carries out plans.
type Runner struct {
	API    client.Client
	Pace   batch.Pace // of Services
	DryRun bool       // the API server answers as if it had written
}

// Result is what became of a run.
type Result struct {
	Gained  int    // Services that have a second family by this run
	Had     int    // those that had it already
	Left    []Item // those that are not what the plan says any more, each with the reason
	Refused []Item // those whose change the API server has refused, each with its answer
}

// errOneFamily stops a run.
var errOneFamily = errors.New("the API server that answers knows one family, although there are ranges of both: restart it with a range of each family in --service-cluster-ip-range")

// Run gives each Service of a plan its second family. It reads a Service right before the write,
// which is refused if another writer was faster; then it decides anew. A refused Service does not
// stop the rest. Run can be called again after any interruption.
func (r Runner) Run(ctx context.Context, p Plan) (Result, error) {
	var mu sync.Mutex
	var result Result
	_, err := batch.Each(ctx, r.Pace, "adding families", p.Services, func(ctx context.Context, i Item) error {
		decision, reason, err := r.one(ctx, i)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case refusal(err):
			i.Reason = err.Error()
			result.Refused = append(result.Refused, i)
		case err != nil:
			return fmt.Errorf("service %s: %w", i, err)
		case decision == gains:
			result.Gained++
		case decision == complete:
			result.Had++
		default:
			i.Reason = reason
			result.Left = append(result.Left, i)
		}
		return nil
	})
	sort(result.Left)
	sort(result.Refused)
	return result, err
}

// refusal reports whether an error concerns one Service. Any other error would meet every Service.
func refusal(err error) bool {
	return errors.Is(err, batch.ErrMoved) || errors.As(err, new(apierrors.APIStatus)) && !apierrors.IsUnauthorized(err)
}

// one looks, decides and writes until no other writer comes in between.
func (r Runner) one(ctx context.Context, i Item) (decision outcome, reason string, err error) {
	for range tries {
		s := &corev1.Service{}
		err = batch.Retry(ctx, func() error { return r.API.Get(ctx, types.NamespacedName{Namespace: i.Namespace, Name: i.Name}, s) })
		if apierrors.IsNotFound(err) {
			s, err = nil, nil
		}
		if err != nil {
			return decision, reason, err
		}
		if decision, reason = decideItem(i, s); decision != gains {
			return decision, reason, nil
		}
		if err = r.write(ctx, s); !errors.Is(err, batch.ErrMoved) {
			return decision, reason, err
		}
	}
	return decision, reason, fmt.Errorf("another client edits it all the time: %w; run it again", err)
}

// write adds the missing family.
func (r Runner) write(ctx context.Context, s *corev1.Service) error {
	families := []corev1.IPFamily(nil)
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		families = []corev1.IPFamily{s.Spec.IPFamilies[0], missing(s)}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": s.ResourceVersion}, "spec": map[string]any{"ipFamilies": families},
	})
	if err != nil {
		return err
	}
	options := []client.PatchOption{client.FieldOwner(v1alpha1.ManagerDualStack)}
	if r.DryRun {
		options = append(options, client.DryRunAll)
	}
	err = batch.Guarded(ctx, func() error { return r.API.Patch(ctx, s, client.RawPatch(types.MergePatchType, patch), options...) })
	if err == nil && len(s.Spec.IPFamilies) < 2 || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "not configured on this cluster") {
		return errOneFamily
	}
	return err
}
