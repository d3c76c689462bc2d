package migrate

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// seven are findings of two kinds, more than are shown.
func seven() []migration.Finding {
	out := []migration.Finding{
		plugintest.Found(migration.DuplicateClusterIP, "10.0.0.9", "Service ns/a", "Service ns/b", "IPAddress 10.0.0.9"),
	}
	out[0].Detail, out[0].Plan = "Service ns/a held it first", "create ns/b anew"
	for _, a := range []string{"10.0.0.1", "10.0.0.10", "10.0.0.100", "10.0.0.101", "10.0.0.102", "10.0.0.103"} {
		out = append(out, plugintest.Found(migration.IPAddressMissing, a, "Service ns/x"))
	}
	out[3].Plan = "wait"
	return out
}

func report() migration.Report {
	return migration.Report{
		Head: batch.Head{Kind: migration.KindPlan}, Allocator: migration.AllocatorBitmap, Revision: 11,
		Counts:   migration.Counts{Services: 12, ClusterIPs: 10, OK: 3, IPAddresses: 4, ServiceCIDRs: 1, Findings: 7},
		Bitmaps:  []migration.BitmapReport{{Key: "ranges/serviceips", Range: "10.0.0.0/24", Used: 10, ModRevision: 9}, {Key: "ranges/secondaryserviceips", ModRevision: 5, Error: "it is damaged"}},
		Findings: seven(),
		Steps: []migration.Step{
			{Do: migration.CreateIPAddress}, {Do: migration.DeleteIPAddress}, {Do: migration.CreateIPAddress}, {Do: migration.CreateServiceCIDR},
		},
	}
}

func TestTable(t *testing.T) {
	clean, unseen := report(), report()
	clean.Kind, clean.Findings, clean.Bitmaps = migration.KindReport, nil, nil
	unseen.Kind, unseen.Revision, unseen.Bitmaps, unseen.Findings = migration.KindReport, 0, nil, unseen.Findings[:1]
	for name, tc := range map[string]struct {
		r    migration.Report
		want string
	}{
		"a plan": {report(), `
10 ClusterIPs of 12 Services, 3 of them as they should be; 4 IPAddresses, 1 ServiceCIDRs; allocator: Bitmap
bitmap ranges/serviceips: 10.0.0.0/24, 10 addresses, last written at revision 9
bitmap ranges/secondaryserviceips: , 0 addresses, last written at revision 5 it is damaged

DuplicateClusterIP (1)
  what follows from DuplicateClusterIP.
  10.0.0.9   Service ns/a, Service ns/b, IPAddress 10.0.0.9   Service ns/a held it first
  plan: create ns/b anew

IPAddressMissing (6)
  what follows from IPAddressMissing.
  10.0.0.1     Service ns/x
  10.0.0.10    Service ns/x
  10.0.0.100   Service ns/x
  10.0.0.101   Service ns/x
  10.0.0.102   Service ns/x
  ... and 1 more; -o json or yaml lists all
  plan: do something
  plan: wait

4 steps
  CreateServiceCIDR   1
  CreateIPAddress     2
  DeleteIPAddress     1
`},
		"a clean cluster": {clean, `
10 ClusterIPs of 12 Services, 3 of them as they should be; 4 IPAddresses, 1 ServiceCIDRs; allocator: Bitmap
clean: nothing found
`},
		"without etcd": {unseen, `
10 ClusterIPs of 12 Services, 3 of them as they should be; 4 IPAddresses, 1 ServiceCIDRs; allocator: Bitmap
the bitmaps were not looked at; give --etcd-servers for that

DuplicateClusterIP (1)
  what follows from DuplicateClusterIP.
  10.0.0.9   Service ns/a, Service ns/b, IPAddress 10.0.0.9   Service ns/a held it first
  plan: create ns/b anew
`},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			table(&b, tc.r)
			lines := strings.Split(b.String(), "\n")
			for i, line := range lines {
				lines[i] = strings.TrimRight(line, " ")
			}
			plugintest.MustPrint(t, strings.Join(lines, "\n"), tc.want)
		})
	}
}

// Findings without an address keep their place, and a kind with many plans shows some.
func TestTableOfObjects(t *testing.T) {
	var b bytes.Buffer
	all := []migration.Finding{plugintest.Found(migration.StaleBitmap, "", "ranges/serviceips"), plugintest.Found(migration.InvalidClusterIP, "", "Service ns/a")}
	all[1].Detail = "ten"
	for range 9 {
		f := plugintest.Found(migration.LeakedBit, "10.0.0.1")
		f.Plan = strings.Repeat("x", len(all))
		all = append(all, f)
	}
	findings(&b, all)
	got := b.String()
	for _, want := range []string{"\nStaleBitmap (1)\n", "ranges/serviceips", "\nInvalidClusterIP (1)\n", "Service ns/a   ten\n", "\nLeakedBit (9)\n", "... and 4 more"} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "plan: "); n != 1+1+examples {
		t.Errorf("it shows %d plans:\n%s", n, got)
	}
	if strings.Contains(got, "invalid IP") {
		t.Errorf("it shows an address that is none:\n%s", got)
	}
}

// What is written to a file is the report and can be read back.
func TestPlanFile(t *testing.T) {
	want := report()
	want.APIVersion, want.Cluster = "migration.clusterip-operator.io/v1alpha1", "uid"
	want.Steps = []migration.Step{{Do: migration.CreateIPAddress, Address: netip.MustParseAddr("10.0.0.1"), Service: "ns/a"}}
	for _, format := range []string{"json", "yaml"} {
		file := filepath.Join(t.TempDir(), "plan."+format)
		if err := batch.Save(file, want); err != nil {
			t.Fatal(err)
		}
		got, err := migration.LoadPlan(file)
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", format, err, diff)
		}
	}
}

// full is a disk without space.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestPrintNoticesAFullDisk(t *testing.T) {
	m := &command{Streams: cli.Streams{Out: full{}}}
	for _, format := range []string{"", "json", "yaml"} {
		if err := m.print(migration.Plan{}, migration.KindReport, format); !errors.Is(err, errFull) {
			t.Errorf("%q: %v", format, err)
		}
	}
}

// A name from the cluster cannot steer the terminal.
func TestPrintIsHarmless(t *testing.T) {
	var b bytes.Buffer
	f := plugintest.Found(migration.IPAddressOrphan, "10.0.0.1", "IPAddress 10.0.0.1")
	f.Detail = "it names \x1b]0;owned\x07\r\u0085\u009b2J"
	findings(&b, []migration.Finding{f})
	if strings.ContainsAny(b.String(), "\x1b\x07\r\u0085\u009b") {
		t.Errorf("it prints %q", b.String())
	}
	if got := plain.Lines("one\ttwo\nthree \u00fc"); got != "one\ttwo\nthree \u00fc" {
		t.Errorf("what is harmless becomes %q", got)
	}
}

func TestWritePlan(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "plan.yaml")
	plan, m := migration.NewPlan(migration.Snapshot{}, migration.Options{}), &command{}
	for range 2 { // a plan may be made anew
		if err := m.print(plan, migration.KindPlan, file); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := migration.LoadPlan(file); err != nil || r.Kind != migration.KindPlan {
		t.Errorf("it reads back as %+v, %v", r, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("beside it lies %v, %v", entries, err)
	}
	if err := m.print(plan, migration.KindPlan, filepath.Join(dir, "none", "plan.yaml")); err == nil || !strings.HasPrefix(err.Error(), "writing the plan") {
		t.Errorf("in no folder: %v", err)
	}
}
