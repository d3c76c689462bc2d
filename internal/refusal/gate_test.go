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
		for i := range 1000 {
			err := g.try(fmt.Sprint(i), func() error { tried++; return answer })
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
		{"refused after a short pause", firstPause, forbidden, turns, 1},
		{"the next pause is longer", firstPause, forbidden, 0, 1},
		{"refused after it", firstPause, forbidden, turns, 1},
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
			if err := g.try("", func() error { return answer }); !errors.Is(err, answer) {
				t.Fatalf("%v, want %v", err, answer)
			}
		}
	}
}

// A platform may refuse some objects alone. They do not keep other objects waiting, whichever asks
// first.
func TestRefusedObjectsLetOthersGoFirst(t *testing.T) {
	clock, closed := testingclock.NewFakePassiveClock(time.Now()), false
	g := &gate{clock: clock, changed: func(now bool, _ error) { closed = now }}
	ask := func(name string) {
		_ = g.try(name, func() error {
			if name == "fine" {
				return nil
			}
			return forbidden
		})
	}
	for range closeAfter {
		ask("refused")
	}
	if !closed {
		t.Fatal("nothing has closed it")
	}
	clock.SetTime(clock.Now().Add(firstPause))
	ask("refused")
	ask("fine")
	if closed {
		t.Error("the object that is always refused had the only turn")
	}
}

// The pauses grow to the longest, and begin anew.
func TestPausesGrow(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	g := &gate{clock: clock, changed: func(bool, error) {}}
	tried := 0
	for second := range 600 {
		for i := range 10 {
			_ = g.try(fmt.Sprint(second, i), func() error { tried++; return forbidden })
		}
		clock.SetTime(clock.Now().Add(time.Second))
	}
	if want := closeAfter + turns*8; tried > want || tried < closeAfter+turns*6 {
		t.Errorf("%d were tried in ten minutes, want at most %d", tried, want)
	}
}

// A write that was not tried hides no failure beside it.
func TestWaitHidesNothing(t *testing.T) {
	late, later := &Error{After: time.Second, Last: forbidden}, &Error{After: time.Minute, Last: forbidden}
	for name, tc := range map[string]struct {
		err   error
		after time.Duration
	}{
		"one":        {fmt.Errorf("labelling: %w", late), time.Second},
		"two":        {fmt.Errorf("both: %w", errors.Join(later, late)), time.Second},
		"a failure":  {fmt.Errorf("both: %w", errors.Join(late, errAway)), 0},
		"no refusal": {errAway, 0},
	} {
		result, err := Wait(reconcile.Result{}, tc.err)
		if result.RequeueAfter != tc.after || (err == nil) != (tc.after > 0) {
			t.Errorf("%s: again in %s, error %v", name, result.RequeueAfter, err)
		}
	}
}

// The board has what is refused until it is not any more, and tells of each change.
func TestBoard(t *testing.T) {
	board, told := &Board{}, 0
	board.Subscribe(func() { told++ })
	board.set(Refused{Operation: "create", For: "repair", Said: "no"}, true)
	board.set(Refused{Operation: "change", For: "band labels"}, true)
	board.set(Refused{Operation: "create", For: "repair"}, false)
	if got := board.Refused(); len(got) != 1 || got[0].For != "band labels" || told != 3 {
		t.Errorf("refused are %+v, told %d times", got, told)
	}
}
