package compile

import "testing"

// TestIndex puts claims in and takes them out, some of them twice.
func TestIndex(t *testing.T) {
	aRecord := func(n string, day int) *record {
		return &record{name: name(n), claims: claims{created: someday.AddDate(0, 0, day)}}
	}
	oldest, a, b, external := aRecord("z", 1), aRecord("a", 2), aRecord("b", 2), aRecord("a/external", 0)
	x := index[string]{}
	for _, c := range []claim{{by: b}, {by: oldest}, {external, bySpec}, {by: a}, {by: oldest}} {
		x.set("k", c, true)
	}
	want := func(what string, names ...string) {
		t.Helper()
		var got []string
		for _, c := range x["k"] {
			got = append(got, c.by.name.Name)
		}
		wantEqual(t, what, names, got)
	}
	want("by class, age and name", "z", "a", "b", "external")
	if x.first("k") != oldest || x.first("other") != nil {
		t.Errorf("the first are %v and %v", x.first("k"), x.first("other"))
	}
	x.set("k", claim{by: oldest}, false)
	x.set("k", claim{by: oldest}, false)
	x.set("other", claim{by: oldest}, false)
	want("without the oldest, removed twice", "a", "b", "external")
	x.set("k", claim{by: a}, false)
	x.set("k", claim{external, bySpec}, false)
	x.set("k", claim{by: b}, false)
	wantEqual(t, "keys of an empty index", 0, len(x))
}
