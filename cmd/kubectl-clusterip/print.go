package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

func validOutput(format string) error {
	if !slices.Contains([]string{"table", "json", "yaml"}, format) {
		return fmt.Errorf("--output %q is none of table, json, yaml", format)
	}
	return nil
}

// write prints what a buffer will hold; whoever flushes it meets its error.
func write(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, harmless(fmt.Sprintf(format, args...)))
}

// harmless takes out what would steer a terminal; lines and tabs are ours.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// say prints a line of the result. When nobody reads it any more there is nobody to tell.
func (m *migrate) say(format string, args ...any) { write(m.Out, format+"\n", args...) }

// print writes a plan to the standard output.
func (m *migrate) print(p migration.Plan, kind, format string) error {
	w := bufio.NewWriter(m.Out)
	var err error
	if format == "table" {
		table(w, p.Report(kind))
	} else {
		err = encode(w, p.Report(kind), format)
	}
	if err == nil {
		err = w.Flush()
	}
	return err
}

// encode writes a value as json or yaml.
func encode(w io.Writer, r any, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	text, err := yaml.Marshal(r)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
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
