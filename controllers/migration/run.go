package migration

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

const maxRounds = 6

// Runner carries out plans.
type Runner struct {
	Sources      Sources
	Options      Options
	batch.Pace                 // of writes
	CreateOnly   bool          // leaves what exists as it is
	LeakGrace    time.Duration // how long a bit must have been leaked before it is cleared
	ThroughStore bool          // writes into etcd instead of through the API server
}

// Result is what became of a run.
type Result struct {
	Last      Plan      // the plan of the last look
	Written   int       // how many steps were carried out
	Tried     bool      // set before the first of them is
	Fresh     int       // how many steps the last look found that the one before did not
	Withheld  []Step    // what the admin has not approved, or what does not create where only that is wanted
	Unsettled []Finding // what no step mends, and an API server would stumble over
}

// BlockedError says why nothing was written.
type BlockedError struct{ Findings []Finding }

// Error implements error.
func (e *BlockedError) Error() string {
	f := e.Findings[0]
	text := fmt.Sprintf("%s (%s): %s %s", f.Kind, strings.Join(f.Objects, ", "), f.Detail, f.Plan)
	if n := len(e.Findings) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more; `migrate check` lists them)", n)
	}
	return text
}

// Run looks, plans and writes until only what came up after the look before is left: a cluster that
// lives always has something new, for a Syncer. What destroys is done when two looks have found it
// and, unless approved is nil, approved has it. Run can be called again after any interruption.
func (r Runner) Run(ctx context.Context, approved []Step) (result Result, err error) {
	var withheld sets.Set[string]                               // by the first look
	seen, tried := keysOf(approved), attempts{}                 // what earlier looks have found, and what has been done so far
	for round, putOff := 0, false; round < maxRounds; round++ { // putOff: the first look has left steps to the second
		w, err := r.Sources.Snapshot(ctx)
		if err != nil {
			return result, err
		}
		result.Last = NewPlan(w, r.Options)
		if blocked := result.Last.Blocked(); len(blocked) > 0 {
			return result, &BlockedError{blocked}
		}
		result.Unsettled = unsettled(result.Last)
		now, later, refused := r.arrange(result.Last.Steps, approved, seen)
		if round == 0 {
			withheld = keysOf(refused)
		}
		// Other steps have come up since, as when a Service goes right after its IPAddress was written.
		result.Withheld = slices.DeleteFunc(refused, func(s Step) bool { return !withheld.Has(s.key()) })
		result.Fresh = len(result.Last.Steps) - len(result.Withheld)
		news := round > 0 && !putOff && !tried.repeatedBy(now) && !tried.repeatedBy(later)
		if news || len(now)+len(later) == 0 {
			return result, nil
		}
		putOff = round == 0 && len(later) > 0
		tried.add(now)
		result.Tried = result.Tried || len(now) > 0
		n, err := r.apply(ctx, now)
		result.Written += n
		if err == nil && len(later) > 0 {
			err = batch.Sleep(ctx, confirmAfter)
		}
		if err != nil {
			return result, err
		}
	}
	return result, errors.New("after many rounds there is still something to do about the same addresses; another client undoes it, or they change all the time")
}

// attempts holds the aims of the steps that a run has carried out.
type attempts map[string]bool

func (a attempts) add(steps []Step) {
	for _, s := range steps {
		if s.Do != RepairBitmap { // Services under creation make it look drifted at every moment
			a[s.aim()] = true
		}
	}
}

// repeatedBy reports whether steps aim at what was done already: it was undone, or has failed.
func (a attempts) repeatedBy(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return a[s.aim()] })
}

// arrange withholds what is not permitted, and puts off what destroys and is new. Nil approves all.
func (r Runner) arrange(steps, approved []Step, seen sets.Set[string]) (now, later, withheld []Step) {
	listed := keysOf(approved)
	for _, s := range steps {
		switch {
		case !s.Creates() && r.CreateOnly, s.Destroys() && approved != nil && !listed.Has(s.key()):
			withheld = append(withheld, s)
		case !s.Destroys() || seen.Has(s.key()):
			now = append(now, s)
		default:
			later = append(later, s)
			seen.Insert(s.key())
		}
	}
	return now, later, withheld
}

// unsettled are the findings that stop a flip and that no step of the plan mends.
func unsettled(p Plan) []Finding {
	mended := sets.New[netip.Addr]() // the zero Addr stands for the default ServiceCIDR
	for _, s := range p.Steps {
		if s.Do != RepairBitmap {
			mended.Insert(s.Address)
		}
	}
	never := []Kind{DuplicateClusterIP, InvalidClusterIP, MisspeltClusterIP, ObjectUnreadable}
	return slices.DeleteFunc(p.StopFlip(), func(f Finding) bool { return !slices.Contains(never, f.Kind) && mended.Has(f.Address) })
}

// apply carries out steps and returns how many of them wrote something. The ServiceCIDR comes
// first, so that IPAddresses have a range, and bitmaps come last.
func (r Runner) apply(ctx context.Context, steps []Step) (written int, err error) {
	do := r.applyEach
	if r.ThroughStore {
		do = r.applyToStore
	}
	for _, kind := range []string{"ServiceCIDR", "IPAddress", "Bitmap"} {
		phase := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return !strings.HasSuffix(string(s.Do), kind) })
		n, err := do(ctx, phase)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// writing is what progress calls the work.
const writing = "writing"

func (r Runner) applyEach(ctx context.Context, steps []Step) (int, error) {
	return batch.Each(ctx, r.Pace, writing, steps, func(ctx context.Context, s Step) error {
		do := apiWriter(r.Sources).apply
		if s.Do == RepairBitmap {
			do = r.repairBitmap
		}
		if err := do(ctx, s); err != nil {
			return fmt.Errorf("%s %s: %w", s.Do, s.What(), err)
		}
		return nil
	})
}

// confirmAfter is how long a finding must last: a new Service's bit or IPAddress precedes it.
const confirmAfter = 3 * time.Second

// Confirmed returns what two looks, some seconds apart, have found: the rest was a write under way.
func (s Sources) Confirmed(ctx context.Context, o Options) (Plan, error) {
	w, err := s.Snapshot(ctx)
	if err != nil {
		return Plan{}, err
	}
	first := NewPlan(w, o)
	if s.API == nil || first.Clean() {
		return first, nil
	}
	if err = batch.Sleep(ctx, confirmAfter); err == nil {
		w, err = s.Snapshot(ctx)
	}
	return confirm(first, NewPlan(w, o)), err
}

func confirm(first, second Plan) Plan {
	findings, steps := sets.Set[string]{}, keysOf(first.Steps)
	for _, f := range first.Findings {
		findings.Insert(f.key())
	}
	before := len(second.Findings)
	second.Findings = slices.DeleteFunc(second.Findings, func(f Finding) bool { return !findings.Has(f.key()) })
	second.Passing = before - len(second.Findings)
	drifted := slices.ContainsFunc(second.Findings, func(f Finding) bool {
		return f.Kind == LeakedBit || f.Kind == MissingBit || f.Kind == BitmapEmpty
	})
	second.Steps = slices.DeleteFunc(second.Steps, func(s Step) bool {
		return !steps.Has(s.key()) || s.Do == RepairBitmap && !drifted // each look finds other Services under way
	})
	return second
}

func (f Finding) key() string {
	return strings.Join([]string{string(f.Kind), f.Address.String(), strings.Join(f.Objects, ",")}, "|")
}

func keysOf(steps []Step) sets.Set[string] {
	keys := sets.Set[string]{}
	for _, s := range steps {
		keys.Insert(s.key())
	}
	return keys
}
