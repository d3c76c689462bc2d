// Package wording fits what the operator tells users into the room that the API server gives, and
// dates it. Everything here is a pure function.
package wording

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NoteLimit is how many bytes events.k8s.io takes for an event's note; it refuses a longer one.
const NoteLimit = 1024

const dots = "..."

// Cut shortens words to limit bytes, at least three, between two characters, and shows that it did.
func Cut(words string, limit int) string {
	if len(words) <= limit {
		return words
	}
	return strings.ToValidUTF8(words[:limit-len(dots)], "") + dots
}

// Pick returns the conditions of some types, in the order of the types.
func Pick(all []metav1.Condition, types ...string) (out []metav1.Condition) {
	for _, kind := range types {
		if c := meta.FindStatusCondition(all, kind); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// Dated returns conditions with the time of the last transition: the earlier one if there was none.
func Dated(before, want []metav1.Condition, now time.Time) []metav1.Condition {
	out := slices.Clone(want)
	for i, c := range out {
		out[i].LastTransitionTime = metav1.NewTime(now)
		if was := meta.FindStatusCondition(before, c.Type); was != nil && was.Status == c.Status {
			out[i].LastTransitionTime = was.LastTransitionTime
		}
	}
	return out
}
