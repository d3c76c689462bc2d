package wording

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCut(t *testing.T) {
	for name, tc := range map[string]struct {
		words string
		limit int
		want  string
	}{
		"nothing":                       {"", 10, ""},
		"just fits":                     {"0123456789", 10, "0123456789"},
		"one too many":                  {"0123456789a", 10, "0123456..."},
		"a character of two bytes fits": {"01234ü789a", 10, "01234ü..."},
		"it would be cut in two":        {"012345ü89a", 10, "012345..."},
		"one of four bytes":             {"0123\U0001F680789", 10, "0123..."},
		"characters alone":              {"üüüüüü", 10, "üüü..."},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Cut(tc.words, tc.limit)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
