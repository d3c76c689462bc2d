package ruleset

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// Snapshot is the text of each part of a firewall, normalised, by the program that printed it. Parts that hold nothing are absent, so
// that the Snapshot of an untouched namespace is empty.
type Snapshot map[string]string

// programs print all there is, each in its own format.
var programs = map[string]struct {
	args      []string
	normalise func(string) string
}{
	"iptables-nft-save":     {nil, tables},
	"iptables-legacy-save":  {nil, tables},
	"ip6tables-nft-save":    {nil, tables},
	"ip6tables-legacy-save": {nil, tables},
	"ipset":                 {[]string{"save"}, sets},
	"nft":                   {[]string{"list", "tables"}, nativeTables},
}

// Take reads the firewall of a network namespace by its name.
func Take(ctx context.Context, netns string) (Snapshot, error) {
	s := Snapshot{}
	for program, how := range programs {
		out, err := run(ctx, netns, program, how.args...)
		if err != nil {
			return nil, err
		}
		if text := how.normalise(out); text != "" {
			s[program] = text
		}
	}
	return s, nil
}

func run(ctx context.Context, netns, program string, args ...string) (string, error) {
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", netns, program}, args...)...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %s in %s: %w: %s", program, netns, err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// Diff returns how two Snapshots differ, line by line; it is empty if they are equal.
func (s Snapshot) Diff(other Snapshot) string {
	return cmp.Diff(s.lines(), other.lines())
}

func (s Snapshot) lines() map[string][]string {
	all := map[string][]string{}
	for program, text := range s {
		all[program] = strings.Split(text, "\n")
	}
	return all
}

// String shows the whole Snapshot, for the report of a failure.
func (s Snapshot) String() string {
	var b strings.Builder
	for _, program := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "== %s\n%s\n", program, s[program])
	}
	return b.String()
}
