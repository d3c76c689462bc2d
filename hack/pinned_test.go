// Package hack_test holds what builds and tests are based on against what it has to be.
package hack_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	digest   = regexp.MustCompile(`^[^@\s]+@sha256:[0-9a-f]{64}$`)
	workflow = regexp.MustCompile(`(?m)^\s*(?:- )?(?:image|container): +['"]?([^'"\s]+)`)
	// Steps of a workflow that run an action, with the commit of which it is.
	step   = regexp.MustCompile(`(?m)^\s*(?:- )?uses: +['"]?([^'"\s]+)`)
	action = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40}$`)
)

// unpinned are the images that lines of a Dockerfile name without a digest: what they are based on,
// and what they copy from. Names of earlier stages, and scratch, are no images.
func unpinned(dockerfile string) (found []string) {
	args, stages := map[string]string{}, []string{"scratch"}
	image := func(name string) {
		name = os.Expand(name, func(arg string) string { return args[arg] })
		if !slices.Contains(stages, name) && !digest.MatchString(name) {
			found = append(found, name)
		}
	}
	for line := range strings.Lines(strings.ReplaceAll(dockerfile, "\\\n", " ")) {
		words := slices.DeleteFunc(strings.Fields(line), func(word string) bool { return strings.HasPrefix(word, "--platform=") })
		if len(words) < 2 {
			continue
		}
		switch strings.ToUpper(words[0]) {
		case "ARG":
			name, value, _ := strings.Cut(words[1], "=")
			args[name] = value
		case "FROM":
			image(words[1])
			if len(words) == 4 {
				stages = append(stages, words[3])
			}
		case "COPY":
			if from, ok := strings.CutPrefix(words[1], "--from="); ok {
				image(from)
			}
		}
	}
	return found
}

// unpinnedIn are those that a file of the repository names.
func unpinnedIn(name, text string) (found []string) {
	base := strings.ToLower(filepath.Base(name))
	if strings.Contains(base, "dockerfile") && !strings.HasSuffix(base, ".go") || strings.Contains(base, "containerfile") {
		return unpinned(text)
	}
	if strings.HasPrefix(filepath.ToSlash(name), ".github/") {
		for _, match := range workflow.FindAllStringSubmatch(text, -1) {
			if !digest.MatchString(match[1]) {
				found = append(found, match[1])
			}
		}
		for _, match := range step.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(match[1], "./") && !action.MatchString(match[1]) {
				found = append(found, match[1])
			}
		}
	}
	return found
}

// What a tag leads to may change: images and actions of others are named by digests and commits.
func TestImagesAndActionsOfOthersArePinned(t *testing.T) {
	pinned := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && (entry.Name() == ".git" || entry.Name() == "bin") {
				return fs.SkipDir
			}
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), "../")
		if !entry.Type().IsRegular() || !strings.HasPrefix(name, ".github/") && !strings.Contains(strings.ToLower(name), "erfile") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, image := range unpinnedIn(name, string(text)) {
			t.Errorf("%s: %s has no digest: write NAME:TAG@sha256:..., and an action as NAME@COMMIT", name, image)
		}
		pinned += strings.Count(string(text), "@sha256:")
		return err
	})
	if err != nil || pinned < 3 {
		t.Errorf("%d images were found that have a digest; %v", pinned, err)
	}
}

func TestUnpinnedImagesAreFound(t *testing.T) {
	of := "@sha256:" + strings.Repeat("0a", 32)
	for _, tc := range []struct{ name, file, text, want string }{
		{"a tag", "Dockerfile", "FROM golang:1.26", `["golang:1.26"]`},
		{"a digest", "Dockerfile", "FROM golang:1.26" + of, "[]"},
		{"a digest that is cut", "x/Dockerfile.agent", "FROM golang@sha256:0a0a AS build", `["golang@sha256:0a0a"]`},
		{"a stage and scratch", "Dockerfile", "FROM a" + of + " AS build\nFROM build AS last\nFROM scratch\nCOPY --from=build /a /a", "[]"},
		{"an argument", "Dockerfile", "ARG GO=golang:1.26\nFROM --platform=$BUILDPLATFORM ${GO} AS build", `["golang:1.26"]`},
		{"an argument without a value", "Dockerfile", "ARG GO\nFROM $GO", `[""]`},
		{"a copy from an image", "Containerfile", "FROM scratch\nCOPY --from=busybox:1 \\\n  /bin /bin", `["busybox:1"]`},
		{"a workflow", ".github/workflows/ci.yml", "    container:\n      image: debian:12\n", `["debian:12"]`},
		{"a workflow in short", ".github/workflows/ci.yml", "    container: 'debian:12'\n", `["debian:12"]`},
		{"a workflow with a digest", ".github/workflows/ci.yml", "      image: debian:12" + of + "\n", "[]"},
		{"an action by its tag", ".github/workflows/ci.yml", "      - uses: actions/checkout@v6.0.2\n", `["actions/checkout@v6.0.2"]`},
		{"an action by its commit", ".github/workflows/ci.yml", "      - uses: a/b/c@" + strings.Repeat("0a", 20) + " # v1\n", "[]"},
		{"an action of the checkout", ".github/workflows/ci.yml", "      - uses: ./.github/actions/x\n", "[]"},
	} {
		if got := fmt.Sprintf("%q", unpinnedIn(tc.file, tc.text)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
