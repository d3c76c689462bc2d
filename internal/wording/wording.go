// Package wording fits what the operator tells users into the room that the API server gives.
// Everything here is a pure function.
package wording

import "strings"

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
