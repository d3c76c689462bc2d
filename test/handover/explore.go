package handover

import (
	"fmt"
	"slices"
	"strings"
)

// step is something that may happen next, and what it leads to.
type step[S comparable] struct {
	name string
	to   S
}

// found is the outcome of an exploration.
type found[S comparable] struct {
	// states is how many there are, or how many were seen until one was broken.
	states int
	// broken says what is wrong, empty if nothing is; path leads there, and is the shortest.
	broken string
	path   []string
}

// String is a counterexample for its reader.
func (f found[S]) String() string {
	if f.broken == "" {
		return fmt.Sprintf("%d states, none is broken", f.states)
	}
	return f.broken + " after\n  " + strings.Join(f.path, "\n  ")
}

// explore visits all states that can be reached, those nearest to the first one first, until one is
// broken.
func explore[S comparable](first S, next func(S) []step[S], broken func(S) string) found[S] {
	type arrival struct {
		from S
		by   string
	}
	seen := map[S]arrival{first: {}}
	for queue := []S{first}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		if why := broken(s); why != "" {
			f := found[S]{states: len(seen), broken: why}
			for ; s != first; s = seen[s].from {
				f.path = append(f.path, seen[s].by)
			}
			slices.Reverse(f.path)
			return f
		}
		for _, step := range next(s) {
			if _, known := seen[step.to]; !known {
				seen[step.to] = arrival{s, step.name}
				queue = append(queue, step.to)
			}
		}
	}
	return found[S]{states: len(seen)}
}
