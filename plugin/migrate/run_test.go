package migrate

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// codeOf is the exit status that an error stands for.
func codeOf(err error) int { return cli.ExitCode(err, (&plugintest.Printed{}).Streams()) }

// TestStatus: what a look at the cluster ends with.
func TestStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		kinds []migration.Kind
		want  int
	}{
		"nothing":                     {nil, 0},
		"a leftover":                  {[]migration.Kind{migration.StaleBitmap}, 0},
		"an IPAddress is missing":     {[]migration.Kind{migration.IPAddressMissing}, 1},
		"a leftover and a leak":       {[]migration.Kind{migration.StaleBitmap, migration.LeakedBit}, 1},
		"what blocks and can be told": {[]migration.Kind{migration.BitmapUnreadable}, 1},
		"what nobody can read":        {[]migration.Kind{migration.LeakedBit, migration.ObjectUnreadable}, 2},
		"under lock and key":          {[]migration.Kind{migration.BitmapEncrypted}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var p migration.Plan
			for _, k := range tc.kinds {
				p.Findings = append(p.Findings, plugintest.Found(k, ""))
			}
			err := status(p)
			if got := codeOf(err); got != tc.want {
				t.Errorf("exit status %d, want %d", got, tc.want)
			}
			if tc.want == 2 && !strings.Contains(err.Error(), string(tc.kinds[len(tc.kinds)-1])) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestKindsOf(t *testing.T) {
	all := []migration.Finding{plugintest.Found(migration.LeakedBit, ""), plugintest.Found(migration.MissingBit, ""), plugintest.Found(migration.LeakedBit, ""), plugintest.Found(migration.OutOfRange, "")}
	got := KindsOf(all, func(f migration.Finding) bool { return f.Kind != migration.OutOfRange })
	if got != "LeakedBit, MissingBit" {
		t.Errorf("kinds are %q", got)
	}
}

// TestTell: what a run ends with, and what it says.
func TestTell(t *testing.T) {
	away := errors.New("away")
	blocked := &migration.BlockedError{Findings: []migration.Finding{plugintest.Found(migration.BitmapUnreadable, "", "ranges/serviceips")}}
	last := migration.Plan{Addresses: 10, OK: 9}
	orphan := migration.Step{Do: migration.DeleteIPAddress, Address: netip.MustParseAddr("10.0.0.1")}
	cidr := migration.Step{Do: migration.ReplaceServiceCIDR}
	for name, tc := range map[string]struct {
		r       migration.Result
		err     error
		want    int
		wantOut string
		wantErr string
	}{
		"done":                 {r: migration.Result{Last: last, Tried: true, Written: 7}, wantOut: "7 steps done, 9 of 10 ClusterIPs have their IPAddress\n"},
		"nothing to do":        {r: migration.Result{Last: last}, wantOut: "0 steps done, 9 of 10 ClusterIPs have their IPAddress\n"},
		"others came since":    {r: migration.Result{Last: last, Fresh: 3}, wantOut: "0 steps done, 9 of 10 ClusterIPs have their IPAddress\n3 changes have come since; `migrate verify --watch`, or the operator, keeps up with them\n"},
		"blocked":              {err: blocked, want: 2, wantErr: "nothing was written: BitmapUnreadable (ranges/serviceips)"},
		"failed before":        {err: away, want: 2, wantErr: "nothing was written: away"},
		"failed while writing": {r: migration.Result{Tried: true}, err: away, want: 1, wantErr: "0 steps are known to be done, then: away; run it again"},
		"failed in the middle": {r: migration.Result{Tried: true, Written: 4}, err: away, want: 1, wantErr: "4 steps are known to be done, then: away; run it again"},
		"told to end":          {r: migration.Result{Tried: true, Written: 4}, err: context.Canceled, want: 1, wantErr: "4 steps"},
		"withheld": {
			r: migration.Result{Last: last, Withheld: []migration.Step{orphan, cidr}}, want: 1,
			wantOut: "0 steps done, 9 of 10 ClusterIPs have their IPAddress\nnot done, because of the plan: DeleteIPAddress 10.0.0.1\nnot done, because of the plan: ReplaceServiceCIDR kubernetes\n",
		},
		"unsettled": {
			r: migration.Result{Last: last, Unsettled: []migration.Finding{plugintest.Found(migration.OutOfRange, "192.0.2.1", "Service ns/a")}}, want: 1,
			wantOut: "0 steps done, 9 of 10 ClusterIPs have their IPAddress\n\nOutOfRange (1)\n  what follows from OutOfRange.\n  192.0.2.1   Service ns/a   \n  plan: do something\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plugintest.Printed{}
			m := &command{Streams: p.Streams()}
			err := m.tell(tc.r, tc.err, "of the plan")
			if got := codeOf(err); got != tc.want {
				t.Errorf("exit status %d, want %d", got, tc.want)
			}
			plugintest.MustPrint(t, p.Out.String(), tc.wantOut)
			if tc.wantErr != "" && !strings.HasPrefix(err.Error(), tc.wantErr) {
				t.Errorf("it says %v", err)
			}
			if tc.err != nil && !errors.Is(err, tc.err) {
				t.Errorf("the cause gets lost: %v", err)
			}
		})
	}
}

func TestTellReady(t *testing.T) {
	for name, tc := range map[string]struct {
		p    migration.Plan
		want string
	}{
		"ready":                 {want: "ready: an API server that allocates from IPAddresses would find nothing to repair\n"},
		"ready, but it is busy": {p: migration.Plan{Passing: 2}, want: "ready: an API server that allocates from IPAddresses would find nothing to repair\n2 Services or IPAddresses were changing meanwhile"},
		"not ready":             {p: migration.Plan{Findings: seven(), Passing: 2}, want: "not ready: 7 findings that such an API server would have to repair or could not\n"},
	} {
		p := &plugintest.Printed{}
		(&command{Streams: p.Streams()}).tellReady(tc.p)
		if got := p.Out.String(); !strings.HasPrefix(got, tc.want) || tc.p.Passing == 0 && got != tc.want {
			t.Errorf("%s: it says %q", name, got)
		}
	}
}

func TestConsent(t *testing.T) {
	for c, want := range map[consent]bool{{}: false, {etcd: true}: true, {dryRun: true}: true, {etcd: true, dryRun: true}: true, {plain: true}: false} {
		if err := c.check(); (err == nil) != want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
