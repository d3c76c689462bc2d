// Package wording fits what users are told into the room that there is: what the API server gives,
// or a line. Everything here is a pure function.
package wording

import (
	"fmt"
	"strings"
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

// First names so many items, and says how many there are beyond them: "a, b and 7 more".
func First(items []string, most int) string {
	if len(items) <= most {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), len(items)-most)
}
