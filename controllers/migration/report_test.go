package migration

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// inAFile writes a text and returns the name of its file.
func inAFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// asYAML and asJSON are how the commands write reports.
var formats = map[string]func(any) string{
	"YAML": func(v any) string { return string(must(yaml.Marshal(v))) },
	"JSON": func(v any) string { return string(must(json.MarshalIndent(v, "", "  "))) },
}

// A plan that is written to a file is the same when it is read, whatever is in it and in both formats.
func TestPlanFile(t *testing.T) {
	for name, format := range formats {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				p := NewPlan(randomFixture(seeded(seed), 5).Snapshot, Options{RepairBitmap: true})
				p.Snapshot.Cluster, p.Snapshot.Revision = kubeSystem, 1<<53+1 // no float has it
				want := p.Report(KindPlan)
				got, err := LoadPlan(inAFile(t, format(want)))
				if err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, format(want))
				}
				mustEqual(t, "plan", got, want)
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// A program that goes through the lists finds lists, empty ones where nothing is wrong.
func TestReportHasLists(t *testing.T) {
	p := NewPlan(Snapshot{}, Options{})
	p.Findings = nil
	text := formats["JSON"](p.Report(KindReport))
	for _, field := range []string{"ranges", "bitmaps", "findings", "steps"} {
		if !strings.Contains(text, `"`+field+`": []`) {
			t.Errorf("%s is no empty list", field)
		}
	}
}

func TestReport(t *testing.T) {
	w := healthy().but(func(w *Snapshot) {
		w.Cluster, w.Bitmaps[1] = kubeSystem, broken(KeySecondary, ErrEncrypted)
		w.IPAddresses = w.IPAddresses[1:]
	})
	p := NewPlan(w, Options{})
	got := p.Report(KindReport)
	if len(got.Findings) != 2 || len(got.Steps) != 1 {
		t.Fatalf("%d findings, %d steps", len(got.Findings), len(got.Steps))
	}
	got.Findings, got.Steps = nil, nil
	mustEqual(t, "report", got, Report{
		APIVersion: "migration.clusterip-operator.io/v1alpha1", Kind: "MigrationReport", Cluster: kubeSystem, Revision: 11, Allocator: "Bitmap",
		Ranges: nets("10.0.0.0/24,fd00::/112"),
		Counts: Counts{Services: 3, ClusterIPs: 3, OK: 2, IPAddresses: 2, ServiceCIDRs: 1, Findings: 2},
		Bitmaps: []BitmapReport{
			{Key: KeyPrimary, Range: "10.0.0.0/24", Used: 2, ModRevision: 5},
			{Key: KeySecondary, ModRevision: 5, Error: ErrEncrypted.Error()},
		},
	})
}

func TestLoadPlanRefuses(t *testing.T) {
	const head = "apiVersion: migration.clusterip-operator.io/v1alpha1\nkind: MigrationPlan\n"
	for name, tc := range map[string]struct{ text, want string }{
		"a word":                    {"plan", "reading the plan"},
		"nothing":                   {"", "it is empty"},
		"an empty object":           {"{}", "migrate plan -o"},
		"two documents":             {head + "---\n" + head, "more than one document"},
		"a document and a word":     {`{"apiVersion":"x"} and`, "invalid character"},
		"a field twice, in JSON":    {`{"kind": "MigrationPlan", "kind": "MigrationReport"}`, "duplicate field"},
		"another kind":              {strings.Replace(head, "Plan", "Report", 1), `"MigrationReport"`},
		"another version":           {strings.Replace(head, "v1alpha1", "v1", 1), "migration.clusterip-operator.io/v1\""},
		"an unknown field":          {head + "colour: green\n", `"colour"`},
		"an unknown field below":    {head + "steps:\n- {do: CreateIPAddress, address: 10.0.0.5, service: ns/a, force: true}\n", `"steps[0].force"`},
		"a field in capitals":       {head + "Steps: []\n", `"Steps"`},
		"a field twice":             {head + "revision: 1\nrevision: 2\n", "already set"},
		"no address":                {head + "steps:\n- {do: DeleteIPAddress, address: ten, uid: u, resourceVersion: '7'}\n", "ten"},
		"an unknown action":         {head + "steps:\n- {do: CreateIPAddress, address: 10.0.0.5, service: ns/a}\n- {do: Tickle}\n", `step 2: there is no action "Tickle"`},
		"a step without its guards": {head + "steps:\n- {do: DeleteIPAddress, address: 10.0.0.5}\n", "step 1: DeleteIPAddress needs the uid"},
	} {
		t.Run(name, func(t *testing.T) {
			file := inAFile(t, tc.text)
			_, err := LoadPlan(file)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("%v\nwant the file's name and %q", err, tc.want)
			}
		})
	}
	if _, err := LoadPlan(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if r, err := LoadPlan(inAFile(t, head)); err != nil || r.Kind != KindPlan {
		t.Errorf("a plan of nothing: %v, %v", r, err)
	}
}
