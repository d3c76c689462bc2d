// Package plain makes texts of users fit to be shown to people. The author of an object chooses its
// texts: escape sequences rewrite what a terminal has shown, line breaks forge lines of ours, and
// characters that turn the writing direction disguise names. Everything here is a pure function.
package plain

import (
	"strings"
	"unicode"
)

// Text is a text in one line: U+FFFD for control or format characters, line breaks, invalid UTF-8.
func Text(words string) string { return strings.Map(visible, words) }

// Lines is Text that leaves line breaks and tabs, for texts of ours that have them.
func Lines(words string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return visible(r)
	}, words)
}

func visible(r rune) rune {
	if unicode.IsGraphic(r) {
		return r
	}
	return unicode.ReplacementChar
}
