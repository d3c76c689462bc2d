package micro

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	ours = `goos: linux
BenchmarkMicro/contains-2                           1000000   12.0 ns/op
BenchmarkAllocate/impl=ours/prefix=16/used=0-2      1000000   200 ns/op   0 B/op   0 allocs/op
BenchmarkAllocate/impl=ours/prefix=16/used=99.99-2  1000000   300 ns/op   0 B/op   0 allocs/op
BenchmarkAllocate/impl=ours/prefix=12/used=0-2      1000000   240 ns/op   0 B/op   0 allocs/op
BenchmarkAllocate/impl=ours/prefix=12/used=0-2      1000000   260 ns/op   0 B/op   0 allocs/op
BenchmarkAllocate/impl=ours/prefix=12/used=0-2      1000000   250 ns/op   0 B/op   0 allocs/op
BenchmarkAllocate/impl=ours/prefix=12/used=99.99-2  1000000   400 ns/op   0 B/op   0 allocs/op
BenchmarkAllocate/impl=ours/prefix=64/used=1M       1000000   900 ns/op   0 B/op   0 allocs/op
BenchmarkMemory/dense/prefix=12/used=1M-2                 4   250000000 ns/op   0.5000 B/addr
PASS
`
	upstream = "BenchmarkAllocate/impl=ipallocator/prefix=12/used=99.99-2  100  4000000 ns/op  7 B/op  9 allocs/op\n"
)

// kept is what is read of files with these results.
func kept(t *testing.T, ours, upstream string) (Kept, error) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"ours.txt": ours, "upstream.txt": upstream} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ReadKept(folder)
}

func TestTablesCompareCaseByCase(t *testing.T) {
	k, err := kept(t, ours, upstream)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"prefix=16/used=0", "200", "0", "-", "-"},
		{"prefix=16/used=99.99", "300", "0", "-", "-"},
		{"prefix=12/used=0", "250 ±4%", "0", "-", "-"},
		{"prefix=12/used=99.99", "400", "0", "4,000,000", "10,000"},
		{"prefix=64/used=1M", "900", "0", "-", "-"},
		{"dense/prefix=12/used=1M", "0.50"},
	}
	tables := k.Tables()
	if diff := cmp.Diff(want, append(tables[0].Rows, tables[1].Rows...)); diff != "" {
		t.Error(diff)
	}
}

func TestGarbageIsRefused(t *testing.T) {
	for _, line := range []string{"BenchmarkAllocate/impl=ours/used=0-2 100 fast ns/op", "BenchmarkAllocate/impl=ours/used=0-2 100 12 ns/op 3"} {
		if _, err := kept(t, line, ""); err == nil {
			t.Errorf("%q is read without complaint", line)
		}
	}
}

func TestNotes(t *testing.T) {
	for _, tc := range []struct {
		ours, upstream string
		want           []string
	}{
		{"", "", nil},
		{ours, upstream, []string{
			"Target reached: flat within a factor of 2 from empty to 99.99 % full (1.60 at most).",
			"Target reached: less than 1 microsecond at /16 (300 ns at most).",
			"Target reached: 1,000 times ipallocator at 99.99 % of a /12 (10,000).",
		}},
		{strings.Replace(ours, "300 ns", "1500 ns", 1), strings.Replace(upstream, "4000000", "4000", 1), []string{
			"Target missed: flat within a factor of 2 from empty to 99.99 % full (7.50 at most).",
			"Target missed: less than 1 microsecond at /16 (1,500 ns at most).",
			"Target missed: 1,000 times ipallocator at 99.99 % of a /12 (10.0).",
		}},
	} {
		k, err := kept(t, tc.ours, tc.upstream)
		if diff := cmp.Diff(tc.want, k.Notes()); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
}
