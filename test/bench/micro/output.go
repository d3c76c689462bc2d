// Package micro compares implementations by the `go test -bench` output that hack/bench.sh keeps.
//
// BenchmarkAllocate/impl=ours/prefix=24/used=99: the case is what follows impl, and all
// implementations spell it alike. A single implementation has no impl. Start with Output.
package micro

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Output is what benchmarks printed. The zero Output is empty and ready.
type Output struct {
	// Impls and Cases are in the order in which they were first seen. The name of a single
	// implementation is empty.
	Impls, Cases []string

	samples map[key]stats.Sample
}

// key is one quantity of one implementation in one case.
type key struct{ impl, of, unit string }

// Sample returns what was measured, one value for each run: empty if that is nothing.
func (o *Output) Sample(impl, of, unit string) stats.Sample { return o.samples[key{impl, of, unit}] }

// Kept is what hack/bench.sh has kept.
type Kept struct{ times, memory Output }

// ReadKept reads the folder of hack/bench.sh.
func ReadKept(folder string) (k Kept, err error) {
	for _, file := range []string{"ours.txt", "upstream.txt"} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			return k, fmt.Errorf("reading kept results: %w", err)
		}
		if err := errors.Join(k.times.Read(bytes.NewReader(text), "Allocate"), k.memory.Read(bytes.NewReader(text), "Memory")); err != nil {
			return k, err
		}
	}
	return k, nil
}

// Tables shows times, and memory.
func (k Kept) Tables() []report.Table { return []report.Table{k.times.Times(), k.memory.Memory()} }

// Notes says which targets were reached.
func (k Kept) Notes() []string { return k.times.Notes() }

// Read adds the lines of a benchmark named "Benchmark<name>". Other lines are passed over.
func (o *Output) Read(r io.Reader, name string) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 {
			continue
		}
		of, found := strings.CutPrefix(procs.ReplaceAllString(fields[0], ""), "Benchmark"+name+"/")
		if !found {
			continue
		}
		impl := ""
		if rest, several := strings.CutPrefix(of, "impl="); several {
			impl, of, _ = strings.Cut(rest, "/")
		}
		if err := o.add(impl, of, fields[2:]); err != nil {
			return fmt.Errorf("reading %q: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

// procs is the number of processors behind a name.
var procs = regexp.MustCompile(`-\d+$`)

// add adds pairs of value and unit.
func (o *Output) add(impl, of string, pairs []string) error {
	if o.samples == nil {
		o.samples = map[key]stats.Sample{}
	}
	for list, name := range map[*[]string]string{&o.Impls: impl, &o.Cases: of} {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for pair := range slices.Chunk(pairs, 2) {
		if len(pair) < 2 {
			return fmt.Errorf("value %q has no unit", pair[0])
		}
		value, err := strconv.ParseFloat(pair[0], 64)
		if err != nil {
			return err
		}
		k := key{impl, of, pair[1]}
		o.samples[k] = append(o.samples[k], value)
	}
	return nil
}

// Ours is how our implementation calls itself.
const Ours = "ours"

const (
	time   = "ns/op"
	allocs = "allocs/op"
	memory = "B/addr"
)

// Times has a row for each case: the time of each implementation, ours first, our allocations, and
// how many times as long the other implementations take.
func (o *Output) Times() report.Table {
	others := slices.DeleteFunc(slices.Clone(o.Impls), func(impl string) bool { return impl == Ours })
	table := report.Table{Header: []string{"case", "ours, ns", "ours, allocations"}}
	for _, impl := range others {
		table.Header = append(table.Header, impl+", ns", impl+" : ours")
	}
	for _, of := range o.Cases {
		ours := o.Sample(Ours, of, time)
		row := []string{of, ours.String(), stats.Number(o.Sample(Ours, of, allocs).Median())}
		for _, impl := range others {
			theirs := o.Sample(impl, of, time)
			row = append(row, theirs.String(), stats.Number(theirs.Median()/ours.Median()))
		}
		table.Add(row...)
	}
	return table
}

// Memory has a row for each case of a benchmark that reports bytes for each used address.
func (o *Output) Memory() report.Table {
	table := report.Table{Header: []string{"case", "bytes for a used address"}}
	for _, of := range o.Cases {
		table.Add(of, o.Sample("", of, memory).String())
	}
	return table
}

// The targets, and the cases that they are about.
const (
	flat        = 2.0  // slowest to fastest fill of one range
	limit       = 1000 // ns
	limited     = "prefix=16"
	advantage   = 1000
	advantaged  = "prefix=12/used=99.99"
	overPeer    = "ipallocator"
	millionText = "used=1M"
)

// Notes says which targets were reached by what was measured; cases that are missing have no note.
func (o *Output) Notes() []string {
	var notes []string
	var worst float64 // ratio of two fills of one range
	ranges := o.medians()
	for _, medians := range ranges {
		worst = max(worst, medians.Quantile(1)/medians.Quantile(0))
	}
	if worst > 0 {
		notes = append(notes, report.Target(worst <= flat, "flat within a factor of 2 from empty to 99.99 % full", stats.Number(worst)+" at most"))
	}
	if slowest := ranges[limited].Quantile(1); slowest > 0 {
		notes = append(notes, report.Target(slowest < limit, "less than 1 microsecond at /16", stats.Number(slowest)+" ns at most"))
	}
	if ratio := o.Sample(overPeer, advantaged, time).Median() / o.Sample(Ours, advantaged, time).Median(); ratio > 0 {
		notes = append(notes, report.Target(ratio >= advantage, "1,000 times ipallocator at 99.99 % of a /12", stats.Number(ratio)))
	}
	return notes
}

// medians are those of ours in the cases of each range.
func (o *Output) medians() map[string]stats.Sample {
	ranges := map[string]stats.Sample{}
	for _, of := range o.Cases {
		prefix, used, _ := strings.Cut(of, "/")
		if ours := o.Sample(Ours, of, time); len(ours) > 0 && used != millionText {
			ranges[prefix] = append(ranges[prefix], ours.Median())
		}
	}
	return ranges
}
