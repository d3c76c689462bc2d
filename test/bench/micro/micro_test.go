package micro

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

const (
	ours = `goos: linux
pkg: github.com/clusterip-operator/clusterip-operator/allocator
BenchmarkMicro/contains-2                     1000000      12.0 ns/op
BenchmarkAllocate/impl=ours/prefix=12/used=0-2     1000000     100.0 ns/op       0 B/op       0 allocs/op
BenchmarkAllocate/impl=ours/prefix=12/used=0-2     1000000     120.0 ns/op       0 B/op       0 allocs/op
BenchmarkAllocate/impl=ours/prefix=12/used=0-2     1000000     110.0 ns/op       0 B/op       0 allocs/op
BenchmarkAllocate/impl=ours/prefix=64/used=1M      1000000     200.0 ns/op       0 B/op       0 allocs/op
PASS
`
	upstream = `BenchmarkAllocate/impl=ipallocator/prefix=12/used=0-2     100     550000 ns/op      7 B/op     9 allocs/op
`
)

func read(t *testing.T) *Output {
	t.Helper()
	o := &Output{}
	for _, text := range []string{ours, upstream} {
		if err := o.Read(strings.NewReader(text), "Allocate"); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func TestReadGathersRuns(t *testing.T) {
	o := read(t)
	if diff := cmp.Diff([]string{"ours", "ipallocator"}, o.Impls); diff != "" {
		t.Error("implementations", diff)
	}
	if diff := cmp.Diff([]string{"prefix=12/used=0", "prefix=64/used=1M"}, o.Cases); diff != "" {
		t.Error("cases", diff)
	}
	if diff := cmp.Diff(stats.Sample{100, 120, 110}, o.Sample("ours", "prefix=12/used=0", "ns/op")); diff != "" {
		t.Error("sample", diff)
	}
}

func TestTimesComparesCaseByCase(t *testing.T) {
	want := [][]string{
		{"prefix=12/used=0", "110 ±9%", "0", "550,000", "5,000"},
		{"prefix=64/used=1M", "200", "0", "-", "-"},
	}
	if diff := cmp.Diff(want, read(t).Times().Rows); diff != "" {
		t.Error(diff)
	}
}

func TestMemoryHasOneImplementation(t *testing.T) {
	const text = "BenchmarkMemory/dense/prefix=12/used=1M-2   4   250000000 ns/op   0.5000 B/addr\n"
	o := &Output{}
	if err := o.Read(strings.NewReader(text+ours), "Memory"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"dense/prefix=12/used=1M", "0.50"}}, o.Memory().Rows); diff != "" {
		t.Error(diff)
	}
}

func TestGarbageIsRefused(t *testing.T) {
	for _, line := range []string{
		"BenchmarkAllocate/impl=ours/used=0-2 100 fast ns/op",
		"BenchmarkAllocate/impl=ours/used=0-2 100 12 ns/op 3",
	} {
		if err := (&Output{}).Read(strings.NewReader(line), "Allocate"); err == nil {
			t.Errorf("%q is read without complaint", line)
		}
	}
}
