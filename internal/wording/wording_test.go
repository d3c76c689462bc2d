package wording

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCut(t *testing.T) {
	for words, want := range map[string]string{
		"": "", "0123456789": "0123456789", "0123456789a": "0123456...",
		"01234ü789a": "01234ü...", "012345ü89a": "012345...", // a character of two bytes fits, and would be cut in two
		"0123\U0001F680789": "0123...", "üüüüüü": "üüü...",
	} {
		if diff := cmp.Diff(want, Cut(words, 10)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", words, diff)
		}
	}
}

func TestFirst(t *testing.T) {
	for want, items := range map[string][]string{
		"": nil, "a": {"a"}, "a, b": {"a", "b"}, "a, b and 1 more": {"a", "b", "c"}, "a, b and 3 more": {"a", "b", "c", "d", "e"},
	} {
		if got := First(items, 2); got != want {
			t.Errorf("%q of %v, want %q", got, items, want)
		}
	}
}
