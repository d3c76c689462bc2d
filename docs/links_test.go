// Package docs_test holds the links between this checkout's pages against what they lead to.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	code    = regexp.MustCompile("`[^`\n]*`")
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	// notInAnchor is what GitHub leaves out of a heading's anchor.
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// TestLinks has every relative link of a page lead to a file, and its anchor to a heading there.
func TestLinks(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "*/*.md", "../*.md", "../*/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	links := 0
	for _, page := range pages {
		text := code.ReplaceAllString(fence.ReplaceAllString(read(t, page), ""), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
				continue
			}
			links++
			if complaint := broken(t, page, match[1]); complaint != "" {
				t.Errorf("%s: %s: %s", page, match[1], complaint)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found on %d pages", links, len(pages))
	}
}

// broken says what is wrong with a link of a page; nothing if it leads somewhere.
func broken(t *testing.T, page, target string) string {
	path, anchor, _ := strings.Cut(target, "#")
	file := page
	if path != "" {
		file = filepath.Join(filepath.Dir(page), path)
	}
	if _, err := os.Stat(file); err != nil {
		return "there is no such file"
	}
	if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
		return "there is no such heading"
	}
	return ""
}

// anchors are those that GitHub gives to the headings of a page.
func anchors(text string) (all []string) {
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		words := link.ReplaceAllString(match[1], "]")
		all = append(all, strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(words), ""), " ", "-"))
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
