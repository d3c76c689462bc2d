package wording

import "strings"

const dots = "..."

// Cut shortens what is longer than limit, in bytes, which is three at least. It cuts between two characters, and shows that it did.
func Cut(words string, limit int) string {
	if len(words) <= limit {
		return words
	}
	return strings.ToValidUTF8(words[:limit-len(dots)], "") + dots
}
