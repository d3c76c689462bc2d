package cli

import (
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
)

// Output is how a list is printed.
type Output struct {
	Format    string
	NoHeaders bool
}

// Validate returns an error if the format is unknown.
func (o *Output) Validate() error {
	return OneOfOrEmpty("--output", o.Format, "wide", "json", "yaml", "name")
}

// Listing is a list that can be printed in every format: a table, a value for programs, or names.
type Listing struct {
	Table metav1.Table
	Value any
	Names []string
}

// Print writes a listing.
func (o *Output) Print(w io.Writer, l Listing) error {
	switch o.Format {
	case "json", "yaml":
		return batch.Encode(w, l.Value, o.Format)
	case "name":
		_, err := io.WriteString(w, strings.Join(append(l.Names, ""), "\n"))
		return err
	}
	if len(l.Table.Rows) == 0 {
		_, err := io.WriteString(w, "No resources found\n")
		return err
	}
	for _, row := range l.Table.Rows {
		for i, cell := range row.Cells {
			row.Cells[i] = plain.Lines(fmt.Sprint(cell))
		}
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: o.Format == "wide", NoHeaders: o.NoHeaders}).PrintObj(&l.Table, w)
}

// Columns makes the head of a table. Names that begin with + are shown with -o wide only.
func Columns(names ...string) (out []metav1.TableColumnDefinition) {
	for _, name := range names {
		wide := strings.HasPrefix(name, "+")
		c := metav1.TableColumnDefinition{Name: strings.TrimPrefix(name, "+"), Type: "string"}
		if wide {
			c.Priority = 1
		}
		out = append(out, c)
	}
	return out
}
