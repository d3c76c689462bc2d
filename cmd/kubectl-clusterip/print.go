package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
)

func addOutput(cmd *cobra.Command, output *string, choices string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "output format: "+choices)
}

// addPlanOutput adds the flag for commands that make plans.
func addPlanOutput(cmd *cobra.Command, output *string) {
	addOutput(cmd, output, "table, json, yaml, or a file that ends in .json or .yaml")
}

func validPlanOutput(output string) error {
	if err := validOutput(output); err != nil && batch.FormatOf(output) == "" {
		return fmt.Errorf("%w, or a file name that ends in .yaml or .json", err)
	}
	return nil
}

func validOutput(format string) error {
	if !slices.Contains([]string{"table", "json", "yaml"}, format) {
		return fmt.Errorf("--output %q is none of table, json, yaml", format)
	}
	return nil
}

// write prints into a buffer; the caller that flushes gets the error. No output steers a terminal.
func write(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, plain.Lines(fmt.Sprintf(format, args...)))
}

// say prints a line of the result. It drops the error of a pipe that no program reads any more.
func (s streams) say(format string, args ...any) { write(s.Out, format+"\n", args...) }

// logging returns ctx with a logger of plain lines on stderr, for people. Libraries use it as well.
func (s streams) logging(ctx context.Context) context.Context {
	log := funcr.New(func(prefix, args string) {
		write(s.ErrOut, "%s\n", strings.TrimSpace(prefix+" "+args))
	}, funcr.Options{})
	klog.SetLogger(log)
	ctrl.SetLogger(log)
	return logr.NewContext(ctx, log)
}

// put prints a value, as a table or for programs, or writes it into the file that output names.
func (s streams) put(output string, value any, table func(io.Writer)) (err error) {
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

// print writes a plan to where output says.
func (m *migrate) print(p migration.Plan, kind, output string) error {
	r := p.Report(kind)
	return m.put(output, r, func(w io.Writer) { table(w, r) })
}

// table is for people: what there is, then each kind of finding with its first examples.
func table(w io.Writer, r migration.Report) {
	c := r.Counts
	write(w, "%d ClusterIPs of %d Services, %d of them as they should be; %d IPAddresses, %d ServiceCIDRs; allocator: %s\n",
		c.ClusterIPs, c.Services, c.OK, c.IPAddresses, c.ServiceCIDRs, r.Allocator)
	for _, b := range r.Bitmaps {
		write(w, "bitmap %s: %s, %d addresses, last written at revision %d %s\n", b.Key, b.Range, b.Used, b.ModRevision, b.Error)
	}
	if r.Revision == 0 {
		write(w, "the bitmaps were not looked at; give --etcd-servers for that\n")
	}
	if len(r.Findings) == 0 {
		write(w, "clean: nothing found\n")
	} else {
		findings(w, r.Findings)
	}
	if r.Kind == migration.KindPlan {
		steps(w, r.Steps)
	}
}

// examples is how many findings of a kind are shown.
const examples = 5

// findings sums up by kind: they come sorted by it.
func findings(w io.Writer, all []migration.Finding) {
	for len(all) > 0 {
		n := len(all)
		if i := slices.IndexFunc(all, func(f migration.Finding) bool { return f.Kind != all[0].Kind }); i > 0 {
			n = i
		}
		kind(w, all[:n])
		all = all[n:]
	}
}

func kind(w io.Writer, same []migration.Finding) {
	write(w, "\n%s (%d)\n  %s\n", same[0].Kind, len(same), same[0].Means)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, f := range same[:min(len(same), examples)] {
		address := ""
		if f.Address.IsValid() {
			address = f.Address.String()
		}
		write(t, "  %s\t%s\t%s\n", address, strings.Join(f.Objects, ", "), f.Detail)
	}
	_ = t.Flush() // w keeps its own error
	if more := len(same) - examples; more > 0 {
		write(w, "  ... and %d more; -o json or yaml lists all\n", more)
	}
	for _, plan := range plans(same) {
		write(w, "  plan: %s\n", plan)
	}
}

// plans are what will be done about findings of a kind, each once.
func plans(same []migration.Finding) (out []string) {
	for _, f := range same {
		if !slices.Contains(out, f.Plan) && len(out) < examples {
			out = append(out, f.Plan)
		}
	}
	return out
}

func steps(w io.Writer, all []migration.Step) {
	counts := map[migration.Action]int{}
	for _, s := range all {
		counts[s.Do]++
	}
	write(w, "\n%d steps\n", len(all))
	for _, do := range migration.Actions {
		if counts[do] > 0 {
			write(w, "  %-19s %d\n", do, counts[do])
		}
	}
}

// list shows findings that are left.
func (m *migrate) list(all []migration.Finding) {
	if len(all) > 0 {
		findings(m.Out, all)
	}
}
