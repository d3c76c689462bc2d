// Package wording fits what the operator tells users into the room that the API server gives. Everything here is a pure function.
package wording

import "strings"

// NoteLimit is how many bytes events.k8s.io takes for the note of an event; a longer one is refused.
const NoteLimit = 1024

const dots = "..."

// Cut shortens what is longer than limit, in bytes, which is three at least. It cuts between two characters, and shows that it did.
func Cut(words string, limit int) string {
	if len(words) <= limit {
		return words
	}
	return strings.ToValidUTF8(words[:limit-len(dots)], "") + dots
}
