package migration

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// maxRounds bounds how often Run looks again.
const maxRounds = 6

// Progress is told how far the work is. Its methods may be called concurrently.
type Progress interface {
	// Begin announces how many steps there are. It ends the work before.
	Begin(what string, total int)
	// Done counts steps that are done.
	Done(n int)
	// End says that there is no more.
	End()
}

// Runner carries out plans.
type Runner struct {
	Sources Sources
	Options Options
	// Limit is how many writes per second there may be, Workers how many at a time.
	Limit    rate.Limit
	Workers  int
	Progress Progress
	// CreateOnly leaves what exists as it is.
	CreateOnly bool
	// LeakGrace is how long a bit must have been leaked before it is cleared.
	LeakGrace time.Duration
	// ThroughStore writes into etcd instead of through the API server.
	ThroughStore bool
}

// Result is what became of a run.
type Result struct {
	// Last is the plan of the last look.
	Last Plan
	// Written is how many steps were carried out. Tried is set before the first is.
	Written int
	Tried   bool
	// Fresh is how many steps the last look found that the one before did not.
	Fresh int
	// Withheld are steps that nobody has approved, or that do not create where only that is wanted.
	Withheld []Step
	// Unsettled are findings that no step mends, and that an API server would stumble over.
	Unsettled []Finding
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

// Run looks, plans and writes until nothing is left to do but what came up after the look before: in a cluster that lives there
// is always something new, for a Keeper. What destroys something is done when two looks have found it, and, if approved is not
// nil, only if it is in there. It can be called again after any interruption.
func (r Runner) Run(ctx context.Context, approved []Step) (Result, error) {
	defer r.Progress.End()
	result, permitted, seen := Result{}, r.permits(approved), map[string]bool{}
	for _, s := range approved {
		seen[s.key()] = true
	}
	var c course
	for range maxRounds {
		if err := r.look(ctx, &result); err != nil {
			return result, err
		}
		steps := arrange(result.Last.Steps, permitted, seen)
		result.Withheld = c.stillWithheld(steps.withheld)
		result.Fresh = len(result.Last.Steps) - len(result.Withheld)
		if c.over(steps) {
			return result, nil
		}
		result.Tried = result.Tried || len(steps.now) > 0
		n, err := r.apply(ctx, steps.now)
		result.Written += n
		if err != nil {
			return result, err
		}
		if err := pauseIf(ctx, len(steps.later) > 0); err != nil {
			return result, err
		}
	}
	return result, errors.New("after many rounds there is still something to do about the same addresses; somebody undoes it, or they change all the time")
}

// course remembers what earlier looks have led to, to tell what is left from what has come since.
type course struct {
	begun    bool
	withheld map[string]bool // the steps of the first look that are not permitted
	written  map[string]bool // what has been aimed at so far
	putOff   bool            // the first look has put steps off until a second one has found them too
}

// stillWithheld are those that the first look found. Others have come since, as when a Service goes right after its IPAddress
// was written.
func (c *course) stillWithheld(steps []Step) []Step {
	if c.withheld == nil {
		c.withheld = make(map[string]bool, len(steps))
		for _, s := range steps {
			c.withheld[s.key()] = true
		}
	}
	return slices.DeleteFunc(steps, func(s Step) bool { return !c.withheld[s.key()] })
}

// over reports whether nothing is left to do but what has come since the look before. What was aimed at already, and is to be done
// again, was undone or has failed; that a Service goes right after its IPAddress was written is neither.
func (c *course) over(o order) bool {
	steps := slices.Concat(o.now, o.later)
	settled := c.begun && !c.putOff && !slices.ContainsFunc(steps, func(s Step) bool { return c.written[s.aim()] })
	if len(steps) == 0 || settled {
		return true
	}
	c.putOff = !c.begun && len(o.later) > 0
	if c.written == nil {
		c.written = map[string]bool{}
	}
	c.begun = true
	for _, s := range o.now {
		if s.Do != RepairBitmap { // Services under creation make it look drifted at every moment
			c.written[s.aim()] = true
		}
	}
	return false
}

// look reads the cluster and plans.
func (r Runner) look(ctx context.Context, result *Result) error {
	w, err := r.Sources.Snapshot(ctx)
	if err != nil {
		return err
	}
	result.Last = NewPlan(w, r.Options)
	if blocked := result.Last.Blocked(); len(blocked) > 0 {
		return &BlockedError{blocked}
	}
	result.Unsettled = unsettled(result.Last)
	return nil
}

// order is what is done with the steps of a plan.
type order struct{ now, later, withheld []Step }

// arrange withholds what is not permitted, and puts off what destroys and was not seen before.
func arrange(steps []Step, permitted func(Step) bool, seen map[string]bool) (o order) {
	for _, s := range steps {
		switch {
		case !permitted(s):
			o.withheld = append(o.withheld, s)
		case !s.Destroys() || seen[s.key()]:
			o.now = append(o.now, s)
		default:
			o.later = append(o.later, s)
			seen[s.key()] = true
		}
	}
	return o
}

// permits returns what may be done: what destroys only if it is in approved, or that is nil.
func (r Runner) permits(approved []Step) func(Step) bool {
	keys := make(map[string]bool, len(approved))
	for _, s := range approved {
		keys[s.key()] = true
	}
	return func(s Step) bool {
		switch {
		case r.CreateOnly:
			return s.Creates()
		default:
			return !s.Destroys() || approved == nil || keys[s.key()]
		}
	}
}

func pauseIf(ctx context.Context, needed bool) error {
	if !needed {
		return nil
	}
	return sleep(ctx, confirmAfter)
}

// unsettled are the findings that stop a flip and that no step of the plan mends.
func unsettled(p Plan) []Finding {
	mended := map[netip.Addr]bool{} // the zero Addr stands for the default ServiceCIDR
	for _, s := range p.Steps {
		if s.Do != RepairBitmap {
			mended[s.Address] = true
		}
	}
	return slices.DeleteFunc(p.StopFlip(), func(f Finding) bool {
		switch f.Kind {
		case DuplicateClusterIP, InvalidClusterIP, MisspeltClusterIP, ObjectUnreadable:
			return false
		default:
			return mended[f.Address]
		}
	})
}

// apply carries out steps and returns how many of them wrote something. The ServiceCIDR comes first, bitmaps come last.
func (r Runner) apply(ctx context.Context, steps []Step) (written int, err error) {
	if len(steps) == 0 {
		return 0, nil
	}
	r.Progress.Begin("writing", len(steps))
	for _, phase := range phases(steps) {
		var n int
		if r.ThroughStore {
			n, err = r.applyToStore(ctx, phase)
		} else {
			n, err = r.applyEach(ctx, phase)
		}
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// phases groups steps so that those within a group may be taken in any order.
func phases(steps []Step) [][]Step {
	var cidrs, addresses, bitmaps []Step
	for _, s := range steps {
		switch s.Do {
		case CreateServiceCIDR, ReplaceServiceCIDR:
			cidrs = append(cidrs, s)
		case RepairBitmap:
			bitmaps = append(bitmaps, s)
		default:
			addresses = append(addresses, s)
		}
	}
	return [][]Step{cidrs, addresses, bitmaps}
}

func (r Runner) applyEach(ctx context.Context, steps []Step) (int, error) {
	var written atomic.Int64
	limit := rate.NewLimiter(r.Limit, max(1, r.Workers))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, r.Workers))
	for _, s := range steps {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if err := limit.Wait(ctx); err != nil {
				return err
			}
			switch err := r.one(ctx, s); {
			case err == nil:
				written.Add(1)
			case !errors.Is(err, errMoved):
				return fmt.Errorf("%s %s: %w", s.Do, s.What(), err)
			}
			r.Progress.Done(1)
			return nil
		})
	}
	err := group.Wait()
	return int(written.Load()), err
}

func (r Runner) one(ctx context.Context, s Step) error {
	if s.Do == RepairBitmap {
		return r.repairBitmap(ctx, s)
	}
	return apiWriter{r.Sources.API, r.Sources.APIVersion}.apply(ctx, s)
}

// aim names what a step leads to, in whatever way and whatever UID the object has by then: that an object is there for a Service, or for
// none. The same aim twice is an object that somebody else has changed; another aim is a cluster that has.
func (s Step) aim() string { return s.What() + "|" + s.Service.String() }

// What names the object of a step: an address, the key of a bitmap, or the default ServiceCIDR.
func (s Step) What() string {
	switch {
	case s.Address.IsValid():
		return s.Address.String()
	case s.Key != "":
		return s.Key
	default:
		return defaultName
	}
}
