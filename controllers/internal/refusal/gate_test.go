package refusal

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	addresses = schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}
	forbidden = apierrors.NewForbidden(addresses, "10.96.0.1", errors.New("no"))
	gone      = apierrors.NewNotFound(addresses, "10.96.0.1")
	errAway   = errors.New("connection refused")
)

func TestRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":    {nil, false},
		"RBAC":       {forbidden, true},
		"wrapped":    {fmt.Errorf("labelling: %w", forbidden), true},
		"a policy":   {errors.New(`ipaddresses.networking.k8s.io "10.96.0.1" is invalid: ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no`), true},
		"a webhook":  {errors.New(`admission webhook "a" denied the request: no`), true},
		"gone":       {gone, false},
		"a conflict": {apierrors.NewConflict(addresses, "10.96.0.1", errors.New("version")), false},
		"an outage":  {errAway, false},
	} {
		if got := refuses(tc.err); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// A thousand objects ask for a write that is refused: a few are tried, then one after each pause,
// and all once it is allowed.
func TestOneWriteIsTriedAfterEachPause(t *testing.T) {
	clock, told := testingclock.NewFakePassiveClock(time.Now()), []bool{}
	g := &gate{writes: "writes", clock: clock, changed: func(closed bool, _ error) { told = append(told, closed) }}
	ask := func(answer error) (tried int) {
		for range 1000 {
			err := g.try(func() error { tried++; return answer })
			if late := new(Error); errors.As(err, &late) {
				result, failed := Wait(reconcile.Result{}, fmt.Errorf("labelling: %w", err))
				if late.After <= 0 || late.After > Pause || result.RequeueAfter != late.After || failed != nil {
					t.Fatalf("to be tried again after %v: %+v, %v", late.After, result, failed)
				}
			}
		}
		return tried
	}
	for i, step := range []struct {
		name   string
		after  time.Duration
		answer error
		tried  int
		told   int
	}{
		{"allowed", 0, nil, 1000, 0},
		{"refused", 0, forbidden, closeAfter, 1},
		{"still refused, no time has passed", 0, forbidden, 0, 1},
		{"refused after a pause", Pause, forbidden, 1, 1},
		{"away after a pause", Pause, errAway, 1, 1},
		{"allowed after a pause", Pause, nil, 1000, 2},
		{"away", 0, errAway, 1000, 2},
		{"gone", 0, gone, 1000, 2},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		if tried := ask(step.answer); tried != step.tried || len(told) != step.told {
			t.Errorf("%d, %s: %d were tried and %d changes told, want %d and %d", i, step.name, tried, len(told), step.tried, step.told)
		}
	}
}

// What is refused for one object alone keeps no other from being written.
func TestSingleRefusalsCloseNothing(t *testing.T) {
	g := &gate{clock: testingclock.NewFakePassiveClock(time.Now()), changed: func(bool, error) { t.Error("it has closed") }}
	for range 100 {
		for _, answer := range []error{forbidden, forbidden, nil} {
			if err := g.try(func() error { return answer }); !errors.Is(err, answer) {
				t.Fatalf("%v, want %v", err, answer)
			}
		}
	}
}
