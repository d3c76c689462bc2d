package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroup is a cgroup of a test in the machine's cgroup2 hierarchy. Close removes it.
type Cgroup struct{ path string }

var cgroups atomic.Int32

// NewCgroup makes one, as root.
func NewCgroup() (Cgroup, error) {
	root := "/sys/fs/cgroup"
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		root += "/unified"
	}
	c := Cgroup{filepath.Join(root, fmt.Sprintf("clusterip-test-%d-%d", os.Getpid(), cgroups.Add(1)))}
	return c, os.Mkdir(c.path, 0o755)
}

// Path is its folder.
func (c Cgroup) Path() string { return c.path }

// Child makes a cgroup in it, or several in one another.
func (c Cgroup) Child(name string) (Cgroup, error) {
	child := Cgroup{filepath.Join(c.path, name)}
	return child, os.MkdirAll(child.path, 0o755)
}

// Enter moves a process into it, which may be this one.
func (c Cgroup) Enter(pid int) error {
	if err := os.WriteFile(filepath.Join(c.path, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("moving process %d into the cgroup %s: %w", pid, c.path, err)
	}
	return nil
}

// Close removes it and all in it. Processes that are left are moved out of it.
func (c Cgroup) Close() error {
	outside := Cgroup{filepath.Dir(c.path)}
	return errors.Join(c.empty(outside), c.remove())
}

// empty moves processes out.
func (c Cgroup) empty(to Cgroup) error {
	return filepath.WalkDir(c.path, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(text)) {
			if n, _ := strconv.Atoi(pid); n != 0 {
				_ = to.Enter(n) // it may have ended
			}
		}
		return err
	})
}

// remove removes folders from the innermost on, for files in them cannot be removed, once the
// threads in them that are ending have ended.
func (c Cgroup) remove() error {
	for range 500 {
		if events, _ := os.ReadFile(filepath.Join(c.path, "cgroup.events")); !strings.Contains(string(events), "populated 1") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	children, err := os.ReadDir(c.path)
	for _, d := range children {
		if d.IsDir() {
			err = errors.Join(err, Cgroup{filepath.Join(c.path, d.Name())}.remove())
		}
	}
	return errors.Join(err, unix.Rmdir(c.path))
}
