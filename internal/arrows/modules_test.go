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

// TestTheDockerfileCopiesWhatTheProgramsImport compares what each stage of it has copied when it
// builds programs, and .dockerignore, with what they import.
func TestTheDockerfileCopiesWhatTheProgramsImport(t *testing.T) {
	imports, known := dependencies(t), captures(t, ".dockerignore", `(?m)^!(\S+)/$`)
	stages, stage, built := map[string][]string{}, "", 0
	for _, line := range captures(t, "Dockerfile", `(?m)^((?:FROM|COPY|RUN) (?:.*\\\n)*.*)$`) {
		words := strings.Fields(line)
		switch words[0] {
		case "FROM":
			base, name := slices.Index(words, "AS")-1, "the last one"
			if base > 0 {
				name = words[base+2]
				stages[name] = slices.Clone(stages[words[base]])
			}
			stage = name
		case "COPY":
			for _, folder := range words[1 : len(words)-1] {
				stages[stage] = append(stages[stage], strings.TrimSuffix(folder, "/"))
			}
		case "RUN":
			for _, word := range words {
				if program, is := strings.CutPrefix(word, "./cmd/"); is {
					built++
					wants := imports[inModule("cmd/"+program)]
					lacks(t, "the stage "+stage, program, stages[stage], wants)
					lacks(t, ".dockerignore", program, known, wants)
				}
			}
		}
	}
	if built != 4 {
		t.Errorf("found %d programs that are built, want 4", built)
	}
}

// captures are what a pattern's group finds in a file of the root.
func captures(t *testing.T, file, pattern string) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		all = append(all, match[1])
	}
	return all
}

// lacks reports what a program wants of this module beyond some folders.
func lacks(t *testing.T, where, program string, folders, wants []string) {
	t.Helper()
	for _, dep := range wants {
		if within(dep, module) && !slices.ContainsFunc(folders, func(f string) bool { return within(dep, inModule(f)) }) {
			t.Errorf("%s leaves out %s, which %s imports", where, dep, program)
		}
	}
}
