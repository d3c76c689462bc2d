package framework

import (
	"fmt"
	"os"
)

// folder is where a process keeps its files: one that the caller named and keeps, or a temporary one.
type folder struct {
	path      string
	temporary bool
}

// openFolder creates the folder. No path means a temporary one.
func openFolder(path string) (folder, error) {
	if path == "" {
		path, err := os.MkdirTemp("", "clusterip-operator-")
		if err != nil {
			return folder{}, fmt.Errorf("creating a temporary folder: %w", err)
		}
		return folder{path: path, temporary: true}, nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return folder{}, fmt.Errorf("creating the folder: %w", err)
	}
	return folder{path: path}, nil
}

// remove deletes a temporary folder, unless KEEP is set.
func (f folder) remove() error {
	if !f.temporary {
		return nil
	}
	if os.Getenv("KEEP") != "" {
		fmt.Fprintln(os.Stderr, "kept", f.path)
		return nil
	}
	if err := os.RemoveAll(f.path); err != nil {
		return fmt.Errorf("removing the temporary folder: %w", err)
	}
	return nil
}
