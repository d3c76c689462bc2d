package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/clusterip-operator/clusterip-operator/internal/wording"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

const (
	// clusterFor is how long one cluster may take, and askedClusters how many are asked at once.
	clusterFor    = 30 * time.Second
	askedClusters = 16
	// mostTold is how many overlaps are told in sentences, mostNamed how many contexts in a cell.
	mostTold  = 20
	mostNamed = 3
)

// member is what one context of a fleet answers.
type member struct {
	context string
	// cluster is what contexts of one cluster have in common.
	cluster string
	ranges  []Range
	err     error
}

// printFleet prints the ranges of several clusters as one list.
func printFleet(cmd *cobra.Command, a *cli.Session, contexts, names []string, out cli.Output, follow bool) error {
	switch {
	case follow:
		return errors.New("--watch follows one cluster; leave it out, or --contexts")
	case out.Format == "name":
		return errors.New("--output name: a name does not tell its cluster; leave out --contexts, or give another format")
	}
	contexts, err := a.Contexts(cmd, "contexts", contexts)
	if err != nil {
		return err
	}
	f := fleetOf(askFleet(cmd.Context(), a, contexts))
	if len(f.Unknown) == len(contexts) {
		f.tell(a.Streams)
		return errors.New("none of the clusters could be asked")
	}
	if len(names) > 0 {
		if err := f.only(names); err != nil {
			return err
		}
	}
	if err := out.List(a.Streams, f.listing(time.Now())); err != nil {
		return err
	}
	f.tell(a.Streams)
	return f.verdict()
}

// askFleet asks all clusters at once, and returns their answers in the order of the contexts.
func askFleet(ctx context.Context, a *cli.Session, contexts []string) []member {
	all, asked := make([]member, len(contexts)), errgroup.Group{}
	asked.SetLimit(askedClusters)
	for i, name := range contexts {
		asked.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, clusterFor) // ends what follows the cluster, too
			defer cancel()
			all[i] = askCluster(ctx, a.In(name, clusterFor), name)
			return nil
		})
	}
	_ = asked.Wait() // each has its own error
	return all
}

func askCluster(ctx context.Context, a *cli.Session, name string) member {
	m := member{context: name}
	s, err := a.Open()
	if err != nil {
		m.err = err
		return m
	}
	list, policies, err := s.RangesAndPolicies(ctx)
	if err == nil {
		m.ranges, err = rangeInfos(ctx, s, list.Items, policies.Items)
	}
	if err != nil {
		m.err = err
		return m
	}
	uid, err := s.UID(ctx)
	if m.cluster = string(uid); err != nil { // the user may not read it
		m.cluster = s.Config.Host
	}
	return m
}

// fleet is what `ranges --contexts` prints.
type fleet struct {
	Kind  string       `json:"kind"`
	Items []fleetRange `json:"items"`
	// Unknown are the contexts whose clusters could not be asked.
	Unknown []unasked `json:"unknown,omitempty"`
	// same are contexts that are one cluster.
	same [][]string
}

// fleetRange is a range of one cluster.
type fleetRange struct {
	Context string `json:"context"`
	Range
	// Overlaps are the ranges of other clusters that have some of the addresses.
	Overlaps []overlap `json:"overlaps,omitempty"`
	cluster  string
}

// overlap is a range of another cluster.
type overlap struct {
	Context     string `json:"context"`
	ServiceCIDR string `json:"serviceCIDR"`
	CIDR        string `json:"cidr"`
}

// unasked is a context whose cluster could not be asked, and why.
type unasked struct {
	Context string `json:"context"`
	Message string `json:"message"`
}

// fleetOf joins what clusters answer. A cluster that several contexts name is shown for the first.
func fleetOf(members []member) *fleet {
	f := &fleet{Kind: "FleetRangeList", Items: []fleetRange{}}
	first := map[string]int{}
	for _, m := range members {
		if m.err != nil {
			f.Unknown = append(f.Unknown, unasked{m.context, m.err.Error()})
			continue
		}
		if i, seen := first[m.cluster]; seen {
			f.same[i] = append(f.same[i], m.context)
			continue
		}
		first[m.cluster], f.same = len(f.same), append(f.same, []string{m.context})
		for _, r := range m.ranges {
			f.Items = append(f.Items, fleetRange{Context: m.context, Range: r, cluster: m.cluster})
		}
	}
	f.same = slices.DeleteFunc(f.same, func(contexts []string) bool { return len(contexts) < 2 })
	slices.SortStableFunc(f.Items, func(a, b fleetRange) int { return BySoonestFull(a.Range, b.Range) })
	f.findOverlaps()
	return f
}

// only keeps the ranges of the named ServiceCIDRs, which one of the clusters has to have.
func (f *fleet) only(names []string) error {
	var ranges []Range
	for _, r := range f.Items {
		ranges = append(ranges, r.Range)
	}
	if _, err := only(ranges, names); err != nil {
		return err
	}
	f.Items = slices.DeleteFunc(f.Items, func(r fleetRange) bool { return !slices.Contains(names, r.ServiceCIDR) })
	return nil
}

// listing is the list of `ranges`, with the two columns of a fleet.
func (f *fleet) listing(now time.Time) cli.Listing {
	var ranges []Range
	for _, r := range f.Items {
		ranges = append(ranges, r.Range)
	}
	l := listRanges(ranges, now)
	l.Value, l.Names = f, nil
	columns := l.Table.ColumnDefinitions
	narrow := 0
	for narrow < len(columns) && columns[narrow].Priority == 0 {
		narrow++
	}
	columns = slices.Insert(columns, narrow, cli.Columns("OVERLAPS")...)
	l.Table.ColumnDefinitions = slices.Insert(columns, 0, cli.Columns("CONTEXT")...)
	for i, row := range l.Table.Rows {
		cells := slices.Insert(row.Cells, narrow, any(f.Items[i].overlapping()))
		l.Table.Rows[i].Cells = slices.Insert(cells, 0, any(f.Items[i].Context))
	}
	return l
}

// overlapping names the contexts whose ranges overlap this one.
func (r fleetRange) overlapping() string {
	var contexts []string
	for _, o := range r.Overlaps {
		if !slices.Contains(contexts, o.Context) {
			contexts = append(contexts, o.Context)
		}
	}
	return cmp.Or(wording.First(contexts, mostNamed), "<none>")
}

// tell says what the table has no room for.
func (f *fleet) tell(out cli.Streams) {
	for _, contexts := range f.same {
		cli.Write(out.ErrOut, "Contexts %s are one cluster, which is shown for the first of them.\n", strings.Join(contexts, ", "))
	}
	told := 0
	for _, r := range f.Items {
		for _, o := range r.Overlaps {
			if r.Context < o.Context { // of each pair once
				if told++; told <= mostTold {
					cli.Write(out.ErrOut, "%s of ServiceCIDR %s in %s overlaps %s of ServiceCIDR %s in %s.\n", r.CIDR, r.ServiceCIDR, r.Context, o.CIDR, o.ServiceCIDR, o.Context)
				}
			}
		}
	}
	if told > mostTold {
		cli.Write(out.ErrOut, "There are %d more overlaps; -o json has all.\n", told-mostTold)
	}
	for _, u := range f.Unknown {
		cli.Write(out.ErrOut, "Not shown: context %s: %s\n", u.Context, u.Message)
	}
}

// verdict is how the command ends.
func (f *fleet) verdict() error {
	if n := len(f.Unknown); n > 0 {
		return cli.Exit{Code: cli.ExitUnknown, Err: fmt.Errorf("not everything could be told: %d of the clusters could not be asked", n)}
	}
	if slices.ContainsFunc(f.Items, func(r fleetRange) bool { return len(r.Overlaps) > 0 }) {
		return cli.Exit{Code: cli.ExitFindings}
	}
	return nil
}
