package cli

import "testing"

func TestValidOutput(t *testing.T) {
	for format, want := range map[string]bool{"table": true, "json": true, "yaml": true, "": false, "JSON": false, "wide": false} {
		if err := ValidOutput(format); (err == nil) != want {
			t.Errorf("%q: %v", format, err)
		}
	}
}
