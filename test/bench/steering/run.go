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
	Replicas  []Replicated
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
	// What each of them leaves behind would slow the API server down for the next one.
	for _, part := range []func(context.Context, *bed) error{r.measure, r.measureReplicas, r.measureScale} {
		if err := onBed(ctx, log, part); err != nil {
			return r, err
		}
	}
	return r, nil
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

// measure measures what one control plane can stand, from what changes it the least to what changes it the most.
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
	r.Creations, err = b.measureCreations(ctx, r.Options)
	return err
}

func (r *Result) measureReplicas(ctx context.Context, b *bed) (err error) {
	r.Replicas, err = b.measureReplicas(ctx, r.Options)
	return err
}

func (r *Result) measureScale(ctx context.Context, b *bed) (err error) {
	if r.Scale, err = b.measureScale(ctx, r.Options); err != nil {
		return fmt.Errorf("measuring many policies: %w", err)
	}
	return nil
}
