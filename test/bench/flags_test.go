package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		args                  []string
		wantParts             []string
		wantLevels, wantSizes []int
		wantText              string
	}{
		"nothing said": {
			wantParts: []string{"allocations", "manager"}, wantLevels: []int{0, 5000, 10000, 20000}, wantSizes: []int{10000, 50000},
			wantText: "go run ./test/bench",
		},
		"a part of it, not to be written": {
			args:      []string{"--only=allocations", "--levels", "500,0"},
			wantParts: []string{"allocations"}, wantLevels: []int{0, 500}, wantSizes: []int{10000, 50000},
			wantText: "go run ./test/bench --only=allocations --levels 500,0",
		},
		"parts run in their own order": {
			args:      []string{"--write", "--only", "manager,allocator", "--sizes="},
			wantParts: []string{"allocator", "manager"}, wantLevels: []int{0, 5000, 10000, 20000},
			wantText: "go run ./test/bench --only manager,allocator --sizes=",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse(tc.args)
			if err != nil {
				t.Fatal(err)
			}
			var parts []string
			for _, p := range c.parts {
				parts = append(parts, p.name)
			}
			if diff := cmp.Diff(tc.wantParts, parts); diff != "" {
				t.Error("parts", diff)
			}
			if diff := cmp.Diff(tc.wantLevels, c.allocations.Levels); diff != "" {
				t.Error("levels", diff)
			}
			if diff := cmp.Diff(tc.wantSizes, c.manager.Sizes); diff != "" {
				t.Error("sizes", diff)
			}
			if diff := cmp.Diff(tc.wantText, c.String()); diff != "" {
				t.Error("command", diff)
			}
		})
	}
}

// TestQuick: what is said beside --quick holds.
func TestQuick(t *testing.T) {
	for _, tc := range []struct {
		args                        []string
		clusters, services, there   []int
		proxies, crowd, wantRepeats int
	}{
		{nil, []int{1_000, 10_000, 30_000, 65_000}, []int{1_000, 10_000, 30_000}, []int{0, 5_000, 20_000}, 7, 1_000, 3},
		{[]string{"--quick"}, []int{500}, []int{1_000}, []int{0, 500}, 7, 100, 1},
		{
			[]string{"--quick", "--clusters=200,100", "--services=200", "--proxies=ours-nft", "--there=0", "--crowd=1000", "--repeats=2"},
			[]int{100, 200}, []int{200}, []int{0}, 1, 1_000, 2,
		},
	} {
		c, err := parse(append(tc.args, "--only=upgrade,proxy,steering"))
		if err != nil {
			t.Fatal(err)
		}
		got := [][]int{c.upgrade.Sizes, c.proxy.Sizes, c.steering.Sizes, {len(c.proxy.Proxies), c.steering.Crowd, c.upgrade.Repeats}}
		if diff := cmp.Diff([][]int{tc.clusters, tc.services, tc.there, {tc.proxies, tc.crowd, tc.wantRepeats}}, got); diff != "" {
			t.Errorf("%v: %s", tc.args, diff)
		}
		if c.quick != slices.Contains(tc.args, "--quick") || len(c.proxies) != tc.proxies%7 {
			t.Errorf("%v: an Extreme is quick: %t, with %q", tc.args, c.quick, c.proxies)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown part":   {"--only=allocation"},
		"a negative level":  {"--levels=-1"},
		"a size in letters": {"--sizes=many"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(args); err == nil {
				t.Errorf("%v is accepted", args)
			}
		})
	}
}
