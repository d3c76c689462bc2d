// Package guide reads the commands of a guide in Markdown, so that a test can run what an admin
// would paste.
//
// It models a [Block]: what stands between ```bash and ```. The block ```output after it shows some
// of its lines. Two comments, which only the source shows, say what a test has to know:
//
//	<!-- not executed here: why -->    before a block: another test runs it, or none can
//	<!-- given                         commands for the test, which make what the reader has already
//	-->
//
// A block that is meant to fail has its exit status behind the language: ```bash exits 1.
//
// It promises that a guide in another form is refused: a fence without a language, an output
// without its commands. Start with [Read].
package guide

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Block are commands of a guide.
type Block struct {
	// Line is that of the first command, counted from 1.
	Line int
	// Heading is the one above it, with its number signs.
	Heading string
	// Commands are text for bash.
	Commands string
	// Given: the reader does not see them.
	Given bool
	// NotHere says why a test does not run them, empty if it does.
	NotHere string
	// Exit is the status with which they end.
	Exit int
	// Output are printed lines in order. "..." stands for anything, a line of it for any lines.
	Output []string
}

var (
	fence   = regexp.MustCompile("^ *```(.*)$")
	exits   = regexp.MustCompile(`^bash exits ([0-9]+)$`)
	notHere = regexp.MustCompile(`^ *<!-- not executed here: (.+) -->$`)
)

// inert are the languages of blocks that show something and are no commands.
const inert = " yaml text "

// Read reads a guide.
func Read(file string) ([]Block, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a guide: %w", err)
	}
	blocks, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	return blocks, nil
}

// Parse is Read for a text. The error begins with the number of the line.
func Parse(text string) ([]Block, error) {
	r := &reader{lines: strings.Split(text, "\n")}
	for r.at < len(r.lines) {
		if err := r.step(); err != nil {
			return nil, err
		}
	}
	if r.reason != "" {
		return nil, r.mistake("a block is not executed, and there is none")
	}
	return r.blocks, nil
}

// reader goes through the lines of a guide.
type reader struct {
	lines []string
	at    int // the next line

	blocks          []Block
	heading, reason string
}

func (r *reader) mistake(format string, args ...any) error {
	return fmt.Errorf("%d: %s", r.at, fmt.Sprintf(format, args...))
}

func (r *reader) step() error {
	line := r.lines[r.at]
	r.at++
	switch match := fence.FindStringSubmatch(line); {
	case strings.HasPrefix(line, "#"):
		r.heading = line
	case strings.TrimSpace(line) == "<!-- given":
		return r.add(Block{Given: true}, "-->")
	case match != nil:
		return r.block(match[1])
	default:
		if match := notHere.FindStringSubmatch(line); match != nil {
			r.reason = match[1]
		}
	}
	return nil
}

// block reads a block whose fence is behind us.
func (r *reader) block(language string) error {
	switch status := exits.FindStringSubmatch(language); {
	case status != nil:
		exit, err := strconv.Atoi(status[1])
		if err != nil {
			return r.mistake("%q is no exit status", status[1])
		}
		return r.add(Block{Exit: exit, NotHere: r.given()}, "```")
	case language == "bash":
		return r.add(Block{NotHere: r.given()}, "```")
	case language == "output":
		return r.output()
	case language != "" && strings.Contains(inert, " "+language+" "):
		_, err := r.until("```")
		return err
	}
	return r.mistake("a block is bash, output, or one of%s, not %q", inert, language)
}

// given is why the next block is not executed here, empty if it is; said once.
func (r *reader) given() string {
	reason := r.reason
	r.reason = ""
	return reason
}

func (r *reader) add(b Block, end string) error {
	b.Line, b.Heading = r.at+1, r.heading
	lines, err := r.until(end)
	b.Commands = strings.Join(lines, "\n")
	r.blocks = append(r.blocks, b)
	return err
}

func (r *reader) output() error {
	if len(r.blocks) == 0 || r.blocks[len(r.blocks)-1].Given || r.blocks[len(r.blocks)-1].Output != nil {
		return r.mistake("an output without its commands")
	}
	lines, err := r.until("```")
	r.blocks[len(r.blocks)-1].Output = lines
	return err
}

// until reads to a line, and returns what is before it.
func (r *reader) until(end string) ([]string, error) {
	first := r.at
	for ; r.at < len(r.lines); r.at++ {
		if strings.TrimSpace(r.lines[r.at]) == end {
			r.at++
			return r.lines[first : r.at-1], nil
		}
	}
	return nil, r.mistake("a block that began at line %d does not end", first)
}
