package renumber

import (
	"context"
	"errors"
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// planFile is a plan in a file.
type planFile struct {
	batch.Head
	Plan
}

// loadPlan reads a plan from a file.
func loadPlan(file string) (p planFile, err error) {
	if file == "" {
		return p, errors.New("give the plan: --from FILE; `kubectl clusterip renumber plan -o FILE` writes one")
	}
	if err := batch.Load(file, batch.Head{APIVersion: v1alpha1.GroupVersion.String(), Kind: KindPlan}, &p); err != nil {
		return p, cli.KindHint(err)
	}
	if err := p.Validate(); err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// openPlan connects to the cluster that a plan is of.
func openPlan(ctx context.Context, a *cli.Session, file string) (s *cli.Cluster, p planFile, err error) {
	if p, err = loadPlan(file); err != nil {
		return nil, p, err
	}
	if s, err = a.Open(); err != nil {
		return nil, p, err
	}
	cluster, err := s.UID(ctx)
	if err != nil {
		return nil, p, err
	}
	return s, p, p.Of(cluster, "plan")
}
