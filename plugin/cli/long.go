package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
)

// Long prints a list that may have hundreds of thousands of items, one after the other, in every
// format of a Listing and as that is printed. It keeps no item: for json, yaml and names nothing,
// for tables and columns the text of a row. A jsonpath is of the whole list, which is kept for it.
//
// Add all items, then End.
type Long[T any] struct {
	out    Streams
	format Output
	kind   string
	w      *bufio.Writer
	items  int
	table  textTable
	custom columns // of -o custom-columns
	all    []T     // for -o jsonpath
}

// NewLong begins a list of a kind, with a table of these columns.
func NewLong[T any](out Streams, format Output, kind string, heads []metav1.TableColumnDefinition) (*Long[T], error) {
	l := &Long[T]{out: out, format: format, kind: kind, w: bufio.NewWriter(out.Out)}
	for _, c := range heads {
		if c.Priority == 0 || format.Format == "wide" {
			l.table.head = append(l.table.head, c.Name)
		}
	}
	if kindOf(format.Format) != "custom-columns" {
		return l, nil
	}
	p, err := printerOf(format.Format)
	if err != nil {
		return nil, err
	}
	l.custom = p.(columns)
	l.table.head = l.custom.heads
	return l, nil
}

// Add prints an item, of which cells are those of all columns; those for -o wide are the last.
func (l *Long[T]) Add(item T, name string, cells []any) (err error) {
	switch {
	case AsTable(l.format.Format) || l.format.Format == "wide":
		l.table.add(cells[:len(l.table.head)]...)
	case l.format.Format == "name":
		_, err = fmt.Fprintln(l.w, name)
	case l.format.Format == "json" || l.format.Format == "yaml":
		err = l.encode(item)
	case l.custom.paths != nil:
		var decoded any
		if decoded, err = decodedOf(item); err == nil {
			var row []any
			row, err = l.custom.row(decoded)
			l.table.add(row...)
		}
	default:
		l.all = append(l.all, item)
	}
	l.items++
	return err
}

// encode writes an item as a part of {"kind": ..., "items": [...]}.
func (l *Long[T]) encode(item T) error {
	var text bytes.Buffer
	if err := batch.Encode(&text, []T{item}, l.format.Format); err != nil {
		return err
	}
	if l.format.Format == "yaml" { // a list of one is an item; keys are in order
		l.begin("items:\n", "")
		_, err := l.w.Write(text.Bytes())
		return err
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(text.String(), "[\n"), "\n]\n")
	l.begin(fmt.Sprintf("{\n  \"kind\": %q,\n  \"items\": [\n", l.kind), ",\n")
	_, err := l.w.WriteString("  " + strings.ReplaceAll(inner, "\n", "\n  "))
	return err
}

// begin writes what comes before the first item, or between two.
func (l *Long[T]) begin(first, between string) {
	if l.items > 0 {
		first = between
	}
	_, _ = l.w.WriteString(first) // Flush tells
}

// End prints what is left. That a table has no rows is said where it is no output.
func (l *Long[T]) End() error {
	format := l.format.Format
	switch {
	case AsTable(format) || format == "wide":
		if l.items == 0 {
			Write(l.out.ErrOut, "No resources found\n")
		} else {
			l.table.print(l.w, !l.format.NoHeaders)
		}
	case l.custom.paths != nil:
		l.table.print(l.w, true)
	case format == "json" && l.items > 0:
		_, _ = l.w.WriteString("\n  ]\n}\n")
	case format == "yaml" && l.items > 0:
		_, _ = fmt.Fprintf(l.w, "kind: %s\n", l.kind)
	case format != "name":
		if err := Encode(l.w, listOf[T]{l.kind, append([]T{}, l.all...)}, format); err != nil { // programs find a list
			return err
		}
	}
	return l.w.Flush()
}

// listOf is a list as programs read it.
type listOf[T any] struct {
	Kind  string `json:"kind"`
	Items []T    `json:"items"`
}

// decodedOf is a value as a template sees it.
func decodedOf(value any) (out any, err error) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

// textTable aligns rows as kubectl does. It keeps each as one text.
type textTable struct {
	head   []string
	rows   []string // cells with a tab between two
	widths []int
}

func (t *textTable) add(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = plain.Text(fmt.Sprint(cell))
	}
	t.widen(texts)
	t.rows = append(t.rows, strings.Join(texts, "\t"))
}

func (t *textTable) widen(texts []string) {
	if t.widths == nil {
		t.widths = make([]int, len(texts))
	}
	for i, text := range texts {
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(text))
	}
}

// print writes the rows, below their head if it is wanted.
func (t *textTable) print(w io.Writer, headed bool) {
	const least, gap = 6, 3 // as in kubectl
	line := func(cells []string) {
		for i, cell := range cells {
			if i == len(cells)-1 {
				_, _ = io.WriteString(w, cell+"\n")
				return
			}
			_, _ = fmt.Fprintf(w, "%-*s", max(least, t.widths[i]+gap), cell)
		}
	}
	if headed {
		t.widen(t.head)
		line(t.head)
	}
	for _, row := range t.rows {
		line(strings.Split(row, "\t"))
	}
}
