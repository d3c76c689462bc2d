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

func TestNotes(t *testing.T) {
	const good = `BenchmarkAllocate/impl=ours/prefix=16/used=0-2       100  200 ns/op
BenchmarkAllocate/impl=ours/prefix=16/used=99.99-2   100  300 ns/op
BenchmarkAllocate/impl=ours/prefix=12/used=0-2       100  250 ns/op
BenchmarkAllocate/impl=ours/prefix=12/used=99.99-2   100  400 ns/op
BenchmarkAllocate/impl=ours/prefix=64/used=1M-2      100  900 ns/op
BenchmarkAllocate/impl=ipallocator/prefix=12/used=99.99-2  1  4000000 ns/op
`
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing measured": {"", nil},
		"all reached": {good, []string{
			"Target reached: flat within a factor of 2 from empty to 99.99 % full (1.60 at most).",
			"Target reached: less than 1 microsecond at /16 (300 ns at most).",
			"Target reached: 1,000 times ipallocator at 99.99 % of a /12 (10,000).",
		}},
		"all missed": {strings.NewReplacer("300 ns", "1500 ns", "4000000", "4000").Replace(good), []string{
			"Target missed: flat within a factor of 2 from empty to 99.99 % full (7.50 at most).",
			"Target missed: less than 1 microsecond at /16 (1,500 ns at most).",
			"Target missed: 1,000 times ipallocator at 99.99 % of a /12 (10.0).",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Output{}
			if err := o.Read(strings.NewReader(tc.text), "Allocate"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, o.Notes()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
