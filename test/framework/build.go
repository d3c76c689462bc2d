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
	plainManager = sync.OnceValues(func() (string, error) { return buildManager("manager") })
	racyManager  = sync.OnceValues(func() (string, error) { return buildManager("manager-race", "-race") })
)

func managerProgram(race bool) (string, error) {
	if race {
		return racyManager()
	}
	return plainManager()
}

// buildManager builds cmd/manager and leaves it in the cache, so that the next run links it again only if something has
// changed. GOTMPDIR is on the same file system, so that go build replaces the program by a rename: neither
// managers that run from it nor other test programs that start it are disturbed.
func buildManager(name string, flags ...string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir, err := checkoutDir(root)
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, name)
	var complaint bytes.Buffer
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", out}, flags, []string{"./cmd/manager"})...)
	cmd.Dir, cmd.Stderr = root, &complaint
	cmd.Env = append(os.Environ(), "GOTMPDIR="+dir)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building the manager: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return out, nil
}

// checkoutDir creates a folder of the cache that belongs to one checkout alone.
func checkoutDir(root string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, fmt.Sprintf("manager-%.6x", sha256.Sum256([]byte(root))))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating a folder in the cache: %w", err)
	}
	return dir, nil
}
