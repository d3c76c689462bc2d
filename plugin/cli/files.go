package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// carriers are the commands that carry out a file, and those that write one, by its kind.
var carriers = map[string]struct{ carry, write string }{
	"CheckReport":     {"repair", "check"},
	"MigrationPlan":   {"migrate run", "migrate plan"},
	"RenumberingPlan": {"renumber run", "renumber plan"},
	"DualStackPlan":   {"dual-stack run", "dual-stack plan"},
}

// KindHint adds to a batch.KindError what can be done about it. It returns other errors as they
// are.
func KindHint(err error) error {
	of, ok := errors.AsType[batch.KindError](err)
	switch {
	case !ok:
		return err
	case carriers[of.Is.Kind].carry != "" && of.Is.Kind != of.Want.Kind:
		return fmt.Errorf("%w; `kubectl clusterip %s --from %s` carries it out", err, carriers[of.Is.Kind].carry, of.File)
	}
	return fmt.Errorf("%w; `kubectl clusterip %s -o FILE` writes one", err, carriers[of.Want.Kind].write)
}

// ValidFile returns an error if no file can be at a path that a flag names: before the cluster is
// asked, which may take long.
func ValidFile(flag, file string) error {
	folder := filepath.Dir(file)
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s %s: there is no folder %s; make it, or name a file in another one", flag, file, folder)
	case err != nil:
		return fmt.Errorf("%s %s: %w", flag, file, err)
	case !info.IsDir():
		return fmt.Errorf("%s %s: %s is no folder; name a file in one", flag, file, folder)
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return fmt.Errorf("%s %s is a folder; name a file in it", flag, file)
	}
	return nil
}
