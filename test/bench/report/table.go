package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is rows of cells under a header. Rows may be shorter than the header; the rest of their cells is empty.
type Table struct {
	Header []string
	Rows   [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Print writes the table with aligned columns and a blank line behind it: markdown that a terminal shows well.
// The first column is aligned to the left, numbers follow to the right.
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
