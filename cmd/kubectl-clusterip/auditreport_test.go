package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// Of what a migration finds only what concerns the bitmaps is added: the other checks have looked at the rest. A leftover is nothing wrong.
func TestFindingsOfBitmaps(t *testing.T) {
	leaked := found(migration.LeakedBit, "10.0.0.9")
	leaked.Detail = "nobody has it"
	r := checkReport{Bitmaps: true}
	r.addFindings([]migration.Finding{leaked, found(migration.IPAddressMissing, "10.0.0.1", "Service ns/x"), found(migration.StaleBitmap, "")})
	want := []item{{Check: "LeakedBit", Object: "bitmap", Address: "10.0.0.9", Message: "what follows from LeakedBit. nobody has it"}}
	if diff := cmp.Diff(want, r.Items); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, tc := range map[string]struct {
		r    checkReport
		want string
	}{
		"with the bitmaps":    {r, `<testcase name="LeakedBit"><failure`},
		"without the bitmaps": {checkReport{}, `failures="0"`},
	} {
		var text strings.Builder
		if err := tc.r.print(&text, "junit"); err != nil {
			t.Fatal(err)
		}
		flat := strings.NewReplacer("\n", "", "  ", "").Replace(text.String())
		if !strings.Contains(flat, tc.want) || strings.Contains(flat, "LeakedBit") != tc.r.Bitmaps {
			t.Errorf("%s: %s", name, text.String())
		}
	}
}
