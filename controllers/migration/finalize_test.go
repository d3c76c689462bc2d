package migration

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// leftovers is a cluster with both bitmaps and the one of node ports.
func leftovers() *memory {
	m := holding(healthy())
	m.put(Write{Key: "ranges/servicenodeports", Object: &corev1.RangeAllocation{Range: "30000-32767", Data: []byte{1}}})
	return m
}

func archiveIn(dir string) string { return filepath.Join(dir, "archive.json") }

// What finalize deletes is in the archive, byte for byte, wherever it was interrupted; restore puts exactly that back.
func TestFinalizeIsInterrupted(t *testing.T) {
	original := leftovers()
	mustSurvive(t, leftovers, func(m *memory, dir string) error {
		_, err := Finalize(t.Context(), m.sources(), archiveIn(dir))
		return err
	}, func(t *testing.T, m *memory, dir string) {
		for _, key := range []string{KeyPrimary, KeySecondary} {
			if m.now(key).Exists() {
				t.Errorf("%s is still there", key)
			}
		}
		if !m.now("ranges/servicenodeports").Exists() {
			t.Error("the bitmap of node ports is gone")
		}
		a, err := LoadArchive(archiveIn(dir))
		if err != nil {
			t.Fatal(err)
		}
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

func TestFinalize(t *testing.T) {
	m, file := leftovers(), archiveIn(t.TempDir())
	deleted, err := Finalize(t.Context(), m.sources(), file)
	mustEqual(t, "deleted", deleted, []string{KeyPrimary, KeySecondary})
	if err != nil {
		t.Fatal(err)
	}
	commits := m.count("Commit")
	if deleted, err := Finalize(t.Context(), m.sources(), filepath.Join(t.TempDir(), "another")); err != nil || deleted != nil || m.count("Commit") != commits {
		t.Errorf("a second time it deletes %v, %v", deleted, err)
	}
}

// Whatever is in a bitmap is saved, also what nobody can read.
func TestFinalizeSavesWhatItCannotRead(t *testing.T) {
	m, file := leftovers(), archiveIn(t.TempDir())
	m.put(Write{Key: KeySecondary, Raw: []byte("k8s:enc:aescbc:v1:key1:\x00\xff")})
	if _, err := Finalize(t.Context(), m.sources(), file); err != nil {
		t.Fatal(err)
	}
	if a := must(LoadArchive(file)); string(a.Keys[1].Value) != "k8s:enc:aescbc:v1:key1:\x00\xff" || a.Keys[1].Range != "" {
		t.Errorf("saved as %+v", a.Keys[1])
	}
}

// As long as somebody writes the bitmaps they are not deleted, whenever he does.
func TestFinalizeWhileSomebodyWrites(t *testing.T) {
	for _, op := range []string{"Get", "Commit"} {
		t.Run("before the "+op, func(t *testing.T) {
			m, file := leftovers(), archiveIn(t.TempDir())
			m.before = func(c call) error {
				if c.op == op && c.key != "namespaces/kube-system" {
					m.before = nil
					m.putBitmap(KeySecondary, must(bitmap.New(nets("fd00::/112")[0])))
				}
				return nil
			}
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
		if _, err := Finalize(t.Context(), m.sources(), file); err == nil || m.count("Commit") > 0 {
			t.Errorf("%s: %v, %d commits", name, err, m.count("Commit"))
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
		"an archive of nothing": {a: Archive{Cluster: kubeSystem}},
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
			if (err == nil) != (tc.wantError == "") || err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("%v, want %q", err, tc.wantError)
			}
			mustEqual(t, "restored", restored, tc.wantRestored)
			if len(tc.wantRestored) == 0 && m.String() != before {
				t.Errorf("there was\n%s\nthere is\n%s", before, m)
			}
		})
	}
}

// A bitmap that comes while the archive is being put back is not written over.
func TestRestoreIsLate(t *testing.T) {
	dir := t.TempDir()
	m := leftovers()
	must(Finalize(t.Context(), m.sources(), archiveIn(dir)))
	m.before = func(c call) error {
		if c.op == "Commit" {
			m.before = nil
			m.put(Write{Key: KeySecondary, Raw: []byte("newer")})
		}
		return nil
	}
	restored, err := Restore(t.Context(), m.sources(), must(LoadArchive(archiveIn(dir))))
	if !errors.Is(err, ErrConflict) || restored != nil || string(m.now(KeySecondary).Raw) != "newer" || m.now(KeyPrimary).Exists() {
		t.Errorf("restored %v, %v\n%s", restored, err, m)
	}
}
