package config

import (
	"bytes"
)

// documents counts the documents of a YAML stream that have any content. A line that begins with --- or ... is a marker wherever it
// stands, also inside of quotes and block texts, as YAML forbids it there.
func documents(text []byte) int {
	count, open := 0, false
	for line := range bytes.Lines(text) {
		rest, starts := marker(line, "---")
		if _, ends := marker(line, "..."); starts || ends {
			open = false
		}
		if !open && hasContent(rest) {
			open = true
			count++
		}
	}
	return count
}

// marker reports whether a line is the given marker, and returns what follows it; all of the line if it is none.
func marker(line []byte, mark string) ([]byte, bool) {
	rest, found := bytes.CutPrefix(line, []byte(mark))
	if !found || len(rest) > 0 && !bytes.ContainsAny(rest[:1], " \t\r\n") {
		return line, false
	}
	return rest, true
}

// hasContent reports whether a line holds more than blanks, a comment, a directive or the end of a document.
func hasContent(line []byte) bool {
	_, ends := marker(line, "...")
	line = bytes.TrimLeft(line, " \t\r\n\uFEFF")
	return !ends && len(line) > 0 && line[0] != '#' && line[0] != '%'
}
