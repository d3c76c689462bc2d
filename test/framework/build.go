package framework

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

var (
	manager = builder("manager")
	plugin  = builder("kubectl-clusterip")
)

// programsVariable names a folder of programs that hack/test.sh built before the first test:
// plain/manager, race/manager and so on. A cold build takes minutes, more than a spec's deadline.
const programsVariable = "CLUSTERIP_PROGRAMS"

// raceVariable, where it is set, has tests run programs with the race detector. It is the programs
// that it is for: in tests themselves it would cost time and find only faults of tests.
const raceVariable = "CLUSTERIP_RACE"

// builder returns how to get one of our programs, plain or with the race detector. Without a folder
// of programsVariable it is built, once per process.
func builder(name string) func(race bool) (string, error) {
	plain := sync.OnceValues(func() (string, error) { return programPath(name, "plain") })
	racy := sync.OnceValues(func() (string, error) { return programPath(name, "race", "-race") })
	return func(race bool) (string, error) {
		if race && os.Getenv(raceVariable) != "" {
			return racy()
		}
		return plain()
	}
}

// built returns a program that was built elsewhere, or else builds one of ours.
func built(program string, build func(race bool) (string, error), race bool) (string, error) {
	if program != "" {
		return program, nil
	}
	return build(race)
}

func programPath(name, variant string, flags ...string) (string, error) {
	if built := os.Getenv(programsVariable); built != "" {
		return filepath.Join(built, variant, name), nil
	}
	return buildProgram("./cmd/"+name, variant, flags...)
}

// TestProgram builds a program that tests need, a package as "./test/...", and returns its path.
func TestProgram(path string) (string, error) { return buildProgram(path, "test") }

// buildProgram builds a program into the cache, so that the next run links it again only after
// changes. GOTMPDIR is on the same file system, so go build replaces it by a rename: neither
// running processes nor other test programs that start it are disturbed.
func buildProgram(path, variant string, flags ...string) (string, error) {
	name := filepath.Base(path)
	root, dir, err := checkout()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, variant, name)
	var complaint bytes.Buffer
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", out}, flags, []string{path})...)
	cmd.Dir, cmd.Stderr = root, &complaint
	cmd.Env = append(os.Environ(), "GOTMPDIR="+dir)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", name, err, strings.TrimSpace(complaint.String()))
	}
	return out, nil
}

// checkout returns the folder of this module, and creates its own folder in the cache.
func checkout() (root, dir string, err error) {
	if root, err = ModuleRoot(); err != nil {
		return "", "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", "", err
	}
	dir = filepath.Join(cache, fmt.Sprintf("manager-%.6x", sha256.Sum256([]byte(root))))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("creating a folder in the cache: %w", err)
	}
	return root, dir, nil
}

// cacheDir is where hack/tools/build.sh keeps programs, too.
func cacheDir() (string, error) {
	if cache := os.Getenv("CLUSTERIP_CACHE"); cache != "" {
		return cache, nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache: %w", err)
	}
	return filepath.Join(user, "clusterip-operator"), nil
}
