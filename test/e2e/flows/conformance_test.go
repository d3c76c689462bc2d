package flows_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// row is the start of a table line in docs/reference/proxy-conformance.md about a test of this
// package.
var row = regexp.MustCompile("(?m)^\\| ([0-9]+[a-z]*) \\| (.*?) \\| `[a-z]+` \\|")

// TestEveryScenarioIsDocumented compares numbers and names with the table of
// docs/reference/proxy-conformance.md.
func TestEveryScenarioIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/proxy-conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		documented[match[1]+" "+match[2]] = true
	}
	seen, specs := map[string]bool{}, 0
	for _, r := range rounds {
		for _, s := range r.setups {
			for _, sc := range s.scenarios {
				if sc.kinds == nil {
					specs += len(sc.families())
				}
				name := sc.number + " " + strings.TrimSuffix(strings.TrimSuffix(sc.name, allMasqueraded), noDetector)
				if !documented[name] {
					t.Errorf("not in docs/reference/proxy-conformance.md: %s", name)
				}
				seen[name] = true
			}
		}
	}
	for name := range documented {
		if !seen[name] {
			t.Errorf("no scenario: %s", name)
		}
	}
	if want := fmt.Sprintf("| %d each, all pass", specs); !strings.Contains(string(text), want) {
		t.Errorf("docs/reference/proxy-conformance.md does not say %q", want)
	}
}
