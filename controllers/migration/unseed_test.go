package migration

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// addressesOf reads a note.
func addressesOf(t *testing.T, v Value) []string {
	t.Helper()
	var n note
	if err := json.Unmarshal(v.Raw, &n); err != nil {
		t.Fatal(err)
	}
	return n.Addresses
}

// seededCluster has 8 seeded IPAddresses, and one that was there before.
func seededCluster(t *testing.T) *memory {
	t.Helper()
	m := bare(4)
	m.put(Write{Key: "ipaddresses/10.0.0.99", Object: objectOf(labelled(anIP("10.0.0.99", ""), "example.com", "IPv4"))})
	if got := must(seeder(m).Run(t.Context(), nil)); got.Written != 8 {
		t.Fatalf("%d were seeded", got.Written)
	}
	return m
}

func TestUnseed(t *testing.T) {
	m := seededCluster(t)
	o := m.now("ipaddresses/10.0.0.1")
	m.put(Write{Key: o.Key, Object: o.Object}) // somebody has touched it
	m.remove("ipaddresses/10.0.0.2")           // and deleted this one
	m.remove("ipaddresses/10.0.0.3")           // and written this one anew
	m.put(Write{Key: "ipaddresses/10.0.0.3", Object: objectOf(anIP("10.0.0.3", "s0002"))})

	before := m.String()
	preview, err := Unseed(t.Context(), m, true)
	if err != nil || m.String() != before {
		t.Fatalf("a preview has changed something, or failed: %v", err)
	}
	u, err := Unseed(t.Context(), m, false)
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "what the preview said", preview, u)
	slices.Sort(u.Deleted)
	mustEqual(t, "deleted", u.Deleted, []string{"10.0.0.4", "fd00::1", "fd00::2", "fd00::3", "fd00::4"})
	mustEqual(t, "kept", u.Kept, []string{"10.0.0.1", "10.0.0.3"})
	left := slices.DeleteFunc(strings.Split(m.String(), "\n"), func(line string) bool { return !strings.HasPrefix(line, "ipaddresses/") })
	if len(left) != 3 {
		t.Errorf("left are\n%s", strings.Join(left, "\n"))
	}
	if again, err := Unseed(t.Context(), m, false); err != nil || len(again.Deleted)+len(again.Kept) > 0 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
}

func TestUnseedIsInterrupted(t *testing.T) {
	mustSurvive(t, func() *memory {
		m := bare(10)
		must(seeder(m).Run(t.Context(), nil))
		m.putService(aService("late", "10.0.0.99")) // so that there are two notes
		must(seeder(m).Run(t.Context(), nil))
		return m
	}, func(m *memory, _ string) error {
		_, err := Unseed(t.Context(), m, false)
		return err
	}, func(t *testing.T, m *memory, _ string) {
		for key := range m.state(m.revision) {
			if strings.HasPrefix(key, prefixNotes) || strings.HasPrefix(key, prefixIPAddresses) {
				t.Errorf("%s is left", key)
			}
		}
	})
}

// An object changes between look and deletion: it is looked at again and kept, the others go.
func TestUnseedBesideSomebody(t *testing.T) {
	m := seededCluster(t)
	m.before = func(c call) error {
		if c.op == "Commit" {
			m.before = nil
			o := m.now("ipaddresses/10.0.0.1")
			m.put(Write{Key: o.Key, Object: o.Object})
		}
		return nil
	}
	u, err := Unseed(t.Context(), m, false)
	if err != nil || len(u.Deleted) != 7 || !slices.Equal(u.Kept, []string{"10.0.0.1"}) {
		t.Errorf("%+v, %v", u, err)
	}
}

// Two at once: the one that comes second finds the note gone and ends.
func TestUnseedTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := seededCluster(t)
		m.before = func(c call) error {
			if c.op == "Commit" {
				m.before = nil
				must(Unseed(t.Context(), m, false))
			}
			return nil
		}
		if u, err := Unseed(t.Context(), m, false); err != nil || len(u.Deleted) != 0 {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

func TestUnseedWithABrokenNote(t *testing.T) {
	m := seededCluster(t)
	m.put(Write{Key: prefixNotes + "broken", Raw: []byte("?")})
	if _, err := Unseed(t.Context(), m, false); err == nil || !strings.Contains(err.Error(), prefixNotes+"broken") {
		t.Errorf("error %v", err)
	}
	away := errors.New("away")
	m.before = func(c call) error { return away }
	if _, err := Unseed(t.Context(), m, false); !errors.Is(err, away) || !strings.Contains(err.Error(), "reading what was seeded") {
		t.Errorf("error %v", err)
	}
}

// Forget deletes all notes, however many, and nothing else; then nothing is seeded any more.
func TestForget(t *testing.T) {
	m := seededCluster(t)
	for i := range 300 {
		m.put(Write{Key: fmt.Sprintf("%sx%03d", prefixNotes, i), Raw: []byte(`{"addresses":[]}`)})
	}
	before := m.String()
	if n, err := Forget(t.Context(), m); err != nil || n != 301 || m.String() != before {
		t.Errorf("it forgets %d, %v", n, err)
	}
	if u := must(Unseed(t.Context(), m, false)); len(u.Deleted)+len(u.Kept) > 0 {
		t.Errorf("unseed finds %+v", u)
	}
	if n, err := Forget(t.Context(), m); err != nil || n != 0 {
		t.Errorf("a second time %d, %v", n, err)
	}
	away := errors.New("away")
	for _, op := range []string{"List", "Commit"} {
		m := seededCluster(t)
		m.before = func(c call) error {
			if c.op == op {
				return away
			}
			return nil
		}
		if n, err := Forget(t.Context(), m); !errors.Is(err, away) || n != 0 {
			t.Errorf("%s fails: %d, %v", op, n, err)
		}
	}
}
