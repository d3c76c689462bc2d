package migrate

import (
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// print writes a plan to where output says.
func (m *command) print(p migration.Plan, kind, output string) error {
	r := p.Report(kind)
	return m.Put(output, r, func(w io.Writer) { table(w, r) })
}

// table is for people: what there is, then each kind of finding with its first examples.
func table(w io.Writer, r migration.Report) {
	c := r.Counts
	cli.Write(w, "%d ClusterIPs of %d Services, %d of them as they should be; %d IPAddresses, %d ServiceCIDRs; allocator: %s\n",
		c.ClusterIPs, c.Services, c.OK, c.IPAddresses, c.ServiceCIDRs, r.Allocator)
	for _, b := range r.Bitmaps {
		cli.Write(w, "bitmap %s: %s, %d addresses, last written at revision %d %s\n", b.Key, b.Range, b.Used, b.ModRevision, b.Error)
	}
	if r.Revision == 0 {
		cli.Write(w, "the bitmaps were not looked at; give --etcd-servers for that\n")
	}
	if len(r.Findings) == 0 {
		cli.Write(w, "clean: nothing found\n")
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
	cli.Write(w, "\n%s (%d)\n  %s\n", same[0].Kind, len(same), same[0].Means)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, f := range same[:min(len(same), examples)] {
		address := ""
		if f.Address.IsValid() {
			address = f.Address.String()
		}
		cli.Write(t, "  %s\t%s\t%s\n", address, strings.Join(f.Objects, ", "), f.Detail)
	}
	_ = t.Flush() // w keeps its own error
	if more := len(same) - examples; more > 0 {
		cli.Write(w, "  ... and %d more; -o json or yaml lists all\n", more)
	}
	for _, plan := range plans(same) {
		cli.Write(w, "  plan: %s\n", plan)
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
	cli.Write(w, "\n%d steps\n", len(all))
	for _, do := range migration.Actions {
		if counts[do] > 0 {
			cli.Write(w, "  %-19s %d\n", do, counts[do])
		}
	}
}

// list shows findings that are left.
func (m *command) list(all []migration.Finding) {
	if len(all) > 0 {
		findings(m.Out, all)
	}
}
