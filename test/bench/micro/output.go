package micro

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Output is what benchmarks printed. The zero Output is empty and ready.
type Output struct {
	// Impls and Cases are in the order in which they were first seen. Where there is one implementation, its name is
	// empty.
	Impls, Cases []string

	samples map[key]stats.Sample
}

// key is one quantity of one implementation in one case.
type key struct{ impl, of, unit string }

// Sample returns what was measured, one value for each run: empty if that is nothing.
func (o *Output) Sample(impl, of, unit string) stats.Sample { return o.samples[key{impl, of, unit}] }

// ReadFiles reads a benchmark from what hack/bench.sh keeps.
func ReadFiles(name string, paths ...string) (*Output, error) {
	o := &Output{}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("opening kept results: %w", err)
		}
		if err := errors.Join(o.Read(file, name), file.Close()); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Read adds the lines of a benchmark named "Benchmark<name>". Other lines are passed over.
func (o *Output) Read(r io.Reader, name string) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 {
			continue
		}
		of, found := strings.CutPrefix(withoutProcs(fields[0]), "Benchmark"+name+"/")
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

// withoutProcs takes the number of processors off the end of a name.
func withoutProcs(name string) string {
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		if _, err := strconv.Atoi(name[i+1:]); err == nil {
			return name[:i]
		}
	}
	return name
}

// add books pairs of value and unit.
func (o *Output) add(impl, of string, pairs []string) error {
	if o.samples == nil {
		o.samples = map[key]stats.Sample{}
	}
	o.Impls, o.Cases = appendNew(o.Impls, impl), appendNew(o.Cases, of)
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

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
