// Package steering measures what the admission webhooks cost: creating, deleting and changing
// Services with and without them, in turn; their decisions alone; two replicas beside one, where
// the one that does not lead hands calls on; and how fast the operator keeps addresses.
//
// All is measured in an environment: a control plane with config/default's permissions and webhook
// configurations, replicas of our manager as the operator's user, and a loopback balancer before
// them if there are several. Without means that both configurations are deleted; the manager still
// runs.
//
// Start with Run; creation.go, replicas.go, keeping.go and decision.go hold what is measured.
package steering

import (
	"context"
	"errors"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
)

// Options say what to measure. The zero Options measure nothing; see Full and Quick.
type Options struct {
	// Sizes are numbers of Services, Policies of policies, Families and Clients of those: creation is
	// measured with every combination, but more than one family only with the most policies.
	Sizes, Policies, Families, Clients []int
	// Rounds is each one's turns, with and without webhooks: Single calls of one client, Many of more.
	Rounds, Single, Many int

	// FullRounds is how often what is left of a range at 99 % is filled.
	FullRounds int
	// Reserved is how many addresses a policy reserves, Cooled how many cool.
	Reserved, Cooled int
	// Crowd is how many policies and ranges a manager has whose memory is measured.
	Crowd int
	// Repeats is how often each micro benchmark runs, and Bench for how long.
	Repeats int
	Bench   time.Duration
}

// Full is what the documentation shows.
func Full() Options {
	return Options{
		Sizes: []int{0, 5_000, 20_000}, Policies: []int{0, 100}, Families: []int{1, 2}, Clients: []int{1, 16},
		Rounds: 3, Single: 60, Many: 160, FullRounds: 6, Reserved: 1024, Cooled: 500, Crowd: 1_000, Repeats: 3, Bench: 200 * time.Millisecond,
	}
}

// Quick is for a look at whether the benchmark itself works.
func Quick() Options {
	return Options{
		Sizes: []int{0, 500}, Policies: []int{0, 100}, Families: []int{1}, Clients: []int{1, 16},
		Rounds: 1, Single: 20, Many: 60, FullRounds: 2, Reserved: 64, Cooled: 50, Crowd: 100, Repeats: 1, Bench: 20 * time.Millisecond,
	}
}

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
	for _, part := range []func(context.Context, *environment) error{
		r.measure,
		func(ctx context.Context, e *environment) (err error) {
			r.Replicas, err = e.measureReplicas(ctx, o)
			return err
		},
		func(ctx context.Context, e *environment) (err error) {
			r.Scale, err = e.measureScale(ctx, o)
			return err
		},
	} {
		if err := withEnvironment(ctx, log, part); err != nil {
			return r, err
		}
	}
	return r, nil
}

// withEnvironment does something with a control plane that is stopped afterwards.
func withEnvironment(ctx context.Context, log *progress.Log, do func(context.Context, *environment) error) (err error) {
	e, err := start(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Stop()) }()
	return do(ctx, e)
}

// measure measures all of one control plane, from what changes it the least to what does the most.
func (r *Result) measure(ctx context.Context, e *environment) (err error) {
	if r.Versions, err = e.Versions(ctx); err != nil {
		return err
	}
	if err = e.askDirectly(ctx); err != nil {
		return err
	}
	if r.Others, err = e.measureOthers(ctx, r.Options); err != nil {
		return err
	}
	if r.Keeping, err = e.measureKeeping(ctx, r.Options); err != nil {
		return err
	}
	r.Creations, err = e.measureCreations(ctx, r.Options)
	return err
}
