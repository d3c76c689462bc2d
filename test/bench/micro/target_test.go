package micro

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
