// Package report shows the results of benchmarks: as a table on a terminal, and as a section of
// docs/reference/benchmarks.md, replaced between two markers while the text around it stays as
// people wrote it. Start with Section.
package report

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// Section is one measured part of the document.
type Section struct {
	// Name is in the markers: <!-- bench:NAME --> and <!-- /bench:NAME -->.
	Name string
	// Intro says how the numbers came about: command, versions, machine.
	Intro []string
	// Tables are the numbers; Notes follow them.
	Tables []Table
	Notes  []string
}

// Print writes the section as markdown.
func (s Section) Print(w io.Writer) error {
	if err := printLines(w, s.Intro); err != nil {
		return err
	}
	for _, t := range s.Tables {
		if err := t.Print(w); err != nil {
			return err
		}
	}
	return printLines(w, s.Notes)
}

// printLines writes one paragraph for each line.
func printLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// WriteTo puts the section between its markers in a file that has them. The rest of the file stays.
func (s Section) WriteTo(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	replaced, err := s.replaceIn(string(content))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.WriteFile(path, []byte(replaced), 0o644)
}

func (s Section) replaceIn(document string) (string, error) {
	open, end := "<!-- bench:"+s.Name+" -->\n", "<!-- /bench:"+s.Name+" -->\n"
	before, rest, opened := strings.Cut(document, open)
	_, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		return "", fmt.Errorf("it has no markers %q and %q on lines of their own", strings.TrimSpace(open), strings.TrimSpace(end))
	}
	var body strings.Builder
	if err := s.Print(&body); err != nil {
		return "", err
	}
	return before + open + "\n" + strings.TrimRight(body.String(), "\n") + "\n\n" + end + after, nil
}

// Table is rows of cells under a header. A row may be shorter: the rest of its cells is empty.
type Table struct {
	Header []string
	Rows   [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Print writes the table with aligned columns and a blank line behind it: markdown that a terminal
// shows well. The first column is aligned to the left, numbers follow to the right.
func (t *Table) Print(w io.Writer) error {
	widths := t.widths()
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width)
		if i > 0 {
			rule[i] = strings.Repeat("-", width-1) + ":"
		}
	}
	var text strings.Builder
	for _, row := range append([][]string{t.Header, rule}, t.Rows...) {
		for i, width := range widths {
			text.WriteString("| " + pad(cell(row, i), width, i > 0) + " ")
		}
		text.WriteString("|\n")
	}
	_, err := fmt.Fprintln(w, text.String())
	return err
}

func (t *Table) widths() []int {
	widths := make([]int, len(t.Header))
	for i := range widths {
		widths[i] = 3 // the shortest rule that markdown accepts
		for _, row := range append(slices.Clone(t.Rows), t.Header) {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell(row, i)))
		}
	}
	return widths
}

func cell(row []string, i int) string {
	if i < len(row) {
		return row[i]
	}
	return ""
}

func pad(text string, width int, right bool) string {
	blanks := strings.Repeat(" ", width-utf8.RuneCountInString(text))
	if right {
		return blanks + text
	}
	return text + blanks
}

// Target says whether a goal was reached, in the words of the document.
func Target(reached bool, goal, measured string) string {
	outcome := "missed"
	if reached {
		outcome = "reached"
	}
	return fmt.Sprintf("Target %s: %s (%s).", outcome, goal, measured)
}
