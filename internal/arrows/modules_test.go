package arrows

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDirectDependenciesAreNamed compares go.mod with the reasons in docs/architecture.md.
func TestDirectDependenciesAreNamed(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", "../../go.mod").Output()
	if err != nil {
		t.Fatalf("reading go.mod: %v", err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(output, &mod); err != nil {
		t.Fatalf("decoding go.mod: %v", err)
	}
	var required []string
	for _, r := range mod.Require {
		if !r.Indirect {
			required = append(required, r.Path)
		}
	}
	slices.Sort(required)
	if diff := cmp.Diff(named(t), required); diff != "" {
		t.Errorf("docs/architecture.md, Dependencies, against go.mod (-named +required):\n%s", diff)
	}
}

// named are the modules in the table.
func named(t *testing.T) (modules []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Dependencies\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| `.*? \\|").FindAllString(section, -1) {
		for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row, -1) {
			modules = append(modules, match[1])
		}
	}
	slices.Sort(modules)
	return modules
}

// TestTheDockerfileCopiesWhatTheProgramsImport compares its folders and .dockerignore with imports.
func TestTheDockerfileCopiesWhatTheProgramsImport(t *testing.T) {
	for file, line := range map[string]string{"Dockerfile": `(?m)^COPY (\S+)/ \S+/$`, ".dockerignore": `(?m)^!(\S+)/$`} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		copied := regexp.MustCompile(line).FindAllStringSubmatch(string(text), -1)
		for path, deps := range dependencies(t) {
			if !strings.HasPrefix(path, module+"/cmd/") {
				continue
			}
			for _, dep := range deps {
				if within(dep, module) && !slices.ContainsFunc(copied, func(m []string) bool { return within(dep, inModule(m[1])) }) {
					t.Errorf("%s leaves out %s, which %s imports", file, dep, path)
				}
			}
		}
	}
}
