package batch

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// JSON that is printed steers no terminal, and reads as what was written.
func TestEncodedJSONSteersNoTerminal(t *testing.T) {
	want := map[string]string{"text": "a\x1b[2J\u009b2J\u202e\x7f\U000E0001 \u00fc \U0001F680\n"}
	var out strings.Builder
	if err := Encode(&out, want, "json"); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u009b\u202e\x7f\U000E0001") || !strings.Contains(out.String(), "\u00fc \U0001F680") {
		t.Errorf("printed is %q", out.String())
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
