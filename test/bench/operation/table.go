package operation

import (
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Tables shows the manager, what labelling costs, and the peers.
func (r Result) Tables() []report.Table {
	tables := []report.Table{r.managers()}
	if labels := r.labels(); len(labels.Rows) > 0 {
		tables = append(tables, labels)
	}
	return append(tables, r.peers())
}

// managers has a column for each life of the manager.
func (r Result) managers() report.Table {
	header := []string{"the manager at"}
	var lives []Manager
	for _, s := range r.Sizes {
		header, lives = append(header, services(s)), append(lives, s.Plain)
		if s.Labelled != nil {
			header, lives = append(header, services(s)+" with band labels"), append(lives, *s.Labelled)
		}
	}
	table := report.Table{Header: header}
	row := func(name string, of func(Manager) string) {
		cells := []string{name}
		for _, m := range lives {
			cells = append(cells, of(m))
		}
		table.Add(cells...)
	}
	row("start to /readyz, s", func(m Manager) string { return stats.Seconds(m.Start.Ready) })
	row("start to all addresses known, s", func(m Manager) string { return stats.Seconds(m.Start.Known) })
	row("start to all addresses checked, s", func(m Manager) string { return stats.Seconds(m.Start.Checked) })
	row("processor time until then, s", func(m Manager) string { return stats.Seconds(m.Start.CPU) })
	row("resident memory then, MiB", func(m Manager) string { return stats.MiB(m.Start.RSS) })
	row("resident memory when idle, MiB", func(m Manager) string { return stats.MiB(m.Idle.RSS) })
	row("resident memory at its peak, MiB", func(m Manager) string { return stats.MiB(m.Peak) })
	row(fmt.Sprintf("processor time in %s without changes, s", r.Options.Quiet), func(m Manager) string { return stats.Seconds(m.Idle.CPU) })
	row(fmt.Sprintf("%s IPAddresses deleted: time to delete them, s", stats.Count(r.Options.Deleted)),
		func(m Manager) string { return stats.Seconds(m.Restored.Deleting) })
	row("from the first deletion until all are back, s", func(m Manager) string { return stats.Seconds(m.Restored.Total) })
	row("one address away, s, p50 / p99 / longest", func(m Manager) string { return away(m.Restored.Seconds) })
	row("restored by the operator", func(m Manager) string { return stats.Count(m.Restored.Ours) })
	return table
}

// labels has a row for each first labelling.
func (r Result) labels() report.Table {
	table := report.Table{Header: []string{
		"first start with band labels", "labels written", "took, s", "manager, CPU s", "kube-apiserver, CPU s", "etcd, CPU s",
	}}
	for _, s := range r.Sizes {
		if s.Labelled == nil {
			continue
		}
		l := s.Labelled.Labels
		table.Add(services(s), stats.Count(l.Written), stats.Seconds(l.Took), stats.Seconds(l.Manager), stats.Seconds(l.API), stats.Seconds(l.Etcd))
	}
	return table
}

// peers compares with kube-controller-manager and with the repair loop of the API server.
func (r Result) peers() report.Table {
	table := report.Table{Header: []string{
		"in the same run", "the manager, idle MiB", "kube-controller-manager, idle MiB",
		"the manager, idle CPU s", "kube-controller-manager, idle CPU s",
		"restored by the manager, s p50 / p99 / longest", "by the API server alone, s p50 / p99 / longest",
	}}
	for _, s := range r.Sizes {
		alone := "-"
		if len(s.Repaired) > 0 {
			alone = away(s.Repaired)
		}
		table.Add(services(s), stats.MiB(s.Plain.Idle.RSS), stats.MiB(s.Peer.RSS), stats.Seconds(s.Plain.Idle.CPU), stats.Seconds(s.Peer.CPU),
			away(s.Plain.Restored.Seconds), alone)
	}
	return table
}

// Targets at a size that many clusters have.
const (
	targetSize     = 10_000
	targetResident = 120 << 20
	targetDeleted  = 1000
	targetRestored = 2500 * time.Millisecond
)

// Notes says which targets were reached.
func (r Result) Notes() []string {
	var notes []string
	for _, s := range r.Sizes {
		if s.Services != targetSize {
			continue
		}
		goal := fmt.Sprintf("less than 120 MiB resident at %s", services(s))
		notes = append(notes, report.Target(s.Plain.Idle.RSS < targetResident, goal+", idle", stats.MiB(s.Plain.Idle.RSS)+" MiB"),
			report.Target(s.Plain.Peak < targetResident, goal+", at the peak", stats.MiB(s.Plain.Peak)+" MiB"))
		if r.Options.Deleted == targetDeleted {
			took := s.Plain.Restored.Total
			goal := fmt.Sprintf("1,000 deleted IPAddresses are back within %s s at %s", stats.Seconds(targetRestored), services(s))
			notes = append(notes, report.Target(took <= targetRestored, goal, stats.Seconds(took)+" s"))
		}
	}
	return notes
}

func services(s Size) string { return stats.Count(s.Services) + " Services" }

func away(s stats.Sample) string { return s.Tail() + " / " + stats.Number(s.Quantile(1)) }
