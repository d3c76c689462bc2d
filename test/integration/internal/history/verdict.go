package history

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// limit is how long the search may take for one address.
const limit = time.Minute

// Verdict says what is wrong in a history.
type Verdict struct {
	// Addresses and Operations are how many were judged, by kind.
	Addresses  int
	Operations map[Kind]int
	// Told are writes of which no answer tells but the state in the end.
	Told int
	// Faults are to be read: each has an address, and what cannot have been in any order.
	Faults []string
	// Excused are operations that the caller has excused.
	Excused []Operation
	moments []time.Time // of the Faults; zero if no order was found
}

// String is for the report of a spec.
func (v Verdict) String() string {
	text := fmt.Sprintf("%d addresses, operations %v, %d told by the state in the end, %d excused", v.Addresses, v.Operations, v.Told, len(v.Excused))
	return strings.Join(append([]string{text}, v.Faults...), "\n")
}

// Excuse is asked about an operation that cannot have been, with the other Services that have the
// address, and says why it is no fault of the operator, or nothing.
type Excuse func(o Operation, others []string) string

// Check judges operations. excuse may be nil.
func Check(operations []Operation, excuse Excuse) Verdict {
	v, of := Verdict{Operations: map[Kind]int{}}, byAddress(operations)
	for _, o := range operations {
		v.Operations[o.Kind]++
	}
	v.Addresses = len(of)
	for _, a := range slices.SortedFunc(maps.Keys(of), netip.Addr.Compare) {
		v.judge(of[a], excuse)
	}
	return v
}

// Judge makes operations of requests, with some more, and judges them.
func Judge(requests []Request, end *Final, windows Windows, more []Operation, excuse Excuse) Verdict {
	operations, told, faults := Operations(requests, end, windows)
	v := Check(append(operations, more...), excuse)
	for i, f := range v.Faults {
		v.Faults[i] = f + about(requests, f, v.moments[i])
	}
	v.Told, v.Faults = told, append(faults, v.Faults...)
	return v
}

// about lists the last requests about the address of a counterexample until a second after it,
// those without effect too.
func about(requests []Request, counterexample string, at time.Time) string {
	text, _, _ := strings.Cut(counterexample, ": ")
	a, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	var lines []string
	for _, r := range byAnswer(requests) {
		if !at.IsZero() && r.Received.After(at.Add(time.Second)) {
			continue
		}
		if r.Name == text || slices.Contains(r.Asked, a) || r.Answer != nil && slices.Contains(r.Answer.Addresses, a) {
			lines = append(lines, fmt.Sprintf("\n  asked: %s..%s %s %s", clock(r.Received), clock(r.Done), r, r.Message))
		}
	}
	return strings.Join(lines[max(0, len(lines)-shown):], "")
}

// judge judges the operations of one address.
func (v *Verdict) judge(of []Operation, excuse Excuse) {
	for {
		result, longest := search(of)
		if result == porcupine.Ok {
			return
		}
		next := -1
		if result == porcupine.Illegal {
			next = due(of, longest)
		}
		if next >= 0 && excuse != nil && of[next].Excused == "" {
			if of[next].Excused = excuse(of[next], after(of, longest).others(of[next].Service)); of[next].Excused != "" {
				v.Excused = append(v.Excused, of[next])
				continue
			}
		}
		var at time.Time
		if next >= 0 {
			at = of[next].Return
		}
		v.Faults, v.moments = append(v.Faults, explain(of, longest, next)), append(v.moments, at)
		return
	}
}

// search looks for an order of the operations. Without one it returns the longest beginning of
// one that it found, as places in of.
func search(of []Operation) (porcupine.CheckResult, []int) {
	history := make([]porcupine.Operation, len(of))
	for i, o := range of {
		ret := int64(math.MaxInt64)
		if !o.Return.IsZero() {
			ret = o.Return.UnixMicro()
		}
		history[i] = porcupine.Operation{Input: o, Call: o.Call.UnixMicro(), Return: ret, Metadata: i}
	}
	result, info := porcupine.CheckOperationsVerbose(model, history, limit)
	var longest []int
	for _, partition := range info.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	return result, longest
}

// due is the operation that should come next: the one that returns first of those left.
func due(of []Operation, done []int) int {
	next := -1
	for i, o := range of {
		if !slices.Contains(done, i) && !o.Return.IsZero() && (next < 0 || o.Return.Before(of[next].Return)) {
			next = i
		}
	}
	return next
}

// after is the address after some operations, in an order that can be.
func after(of []Operation, order []int) (s state) {
	for _, at := range order {
		if next := s.steps(of[at]); len(next) > 0 {
			s = next[0].(state)
		}
	}
	return s
}

// shown is how many operations a counterexample has before the one that cannot be.
const shown = 12

// explain is a counterexample for its reader.
func explain(of []Operation, longest []int, next int) string {
	var b strings.Builder
	s := after(of, longest)
	for i, at := range longest {
		if i == max(0, len(longest)-shown) {
			fmt.Fprintf(&b, "%s: after\n", of[at].Address)
		}
		if i >= len(longest)-shown {
			fmt.Fprintf(&b, "  %s\n", of[at])
		}
	}
	if next < 0 {
		return fmt.Sprintf("%sno order was found in %s", b.String(), limit)
	}
	fmt.Fprintf(&b, "%s: %s, and this cannot be:\n  %s", of[next].Address, s, of[next])
	for i, o := range of {
		if i != next && !slices.Contains(longest, i) && !o.Call.After(of[next].Return) {
			fmt.Fprintf(&b, "\n  nor after: %s", o)
		}
	}
	return b.String()
}

// String is a line of a counterexample.
func (o Operation) String() string {
	until := "?"
	if !o.Return.IsZero() {
		until = clock(o.Return)
	}
	what := strings.Fields(strings.Join([]string{string(o.Kind), o.Service, strings.Join(o.Services, " "), o.Parent}, " "))
	return fmt.Sprintf("%s..%s %s (%s)", clock(o.Call), until, strings.Join(what, " "), o.Text)
}

// String is a state for the reader.
func (s state) String() string {
	parts := []string{"free"}
	if s.owners != "" {
		parts[0] = "had by " + strings.TrimSpace(s.owners)
	}
	if s.ipAddress != "" {
		parts = append(parts, "an IPAddress names "+s.parent)
	}
	if s.kept != "" {
		parts = append(parts, "kept for "+strings.TrimSpace(s.kept))
	}
	return strings.Join(parts, ", ")
}
