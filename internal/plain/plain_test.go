package plain

import "testing"

func TestTexts(t *testing.T) {
	for name, tc := range map[string]struct{ words, text, lines string }{
		"letters, marks and signs": {"zürich 10.0.0.1 \u65e5\u672c \U0001F680 \u0301", "zürich 10.0.0.1 \u65e5\u672c \U0001F680 \u0301", "zürich 10.0.0.1 \u65e5\u672c \U0001F680 \u0301"},
		"an escape sequence":       {"a\x1b[2Jb", "a\ufffd[2Jb", "a\ufffd[2Jb"},
		"one of a single byte":     {"a\x9b2Jb", "a\ufffd2Jb", "a\ufffd2Jb"},
		"one as a character":       {"a\u009b2Jb", "a\ufffd2Jb", "a\ufffd2Jb"},
		"line breaks and tabs":     {"a\r\n\tb", "a\ufffd\ufffd\ufffdb", "a\ufffd\n\tb"}, "lines of Unicode": {"a\u2028b", "a\ufffdb", "a\ufffdb"},
		"another direction": {"a\u202eb\u2066c", "a\ufffdb\ufffdc", "a\ufffdb\ufffdc"}, "DEL and NUL": {"a\x7f\x00b", "a\ufffd\ufffdb", "a\ufffd\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Text(tc.words); got != tc.text {
				t.Errorf("Text: %q, want %q", got, tc.text)
			}
			if got := Lines(tc.words); got != tc.lines {
				t.Errorf("Lines: %q, want %q", got, tc.lines)
			}
		})
	}
}
