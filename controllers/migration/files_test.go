package migration

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
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

// A plan that is written to a file is the same when it is read, whatever is in it, in both formats.
func TestPlanFile(t *testing.T) {
	for name, format := range formats {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				p := NewPlan(randomCluster(seeded(seed), 5).Snapshot, Options{RepairBitmap: true})
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

func TestReport(t *testing.T) {
	w := healthy().but(func(w *Snapshot) {
		w.Cluster, w.Bitmaps[1] = kubeSystem, broken(KeySecondary, ErrEncrypted)
		w.IPAddresses = w.IPAddresses[1:]
	})
	p := NewPlan(w, Options{})
	got := p.Report(KindReport)
	// A program that goes through the lists finds lists, empty ones where nothing is wrong.
	none := Plan{}
	if text := formats["JSON"](none.Report(KindReport)); strings.Count(text, ": []") != 4 {
		t.Errorf("a list is missing in %s", text)
	}
	if len(got.Findings) != 2 || len(got.Steps) != 1 {
		t.Fatalf("%d findings, %d steps", len(got.Findings), len(got.Steps))
	}
	got.Findings, got.Steps = nil, nil
	mustEqual(t, "report", got, Report{
		Head: batch.Head{APIVersion: "migration.clusterip-operator.io/v1alpha1", Kind: "MigrationReport", Cluster: kubeSystem}, Revision: 11, Allocator: "Bitmap",
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
		"a word":                    {"plan", "reading "},
		"nothing":                   {"", "it names no kind"},
		"an empty object":           {"{}", "it names no kind"},
		"a field twice, in JSON":    {`{"apiVersion": "migration.clusterip-operator.io/v1alpha1", "kind": "MigrationReport", "kind": "MigrationPlan"}`, "duplicate field"},
		"more behind the JSON":      {`{"kind": "MigrationPlan"}` + "\nsurprise: true\n", "after top-level value"},
		"a second document":         {head + "---\n" + head, "more than one document"},
		"another kind":              {strings.Replace(head, "Plan", "Report", 1), "of kind MigrationReport, not MigrationPlan"},
		"another version":           {strings.Replace(head, "v1alpha1", "v1", 1), "migration.clusterip-operator.io/v1\""},
		"an unknown field":          {head + "colour: green\n", `"colour"`},
		"an unknown field below":    {head + "steps:\n- {do: CreateIPAddress, address: 10.0.0.5, service: ns/a, force: true}\n", `"steps[0].force"`},
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

// archived is of a cluster with one bitmap, whose value is this text.
func archived(value string) Archive {
	w := Snapshot{Now: noon, Cluster: kubeSystem, Revision: 11}
	o := &corev1.RangeAllocation{Range: "10.0.0.0/24", Data: []byte{1}}
	return newArchive(w, []Value{{Key: KeyPrimary, ModRevision: 5, Raw: []byte(value), Object: o}})
}

// An archive from an earlier try is as good; any other file of that name is left as it is.
func TestArchivesAreNotOverwritten(t *testing.T) {
	another := archived("one")
	another.Cluster = "another"
	more := archived("one")
	more.Keys = append(more.Keys, ArchivedKey{Key: KeySecondary, Value: []byte("x"), SHA256: digest([]byte("x"))})

	for name, tc := range map[string]struct {
		there any
		want  string // a piece of the error, "" for none
	}{
		"the same":        {there: archived("one")},
		"another value":   {there: archived("two"), want: "holds other values"},
		"another cluster": {there: another, want: "holds other values"},
		"one key more":    {there: more, want: "holds other values"},
		"something else":  {there: "a shopping list", want: "is no archive"},
	} {
		t.Run(name, func(t *testing.T) {
			before := string(must(json.Marshal(tc.there)))
			file := inAFile(t, before)
			mustSay(t, archived("one").save(file), tc.want)
			if after := string(must(os.ReadFile(file))); after != before {
				t.Errorf("the file was %s\nand is %s", before, after)
			}
			mustBeAlone(t, file)
		})
	}
}

// mustBeAlone: nothing but the file is in its folder.
func mustBeAlone(t *testing.T, file string) {
	t.Helper()
	for _, entry := range must(os.ReadDir(filepath.Dir(file))) {
		if entry.Name() != filepath.Base(file) {
			t.Errorf("%s lies beside it", entry.Name())
		}
	}
}

func TestLoadArchiveRefuses(t *testing.T) {
	change := func(do func(*Archive)) string {
		a := archived("one")
		do(&a)
		return string(must(json.Marshal(a)))
	}
	for name, tc := range map[string]struct{ text, want string }{
		"a word":           {"archive", "reading"},
		"nothing":          {"", "it names no kind"},
		"another kind":     {change(func(a *Archive) { a.Kind = "MigrationPlan" }), "MigrationPlan"},
		"another version":  {change(func(a *Archive) { a.APIVersion = "v2" }), "v2"},
		"an unknown field": {strings.Replace(change(func(*Archive) {}), `"cluster"`, `"colour":"green","cluster"`, 1), `"colour"`},
		"node ports":       {change(func(a *Archive) { a.Keys[0].Key = "ranges/servicenodeports" }), "which is no bitmap of Service addresses"},
		"a key of anybody": {change(func(a *Archive) { a.Keys[0].Key = "/registry/secrets/default/x" }), "which is no bitmap of Service addresses"},
		"other bytes":      {change(func(a *Archive) { a.Keys[0].Value = []byte("two") }), "does not have its digest"},
		"no digest":        {change(func(a *Archive) { a.Keys[0].SHA256 = "" }), "does not have its digest"},
		"half of it":       {change(func(*Archive) {})[:200], "reading"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadArchive(inAFile(t, tc.text))
			mustSay(t, err, tc.want)
		})
	}
}

// leftovers is a cluster with both bitmaps and the one of node ports.
func leftovers() *memory {
	m := holding(healthy())
	m.put(Write{Key: "ranges/servicenodeports", Object: &corev1.RangeAllocation{Range: "30000-32767", Data: []byte{1}}})
	return m
}

func archiveIn(dir string) string { return filepath.Join(dir, "archive.json") }

// What finalize deletes is in the archive, wherever it is interrupted; restore puts that back.
func TestFinalizeIsInterrupted(t *testing.T) {
	original := leftovers()
	mustSurvive(t, leftovers, func(m *memory, dir string) error {
		_, err := Finalize(t.Context(), m.sources(), archiveIn(dir))
		return err
	}, func(t *testing.T, m *memory, dir string) {
		if m.now(KeyPrimary).Exists() || m.now(KeySecondary).Exists() || !m.now("ranges/servicenodeports").Exists() {
			t.Errorf("there is\n%s", m)
		}
		a := must(LoadArchive(archiveIn(dir)))
		for _, k := range a.Keys {
			if want := original.now(k.Key).Raw; string(k.Value) != string(want) {
				t.Errorf("%s is saved as %q, was %q", k.Key, k.Value, want)
			}
		}
	})
}

func TestRestoreIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	must(Finalize(t.Context(), leftovers().sources(), archiveIn(dir)))
	a := must(LoadArchive(archiveIn(dir)))
	mustSurvive(t, func() *memory {
		m := leftovers()
		m.remove(KeyPrimary)
		m.remove(KeySecondary)
		return m
	}, func(m *memory, _ string) error {
		_, err := Restore(t.Context(), m.sources(), a)
		return err
	}, func(t *testing.T, m *memory, _ string) {
		if got, want := m.String(), leftovers().String(); got != want {
			t.Errorf("there is\n%s\nwas\n%s", got, want)
		}
	})
}

// Whatever is in a bitmap is saved, also what no decoder can read.
func TestFinalizeSavesWhatItCannotRead(t *testing.T) {
	m, file := leftovers(), archiveIn(t.TempDir())
	m.put(Write{Key: KeySecondary, Raw: []byte("k8s:enc:aescbc:v1:key1:\x00\xff")})
	if _, err := Finalize(t.Context(), m.sources(), file); err != nil {
		t.Fatal(err)
	}
	if deleted, err := Finalize(t.Context(), m.sources(), filepath.Join(t.TempDir(), "another")); err != nil || deleted != nil {
		t.Errorf("a second time it deletes %v, %v", deleted, err)
	}
	if a := must(LoadArchive(file)); string(a.Keys[1].Value) != "k8s:enc:aescbc:v1:key1:\x00\xff" || a.Keys[1].Range != "" {
		t.Errorf("saved as %+v", a.Keys[1])
	}
}

// As long as another writer changes the bitmaps they are not deleted.
func TestFinalizeWhileSomebodyWrites(t *testing.T) {
	for _, op := range []string{"Get", "Commit"} {
		t.Run("before the "+op, func(t *testing.T) {
			m, file := leftovers(), archiveIn(t.TempDir())
			m.once(op, "ranges/", func() { m.putBitmap(KeySecondary, must(bitmap.New(nets("fd00::/112")[0]))) })
			if _, err := Finalize(t.Context(), m.sources(), file); !errors.Is(err, ErrConflict) {
				t.Errorf("error %v", err)
			}
			if !m.now(KeyPrimary).Exists() || !m.now(KeySecondary).Exists() {
				t.Error("it deleted a bitmap that somebody writes")
			}
		})
	}
}

func TestFinalizeNeedsItsArchive(t *testing.T) {
	for name, file := range map[string]string{"a file of somebody else": inAFile(t, "a shopping list"), "no folder": filepath.Join(t.TempDir(), "none", "x")} {
		m := leftovers()
		if _, err := Finalize(t.Context(), m.sources(), file); err == nil || m.commits() > 0 {
			t.Errorf("%s: %v, %d commits", name, err, m.commits())
		}
	}
}

func TestRestore(t *testing.T) {
	dir := t.TempDir()
	must(Finalize(t.Context(), leftovers().sources(), archiveIn(dir)))
	good := must(LoadArchive(archiveIn(dir)))
	other := good
	other.Cluster = "another"

	for name, tc := range map[string]struct {
		there map[string]string // values of keys; the rest is gone
		a     Archive
		// wantError is a piece of it. wantRestored are keys.
		wantError    string
		wantRestored []string
	}{
		"both gone":             {a: good, wantRestored: []string{KeyPrimary, KeySecondary}},
		"one gone":              {a: good, there: map[string]string{KeyPrimary: string(good.Keys[0].Value)}, wantRestored: []string{KeySecondary}},
		"none gone":             {a: good, there: map[string]string{KeyPrimary: string(good.Keys[0].Value), KeySecondary: string(good.Keys[1].Value)}},
		"one came since":        {a: good, there: map[string]string{KeySecondary: "another value"}, wantError: KeySecondary + " exists and holds another value"},
		"of another cluster":    {a: other, wantError: "of cluster another, this is " + string(kubeSystem)},
		"an archive of nothing": {a: Archive{Head: batch.Head{Cluster: kubeSystem}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := leftovers()
			for _, key := range []string{KeyPrimary, KeySecondary} {
				m.remove(key)
				if text, ok := tc.there[key]; ok {
					m.put(Write{Key: key, Raw: []byte(text)})
				}
			}
			before := m.String()
			restored, err := Restore(t.Context(), m.sources(), tc.a)
			mustSay(t, err, tc.wantError)
			mustEqual(t, "restored", restored, tc.wantRestored)
			if len(tc.wantRestored) == 0 && m.String() != before {
				t.Errorf("there was\n%s\nthere is\n%s", before, m)
			}
		})
	}
}
