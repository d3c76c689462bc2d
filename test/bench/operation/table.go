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
	row("start to /readyz, s", func(m Manager) string { return seconds(m.Start.Ready) })
	row("start to all addresses known, s", func(m Manager) string { return seconds(m.Start.Known) })
	row("start to all addresses checked, s", func(m Manager) string { return seconds(m.Start.Checked) })
	row("processor time until then, s", func(m Manager) string { return seconds(m.Start.CPU) })
	row("resident memory then, MiB", func(m Manager) string { return mebibytes(m.Start.RSS) })
	row("resident memory when idle, MiB", func(m Manager) string { return mebibytes(m.Idle.RSS) })
	row("resident memory at its peak, MiB", func(m Manager) string { return mebibytes(m.Peak) })
	row(fmt.Sprintf("processor time in %s without changes, s", r.Options.Quiet), func(m Manager) string { return seconds(m.Idle.CPU) })
	row(fmt.Sprintf("%s IPAddresses deleted: time to delete them, s", stats.Number(float64(r.Options.Deleted))),
		func(m Manager) string { return seconds(m.Restored.Deleting) })
	row("from the first deletion until all are back, s", func(m Manager) string { return seconds(m.Restored.Total) })
	row("one address away, s, p50 / p99 / longest", func(m Manager) string { return away(m.Restored.Seconds) })
	row("restored by the operator", func(m Manager) string { return stats.Number(float64(m.Restored.Ours)) })
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
		table.Add(services(s), stats.Number(float64(l.Written)), seconds(l.Took), seconds(l.Manager), seconds(l.API), seconds(l.Etcd))
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
		table.Add(services(s), mebibytes(s.Plain.Idle.RSS), mebibytes(s.Peer.RSS), seconds(s.Plain.Idle.CPU), seconds(s.Peer.CPU),
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
		notes = append(notes, report.Target(s.Plain.Idle.RSS < targetResident, goal+", idle", mebibytes(s.Plain.Idle.RSS)+" MiB"),
			report.Target(s.Plain.Peak < targetResident, goal+", at the peak", mebibytes(s.Plain.Peak)+" MiB"))
		if r.Options.Deleted == targetDeleted {
			notes = append(notes, report.Target(s.Plain.Restored.Total <= targetRestored,
				fmt.Sprintf("1,000 deleted IPAddresses are back within %s s at %s", seconds(targetRestored), services(s)), seconds(s.Plain.Restored.Total)+" s"))
		}
	}
	return notes
}

func services(s Size) string { return stats.Number(float64(s.Services)) + " Services" }

func seconds(d time.Duration) string { return stats.Number(d.Seconds()) }

func mebibytes(n int64) string { return stats.Number(float64(n) / (1 << 20)) }

func away(s stats.Sample) string {
	return stats.Number(s.Median()) + " / " + stats.Number(s.Quantile(0.99)) + " / " + stats.Number(s.Quantile(1))
}
