package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"
)

// parsePath reads a JSONPath template. What a value lacks prints nothing.
func parsePath(template string) (*printers.JSONPathPrinter, error) {
	p, err := printers.NewJSONPathPrinter(template)
	if err != nil {
		return nil, fmt.Errorf("%w; write it as {.items[*].address}", err)
	}
	p.AllowMissingKeys(true)
	return p, nil
}

// columns print a line for each item of a list, or one for a value that is none.
type columns struct {
	heads []string
	paths []*printers.JSONPathPrinter
}

// parseColumns reads HEAD:PATH,HEAD:PATH as kubectl does; a path may lack its braces and its dot.
func parseColumns(spec string) (c columns, err error) {
	for part := range strings.SplitSeq(spec, ",") {
		head, path, ok := strings.Cut(part, ":")
		if !ok || head == "" || path == "" {
			return c, fmt.Errorf("%q is no column; write HEAD:PATH,HEAD:PATH", part)
		}
		path = "{." + strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}"), ".") + "}"
		p, err := parsePath(path)
		if err != nil {
			return c, err
		}
		c.heads, c.paths = append(c.heads, head), append(c.paths, p)
	}
	return c, nil
}

// Execute implements printer.
func (c columns) Execute(out io.Writer, value any) error {
	t := textTable{head: c.heads}
	for _, item := range itemsOf(value) {
		row, err := c.row(item)
		if err != nil {
			return err
		}
		t.add(row...)
	}
	t.print(out, true)
	return nil
}

// row are the cells of an item.
func (c columns) row(item any) ([]any, error) {
	cells := make([]any, len(c.paths))
	for i, p := range c.paths {
		var text strings.Builder
		if err := p.Execute(&text, item); err != nil {
			return nil, err
		}
		cells[i] = cmp.Or(text.String(), "<none>")
	}
	return cells, nil
}

// itemsOf are the items of a list, or the value itself.
func itemsOf(value any) []any {
	switch v := value.(type) {
	case []any:
		return v
	case map[string]any:
		if items, ok := v["items"].([]any); ok {
			return items
		}
	}
	return []any{value}
}
