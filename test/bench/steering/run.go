package steering

import (
	"context"
	"errors"
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
)

// Result is what was measured, and on which versions.
type Result struct {
	Options   Options
	Versions  string
	Creations []Creation
	Others    []Other
	Replicas  []Shared
	Keeping   Keeping
	Scale     Scale
	Decision  Decision
}

// Run measures everything.
func Run(ctx context.Context, o Options, log *progress.Log) (r Result, err error) {
	r.Options = o
	if r.Decision, err = measureDecision(ctx, o, log); err != nil {
		return r, err
	}
	if err := onBed(ctx, log, r.measure); err != nil {
		return r, err
	}
	// Thousands of ranges would slow the API server down for what else is measured.
	return r, onBed(ctx, log, func(ctx context.Context, b *bed) error {
		var err error
		if r.Scale, err = b.measureScale(ctx, o); err != nil {
			return fmt.Errorf("measuring many policies: %w", err)
		}
		return nil
	})
}

// onBed does something with a control plane that is stopped afterwards.
func onBed(ctx context.Context, log *progress.Log, do func(context.Context, *bed) error) (err error) {
	b, err := start(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Stop()) }()
	return do(ctx, b)
}

// measure is all that one control plane can stand, from what changes it the least to what changes it the most.
func (r *Result) measure(ctx context.Context, b *bed) (err error) {
	if r.Versions, err = b.Versions(ctx); err != nil {
		return err
	}
	if r.Others, err = b.measureOthers(ctx, r.Options); err != nil {
		return err
	}
	if r.Keeping, err = b.measureKeeping(ctx, r.Options); err != nil {
		return err
	}
	if r.Creations, err = b.measureCreations(ctx, r.Options); err != nil {
		return err
	}
	r.Replicas, err = b.measureReplicas(ctx, r.Options)
	return err
}
