package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

func memberOf(context, cluster string, cidrs ...string) member {
	m := member{context: context, cluster: cluster}
	for i, cidr := range cidrs {
		m.ranges = append(m.ranges, Range{ServiceCIDR: fmt.Sprintf("r%d", i), CIDR: cidr})
	}
	return m
}

func TestFleet(t *testing.T) {
	for name, tc := range map[string]struct {
		members []member
		want    []string // overlaps, from each side
		says    []string
		code    int
	}{
		"apart":            {members: []member{memberOf("a", "1", "10.96.0.0/16", "fd00:1::/112"), memberOf("b", "2", "10.97.0.0/16", "fd00:2::/112")}},
		"inside of one":    {members: []member{memberOf("a", "1", "10.96.0.0/16", "10.96.1.0/24")}},
		"one in another":   {[]member{memberOf("a", "1", "10.96.0.0/12"), memberOf("b", "2", "10.97.0.0/16")}, []string{"a 10.96.0.0/12: b 10.97.0.0/16", "b 10.97.0.0/16: a 10.96.0.0/12"}, []string{"10.96.0.0/12 of ServiceCIDR r0 in a overlaps 10.97.0.0/16 of ServiceCIDR r0 in b."}, 1},
		"the same of both": {[]member{memberOf("b", "2", "10.96.0.0/16", "fd00::/112"), memberOf("a", "1", "fd00::/112", "10.96.0.0/16")}, []string{"a 10.96.0.0/16: b 10.96.0.0/16", "a fd00::/112: b fd00::/112", "b 10.96.0.0/16: a 10.96.0.0/16", "b fd00::/112: a fd00::/112"}, []string{"10.96.0.0/16 of ServiceCIDR r1 in a overlaps", "fd00::/112 of ServiceCIDR r0 in a overlaps"}, 1},
		"one cluster":      {members: []member{memberOf("a", "1", "10.96.0.0/16"), memberOf("b", "1", "10.96.0.0/16")}, says: []string{"Contexts a, b are one cluster, which is shown for the first of them."}},
		"one away":         {members: []member{memberOf("a", "1", "10.96.0.0/16"), {context: "b", err: errors.New("no answer")}}, says: []string{"Not shown: context b: no answer"}, code: 2},
		"beside a larger":  {[]member{memberOf("a", "1", "10.0.0.0/8", "11.0.0.0/8"), memberOf("b", "2", "10.255.0.0/16", "11.0.0.0/16")}, []string{"a 10.0.0.0/8: b 10.255.0.0/16", "a 11.0.0.0/8: b 11.0.0.0/16", "b 10.255.0.0/16: a 10.0.0.0/8", "b 11.0.0.0/16: a 11.0.0.0/8"}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := fleetOf(tc.members)
			var got []string
			for _, r := range f.Items {
				for _, o := range r.Overlaps {
					got = append(got, fmt.Sprintf("%s %s: %s %s", r.Context, r.CIDR, o.Context, o.CIDR))
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			p := &plugintest.Printed{}
			f.tell(p.Streams())
			for _, words := range tc.says {
				if !strings.Contains(p.Err.String(), words) {
					t.Errorf("says %q, want %q", &p.Err, words)
				}
			}
			if code := cli.ExitCode(f.verdict(), p.Streams()); code != tc.code {
				t.Errorf("exit status %d, want %d", code, tc.code)
			}
		})
	}
}

// A fleet whose clusters all have the default range is told in few lines.
func TestFleetOfManyOverlaps(t *testing.T) {
	var members []member
	for i := range 30 {
		members = append(members, memberOf(fmt.Sprintf("c%02d", i), fmt.Sprint(i), "10.96.0.0/12"))
	}
	f := fleetOf(members)
	p := &plugintest.Printed{}
	f.tell(p.Streams())
	if n := strings.Count(p.Err.String(), "\n"); n != mostTold+1 || !strings.Contains(p.Err.String(), "There are 415 more overlaps; -o json has all.") {
		t.Errorf("%d lines: %s", n, &p.Err)
	}
	var table strings.Builder
	if err := (&cli.Output{}).Print(&table, f.listing(time.Time{})); err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(table.String(), "\n")
	if !strings.HasPrefix(head, "CONTEXT   NAME ") || !strings.HasSuffix(strings.TrimSpace(head), "READY   OVERLAPS") || !strings.Contains(rest, "c01, c02, c03 and 26 more") {
		t.Errorf("table:\n%s", table.String()[:500])
	}
}
