package handover

import (
	"strings"
	"testing"
)

// all is what the operator does.
var all = Guards{UID: true, Version: true, Name: true, Ledger: true, Confirm: true, Patience: true}

func TestEveryOrderKeepsThePromises(t *testing.T) {
	f := explore(first, all.next, broken)
	if f.broken != "" {
		t.Fatal(f)
	}
	if f.states < 1000 {
		t.Errorf("%d states: the model has come to rest too soon", f.states)
	}
	t.Log(f)
}

// Each guard is needed. What goes wrong without it is a story of a hand-over, or of a late write.
func TestWithoutAGuardAPromiseBreaks(t *testing.T) {
	for name, tc := range map[string]struct {
		without func(*Guards)
		want    string
		path    []string // parts of it, in this order
	}{
		"the UID and the version of what is deleted": {func(g *Guards) { g.UID, g.Version = false, false }, "a manager takes the IPAddress of a Service away",
			[]string{"manager 1 looks", "Service 1 goes", "Service 2 gets its IPAddress", "decides to delete IPAddress 1 of Service 1, which is gone", "arrives"}},
		"the version of what is deleted": {func(g *Guards) { g.Version = false }, "a manager takes away what another program looks after",
			[]string{"manager 1 looks", "a user gives the IPAddress to another program", "decides to delete", "the write of manager 1 arrives"}},
		"names that are unique": {func(g *Guards) { g.Name = false }, "a manager takes the IPAddress of a Service away",
			[]string{"decides to write the IPAddress of Service", "gets its IPAddress", "arrives"}},
		"the version that a write of the ledger replaces": {func(g *Guards) { g.Ledger = false }, "the ledger has lost an owner",
			[]string{"the Lease passes to manager 2", "manager 2 decides to write the owners", "arrives"}},
		"a look at the Services after that at the IPAddress": {func(g *Guards) { g.Confirm = false }, "a manager takes the IPAddress of a Service away",
			[]string{"manager 1 looks", "is there", "decides to delete", "arrives"}},
		"patience": {func(g *Guards) { g.Patience = false }, "a manager takes the IPAddress of a Service away",
			[]string{"gets its IPAddress", "decides to delete", "arrives"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := all
			tc.without(&g)
			f := explore(first, g.next, func(s state) string { return map[bool]string{true: tc.want}[broken(s) == tc.want] })
			if f.broken != tc.want {
				t.Fatalf("want %q, found %s", tc.want, f)
			}
			rest := strings.Join(f.path, "\n")
			for _, part := range tc.path {
				_, after, ok := strings.Cut(rest, part)
				if !ok {
					t.Fatalf("no %q there or no more: %s", part, f)
				}
				rest = after
			}
			t.Log(f)
		})
	}
}

// What the checker did not find it would not show the absence of.
func TestExploreFindsTheShortestWay(t *testing.T) {
	next := func(n int) []step[int] {
		return []step[int]{{"add one", (n + 1) % 100}, {"double", n * 2 % 100}}
	}
	f := explore(1, next, func(n int) string { return map[int]string{10: "ten"}[n] })
	if want := "ten after\n  add one\n  double\n  add one\n  double"; f.String() != want {
		t.Errorf("got %s, want %s", f, want)
	}
	if f := explore(1, next, func(int) string { return "" }); f.broken != "" || f.states != 100 {
		t.Errorf("got %s", f)
	}
}
