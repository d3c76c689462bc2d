package cli

import "testing"

func TestValidOutput(t *testing.T) {
	for format, want := range map[string]bool{"table": true, "json": true, "yaml": true, "": false, "JSON": false, "wide": false} {
		if err := ValidOutput(format); (err == nil) != want {
			t.Errorf("%q: %v", format, err)
		}
	}
	if err := OneOfOrEmpty("--band", "", "static", "dynamic"); err != nil {
		t.Error(err)
	}
	if err := OneOfOrEmpty("--band", "x", "static", "dynamic"); err == nil || err.Error() != `--band "x" is none of static, dynamic` {
		t.Error(err)
	}
}
