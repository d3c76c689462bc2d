package allocator_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/internal/golden"
)

var (
	addr = netip.MustParseAddr

	all4 = allocator.Span{First: addr("0.0.0.0"), Last: addr("255.255.255.255")}
	all6 = allocator.Span{First: addr("::"), Last: addr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")}

	// byEquality lets cmp compare values with private fields by ==, and takes no list for an empty one.
	byEquality = cmp.Options{
		cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b allocator.Range) bool { return a == b }),
	}
)

// span reads "first-last"; "empty" and "" are the zero Span.
func span(s string) allocator.Span {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return allocator.Span{}
	}
	return allocator.Span{First: addr(first), Last: addr(last)}
}

func rangeOf(t testing.TB, prefix string) allocator.Range {
	t.Helper()
	r, err := allocator.ParseRange(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// candidates are ranges of one family to draw from. Their dynamic bands come first; what is static in one of them is static.
type candidates struct {
	Ranges  []allocator.Range
	Exclude []allocator.Span
}

// from returns ranges as candidates.
func from(t testing.TB, prefixes ...string) (c candidates) {
	t.Helper()
	for _, p := range prefixes {
		c.Ranges = append(c.Ranges, rangeOf(t, p))
	}
	return c
}

// lotOf returns the Lot of two tiers: what is dynamic, and the rest.
func lotOf(t testing.TB, c candidates) (l allocator.Lot) {
	t.Helper()
	var all, static []allocator.Span
	for _, r := range c.Ranges {
		all, static = append(all, r.Span()), append(static, r.Band(allocator.Static))
	}
	dynamic, err := allocator.NewTier(all, append(static, c.Exclude...))
	if err != nil {
		t.Fatal(err)
	}
	rest, err := allocator.NewTier(all, append(dynamic.Spans(), c.Exclude...))
	if err != nil {
		t.Fatal(err)
	}
	return allocator.Lot{Tiers: []*allocator.Tier{dynamic, rest}}
}

// yielding is lotOf with cooling addresses that yield.
func yielding(t testing.TB, c candidates) allocator.Lot {
	t.Helper()
	l := lotOf(t, c)
	l.Yield = true
	return l
}

// usable returns all usable addresses of some ranges, each once.
func usable(c candidates) []netip.Addr {
	var spans []golden.Span
	for _, r := range c.Ranges {
		spans = append(spans, golden.Range{Prefix: r.Prefix()}.Usable())
	}
	return golden.NewTier(spans, nil)
}

// addrsOf returns the addresses of a tier.
func addrsOf(tier *allocator.Tier) []netip.Addr {
	var list []netip.Addr
	for _, s := range tier.Spans() {
		list = append(list, golden.Span(s).Addrs()...)
	}
	return list
}

// at returns a time: second n.
func at(n int) time.Time { return time.Unix(int64(n), 0) }

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// shifted returns a+n.
func shifted(a netip.Addr, n int64) netip.Addr {
	return golden.Addr(new(big.Int).Add(golden.Number(a), big.NewInt(n)), a.Is4())
}

// mustPass runs steps that do everything twice, with the code and with the oracle, and compare. If that fails, it
// looks for fewer steps that fail as well and prints them.
func mustPass[S fmt.Stringer](t *testing.T, steps []S, run func([]S) error) {
	t.Helper()
	run = recovering(run)
	if run(steps) == nil {
		return
	}
	steps = shrink(steps, run)
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "%4d  %s\n", i, s)
	}
	t.Fatalf("%v, after\n%s", run(steps), b.String())
}

// recovering makes a panic of run an error.
func recovering[S any](run func([]S) error) func([]S) error {
	return func(steps []S) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		return run(steps)
	}
}

// shrink leaves out ever smaller pieces of steps as long as the rest still fails, and until it has tried often
// enough.
func shrink[S any](steps []S, run func([]S) error) []S {
	tries := 500
	for piece := len(steps) / 2; piece > 0; piece /= 2 {
		for at := 0; at+piece <= len(steps) && tries > 0; tries-- {
			rest := append(append([]S{}, steps[:at]...), steps[at+piece:]...)
			if run(rest) != nil {
				steps = rest
			} else {
				at += piece
			}
		}
	}
	return steps
}
