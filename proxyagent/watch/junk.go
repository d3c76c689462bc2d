package watch

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// shownJunk is how many pieces of junk are told by their value, shownLetters how much of each.
	shownJunk    = 3
	shownLetters = 64
)

// junk collects what of one object cannot be used. Its size has a bound, whatever the object holds. The zero value is none.
type junk struct {
	count    int
	examples []string
}

// add counts one more; what names the field, and value may be anything.
func (j *junk) add(what, value string) {
	j.count++
	if len(j.examples) < shownJunk {
		j.examples = append(j.examples, what+" "+quoted(value))
	}
}

// String tells examples of what was found. It is empty when there was nothing, and it is one line.
func (j *junk) String() string {
	text := strings.Join(j.examples, ", ")
	if more := j.count - len(j.examples); more > 0 {
		return fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

// quoted writes any string on one short line.
func quoted(s string) string {
	if len(s) > shownLetters {
		return strconv.Quote(s[:shownLetters]) + "..."
	}
	return strconv.Quote(s)
}
