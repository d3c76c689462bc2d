package servicecidr

import (
	"fmt"
	"time"
)

// noteLimit is how many bytes events.k8s.io takes for the note of an event; a longer one is refused.
const noteLimit = 1024

// listed joins the first names, as many as fit into so many bytes, and says how many there are beyond them.
func listed[T any](names []T, total uint64, budget int) string {
	const reserve = len(" and 18446744073709551615 more")
	var text string
	var shown uint64
	for _, n := range names[:min(len(names), namesShown)] {
		next := text
		if shown > 0 {
			next += ", "
		}
		next += fmt.Sprint(n)
		if len(next) > budget-reserve {
			break
		}
		text, shown = next, shown+1
	}
	if more := total - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// framed puts a list into the middle of a sentence, so that the whole is no longer than limit: the remedy stands at
// the end and must not be cut off.
func framed[T any](before string, names []T, total uint64, after string, limit int) string {
	return before + listed(names, total, limit-len(before)-len(after)) + after
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// roughly words a duration in steps that double, so that a forecast is not rewritten as it creeps.
func roughly(d time.Duration) string {
	if d < time.Hour {
		return "less than an hour"
	}
	hours := 1
	for time.Duration(hours*2)*time.Hour <= d {
		hours *= 2
	}
	if hours >= 32 {
		return fmt.Sprintf("more than %s", plural(uint64(hours/24), "day", "days"))
	}
	return fmt.Sprintf("more than %s", plural(uint64(hours), "hour", "hours"))
}
