package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/clusterip-operator/clusterip-operator/internal/plain"
)

// Output is how a list is printed.
type Output struct {
	Format    string
	NoHeaders bool
}

// listFormats are those of lists, beside the ones of every command.
var listFormats = []string{"wide", "name"}

// AddFlags adds those of every command that prints a list.
func (o *Output) AddFlags(cmd *cobra.Command) {
	AddOutput(cmd, &o.Format, listFormats...)
	cmd.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "leave out the head of the table")
}

// Validate returns an error if the format is unknown.
func (o *Output) Validate() error { return ValidOutput(o.Format, listFormats...) }

// Listing is a list that can be printed in every format: a table, a value for programs, or names.
type Listing struct {
	Table metav1.Table
	Value any
	Names []string
}

// List prints the listing of a command. That a table has no rows is said where it is no output.
func (o *Output) List(out Streams, l Listing) error {
	if len(l.Table.Rows) == 0 && (AsTable(o.Format) || o.Format == "wide") {
		Write(out.ErrOut, "No resources found\n")
		return nil
	}
	return o.Print(out.Out, l)
}

// Print writes a listing, and nothing for a table without rows.
func (o *Output) Print(w io.Writer, l Listing) error {
	switch {
	case o.Format == "name":
		_, err := io.WriteString(w, strings.Join(append(l.Names, ""), "\n"))
		return err
	case !AsTable(o.Format) && o.Format != "wide":
		return Encode(w, l.Value, o.Format)
	case len(l.Table.Rows) == 0:
		return nil
	}
	for _, row := range l.Table.Rows {
		for i, cell := range row.Cells {
			row.Cells[i] = plain.Text(fmt.Sprint(cell))
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
