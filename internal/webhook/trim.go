package webhook

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// Members says which members of a JSON object are kept, by name. The rest is passed over.
type Members map[string]Part

// Part is a member of an object that is kept: as it is, or as an object with some members.
type Part struct {
	// Max is how many bytes the value may have as JSON. It counts where Members is nil.
	Max int
	// Members are those of an object.
	Members Members
	// lossy: a value that is too long is left out without a word.
	lossy bool
}

// old is what to keep of the object that a request replaces. It is there already, so what is too
// long in it is no reason to refuse the request that may shorten it.
func (m Members) old() Members {
	if m == nil {
		return nil
	}
	out := Members{}
	for name, part := range m {
		out[name] = Part{Max: part.Max, Members: part.Members.old(), lossy: true}
	}
	return out
}

// most is how many bytes can be kept of an object in which each member comes once.
func (m Members) most() int {
	sum := len("{}")
	for name, part := range m {
		sum += len(name) + len(`"":,`)
		if part.Members == nil {
			sum += max(part.Max, len("null"))
		} else {
			sum += part.Members.most()
		}
	}
	return sum
}

const (
	// maxKey is the longest name that is looked up: an annotation's key of 317 characters, in quotes.
	maxKey = 319
	// chunk is how much of a review is read at a time.
	chunk = 16 << 10
)

// errMalformed: this is no JSON object, or repeats members. An API server sends nothing like it.
var errMalformed = errors.New("this is no AdmissionReview")

// trimmer copies from a review what is to be kept. Beside that it holds one chunk of the review,
// whatever the review is like: a client can send 3 MiB that the API server writes as 118 MB.
//
// It finds out where values begin and end, and nothing else: what it copies is for encoding/json to
// judge. It looks at each byte once.
type trimmer struct {
	// fill reads the next bytes into a chunk.
	fill func(chunk []byte) (int, error)
	// chunk holds the bytes that were read last; next is the first of them that was not looked at.
	chunk []byte
	next  int

	// kept is what was copied, never more than most.
	kept []byte
	most int
	// long is the name of a member with too many bytes, empty for none. In its place stands null.
	long string
	name []byte
}

// object copies the members that are to be kept of the object that comes next.
func (t *trimmer) object(keep Members) error {
	c, err := t.peek()
	if err != nil {
		return err
	}
	if c != '{' {
		return errMalformed
	}
	t.next++
	t.kept = append(t.kept, '{')
	var seen []string
	for {
		c, err := t.peek()
		switch {
		case err != nil:
			return err
		case c == '}':
			t.next++
			t.kept = append(t.kept, '}')
			return nil
		case c == ',':
			t.next++
			continue
		case c != '"':
			return errMalformed
		}
		if seen, err = t.pair(keep, seen); err != nil {
			return err
		}
		if len(t.kept) > t.most {
			return errMalformed
		}
	}
}

// pair reads the name and the value of a member, and copies both if they are to be kept. seen are
// the names that were copied of this object.
func (t *trimmer) pair(keep Members, seen []string) ([]string, error) {
	part, known, err := t.key(keep)
	switch {
	case err != nil:
		return nil, err
	case !known:
		_, _, err = t.value(nil, 0)
		return seen, err
	case slices.Contains(seen, string(t.name)):
		return nil, errMalformed
	case len(seen) > 0:
		t.kept = append(t.kept, ',')
	}
	seen = append(seen, string(t.name))
	return seen, t.member(part)
}

// key reads the name of a member and the colon behind it, and looks it up.
func (t *trimmer) key(keep Members) (part Part, known bool, err error) {
	var fits bool
	if t.name, fits, err = t.value(t.name[:0], maxKey); err != nil {
		return Part{}, false, err
	}
	if fits {
		part, known = keep[string(bytes.Trim(t.name, `"`))]
	}
	c, err := t.peek()
	if err != nil {
		return Part{}, false, err
	}
	if c != ':' {
		return Part{}, false, errMalformed
	}
	t.next++
	_, err = t.peek()
	return part, known, err
}

// member copies a member whose key was read.
func (t *trimmer) member(part Part) error {
	t.kept = append(append(t.kept, t.name...), ':')
	if part.Members != nil && t.chunk[t.next] == '{' {
		return t.object(part.Members)
	}
	var fits bool
	var err error
	t.kept, fits, err = t.value(t.kept, part.Max)
	if fits || err != nil {
		return err
	}
	t.kept = append(t.kept, "null"...)
	if part.Members == nil && !part.lossy {
		t.long = string(t.name)
	}
	return nil
}

// value reads the next value and appends it to a slice, or nothing if it exceeds max bytes.
func (t *trimmer) value(to []byte, max int) (appended []byte, fits bool, err error) {
	begin, fits, e := len(to), true, extent{}
	for {
		n, ended := e.scan(t.chunk[t.next:])
		if fits = fits && len(to)-begin+n <= max; fits {
			to = append(to, t.chunk[t.next:t.next+n]...)
		} else {
			to = to[:begin]
		}
		t.next += n
		if ended {
			return to, fits, nil
		}
		if err := t.more(); err != nil {
			return to[:begin], false, err
		}
	}
}

// peek returns the next byte that is no white space, and leaves it there.
func (t *trimmer) peek() (byte, error) {
	for {
		for ; t.next < len(t.chunk); t.next++ {
			if c := t.chunk[t.next]; c > ' ' {
				return c, nil
			}
		}
		if err := t.more(); err != nil {
			return 0, err
		}
	}
}

// more reads the next chunk. The end of the review is an error: the caller expects more.
func (t *trimmer) more() error {
	n, err := t.fill(t.chunk[:cap(t.chunk)])
	t.chunk, t.next = t.chunk[:n], 0
	if n > 0 {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errors.Join(errMalformed, io.ErrUnexpectedEOF)
	}
	return err
}

// extent finds the end of a JSON value. The zero extent stands before its first byte. It counts
// brackets and does not compare them, so that nesting costs neither time nor memory.
type extent struct {
	scalar, text, escaped bool
	depth                 int
}

// scan looks at the value's next bytes: how many belong to it, and whether it ends there.
func (e *extent) scan(p []byte) (n int, ended bool) {
	for n < len(p) {
		c := p[n]
		switch {
		case e.text:
			n += e.scanText(p[n:])
			if !e.text && e.depth == 0 {
				return n, true
			}
			continue
		case c == '"' && !e.scalar:
			e.text = true
		case (c == '{' || c == '[') && !e.scalar:
			e.depth++
		case c == '}' || c == ']':
			if e.scalar {
				return n, true
			}
			if e.depth--; e.depth <= 0 {
				return n + 1, true
			}
		case e.depth == 0 && (c == ',' || c <= ' ' || c == ':'):
			return n, true // behind a number, true, false or null
		case e.depth == 0:
			e.scalar = true
		}
		n++
	}
	return n, false
}

// scanText looks at the bytes of a string behind its first quote.
func (e *extent) scanText(p []byte) int {
	for i, c := range p {
		switch {
		case e.escaped:
			e.escaped = false
		case c == '\\':
			e.escaped = true
		case c == '"':
			e.text = false
			return i + 1
		}
	}
	return len(p)
}
