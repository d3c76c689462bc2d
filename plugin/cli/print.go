package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
)

// Streams are where a command writes.
type Streams struct{ Out, ErrOut io.Writer }

// AddOutput adds the flag -o, whose default is a table.
func AddOutput(cmd *cobra.Command, output *string, choices string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "output format: "+choices)
}

// AddPlanOutput adds the flag for commands that make plans.
func AddPlanOutput(cmd *cobra.Command, output *string) {
	AddOutput(cmd, output, "table, json, yaml, or a file that ends in .json or .yaml")
}

// ValidPlanOutput returns an error if a plan cannot be written so: as a table, JSON, YAML, or into
// a file.
func ValidPlanOutput(output string) error {
	if err := ValidOutput(output); err != nil && batch.FormatOf(output) == "" {
		return fmt.Errorf("%w, or a file name that ends in .yaml or .json", err)
	}
	return nil
}

// ValidOutput returns an error if a format is none of table, JSON and YAML.
func ValidOutput(format string) error { return OneOf("--output", format, "table", "json", "yaml") }

// OneOf returns an error that names the known values if a flag's is none of them.
func OneOf(flag, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("%s %q is none of %s", flag, value, strings.Join(known, ", "))
}

// OneOfOrEmpty is OneOf for a flag that may be left out.
func OneOfOrEmpty(flag, value string, known ...string) error {
	if value == "" {
		return nil
	}
	return OneOf(flag, value, known...)
}

// Write prints into a buffer; the caller that flushes gets the error. No output steers a terminal.
func Write(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, plain.Lines(fmt.Sprintf(format, args...)))
}

// Say prints a line of the result. It drops the error of a pipe that no program reads any more.
func (s Streams) Say(format string, args ...any) { Write(s.Out, format+"\n", args...) }

// Logging returns ctx with a logger of plain lines on stderr, for people. Libraries use it as well.
func (s Streams) Logging(ctx context.Context) context.Context {
	log := funcr.New(func(prefix, args string) {
		Write(s.ErrOut, "%s\n", strings.TrimSpace(prefix+" "+args))
	}, funcr.Options{})
	klog.SetLogger(log)
	ctrl.SetLogger(log)
	return logr.NewContext(ctx, log)
}

// Put prints a value, as a table or for programs, or writes it into the file that output names.
func (s Streams) Put(output string, value any, table func(io.Writer)) (err error) {
	if batch.FormatOf(output) != "" {
		if err := batch.Save(output, value); err != nil {
			return fmt.Errorf("writing the plan: %w", err)
		}
		return nil
	}
	w := bufio.NewWriter(s.Out)
	if output == "table" {
		table(w)
	} else {
		err = batch.Encode(w, value, output)
	}
	if err == nil {
		err = w.Flush()
	}
	return err
}
