package main

import (
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

func TestQuickUpgrades(t *testing.T) {
	for name, tc := range map[string]struct {
		args      []string
		wantSizes []int
	}{
		"nothing said":              {nil, []int{1_000, 10_000, 30_000, 65_000}},
		"quick":                     {[]string{"--quick"}, []int{500}},
		"quick, with another size":  {[]string{"--quick", "--clusters=200"}, []int{200}},
		"in full, with other sizes": {[]string{"--clusters=20000,100"}, []int{100, 20_000}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse(tc.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantSizes, c.upgrade.Sizes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestQuickProxies(t *testing.T) {
	for name, tc := range map[string]struct {
		args        []string
		wantSizes   []int
		wantProxies int
	}{
		"nothing said":                {nil, []int{1_000, 10_000, 30_000}, 5},
		"quick":                       {[]string{"--quick"}, []int{1_000}, 5},
		"quick, with one proxy alone": {[]string{"--quick", "--proxies=ours-nft", "--services=200"}, []int{200}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse(append(tc.args, "--only=proxy"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantSizes, c.proxy.Sizes); diff != "" || len(c.proxy.Proxies) != tc.wantProxies {
				t.Error(diff, c.proxy.Proxies)
			}
		})
	}
}

func TestQuickSteering(t *testing.T) {
	for name, tc := range map[string]struct {
		args      []string
		wantSizes []int
		wantCrowd int
	}{
		"nothing said":              {nil, []int{0, 5_000, 20_000}, 1_000},
		"quick":                     {[]string{"--quick"}, []int{0, 500}, 100},
		"quick, with another crowd": {[]string{"--quick", "--crowd=1000", "--there=0"}, []int{0}, 1_000},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse(append(tc.args, "--only=steering"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantSizes, c.steering.Sizes); diff != "" || c.steering.Crowd != tc.wantCrowd {
				t.Error(diff, c.steering.Crowd)
			}
		})
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
