package migration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// archived is of a cluster with one bitmap, whose value is this text.
func archived(value string) Archive {
	w := Snapshot{Now: noon, Cluster: kubeSystem, Revision: 11}
	o := &corev1.RangeAllocation{Range: "10.0.0.0/24", Data: []byte{1}}
	return newArchive(w, []Value{{Key: KeyPrimary, ModRevision: 5, Raw: []byte(value), Object: o}})
}

func TestArchive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "archive.json")
	a := archived("k8s\x00 any bytes \xff")
	if err := a.save(file); err != nil {
		t.Fatal(err)
	}
	got, err := LoadArchive(file)
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "archive", got, a)
	want := ArchivedKey{Key: KeyPrimary, ModRevision: 5, Range: "10.0.0.0/24", Value: []byte("k8s\x00 any bytes \xff")}
	got.Keys[0].SHA256 = ""
	mustEqual(t, "key", got.Keys[0], want)
	if got.Cluster != kubeSystem || got.Revision != 11 || !got.Saved.Equal(noon) {
		t.Errorf("it is of %s at revision %d, %v", got.Cluster, got.Revision, got.Saved)
	}
}

// An archive from an earlier try is as good; anything else that has the file's name is left as it is.
func TestArchivesAreNotOverwritten(t *testing.T) {
	another := archived("one")
	another.Cluster = "another"
	more := archived("one")
	more.Keys = append(more.Keys, ArchivedKey{Key: KeySecondary, Value: []byte("x"), SHA256: digest([]byte("x"))})
	later := archived("one")
	later.Revision, later.Keys[0].ModRevision = 99, 98
	empty := archived("one")
	empty.Keys = nil

	for name, tc := range map[string]struct {
		there any
		want  string // a piece of the error, "" for none
	}{
		"the same":                     {there: archived("one")},
		"the same of another revision": {there: later},
		"another value":                {there: archived("two"), want: "holds other values"},
		"another cluster":              {there: another, want: "holds other values"},
		"one key more":                 {there: more, want: "holds other values"},
		"no key":                       {there: empty, want: "holds other values"},
		"something else":               {there: "a shopping list", want: "is no archive"},
		"a plan":                       {there: Report{APIVersion: formatVersion, Kind: KindPlan}, want: "is no archive"},
	} {
		t.Run(name, func(t *testing.T) {
			before := string(must(json.Marshal(tc.there)))
			file := inAFile(t, before)
			err := archived("one").save(file)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
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

func TestArchiveThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none", "archive.json")
	if err := archived("one").save(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// Who looks at the file sees all of it or none, and of many who write at once one does.
func TestHalfAnArchiveNeverAppears(t *testing.T) {
	file := filepath.Join(t.TempDir(), "archive.json")
	values := []string{strings.Repeat("one", 1<<16), strings.Repeat("two", 1<<16)}
	var writers, reader sync.WaitGroup
	stop, failed := make(chan struct{}), make([]error, 8)
	reader.Go(func() {
		for {
			if a, err := LoadArchive(file); err == nil {
				if got := string(a.Keys[0].Value); got != values[0] && got != values[1] {
					t.Errorf("the archive has %d bytes that nobody wrote", len(got))
				}
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("half an archive: %v", err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i := range failed {
		writers.Go(func() { failed[i] = archived(values[i%2]).save(file) })
	}
	writers.Wait()
	close(stop)
	reader.Wait()

	won := must(LoadArchive(file)).Keys[0].Value
	for i, err := range failed {
		if err == nil && !bytes.Equal(won, []byte(values[i%2])) {
			t.Errorf("writer %d believes that its values are saved", i)
		}
	}
	mustBeAlone(t, file)
}

func TestLoadArchiveRefuses(t *testing.T) {
	change := func(do func(*Archive)) string {
		a := archived("one")
		do(&a)
		return string(must(json.Marshal(a)))
	}
	for name, tc := range map[string]struct{ text, want string }{
		"a word":           {"archive", "reading"},
		"nothing":          {"", "it is empty"},
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
			if _, err := LoadArchive(inAFile(t, tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// A bitmap of no bytes at all is broken, and is saved like any other: a second try must find the archive of the first.
func TestArchiveOfNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "archive.json")
	for try := range 2 {
		if err := archived("").save(file); err != nil {
			t.Errorf("try %d: %v", try+1, err)
		}
	}
}
