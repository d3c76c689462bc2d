package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// top is where cgroups are mounted: version 2 itself, version 1 in a folder for each hierarchy.
const top = "/sys/fs/cgroup"

// needed are the controllers of version 2 that kubelet and runc ask for.
const needed = "+cpuset +cpu +io +memory +pids"

// groups are a node's cgroups, one in each hierarchy, which a cgroup namespace makes its roots.
type groups []group

// group is where it is, and where the caller was before, to which it goes back.
type group struct{ path, before string }

// hierarchy is a line of /proc/self/cgroup: "cpu,cpuacct" or "name=systemd", empty in version 2,
// and the cgroup that we are in.
type hierarchy struct {
	controllers, group string
	// hybrid is version 2 beside version 1, which has all controllers: only programs attach to it.
	hybrid bool
}

// unified reports whether this is version 2 with its controllers.
func (h hierarchy) unified() bool { return h.controllers == "" && !h.hybrid }

// folder is where a hierarchy is mounted.
func (h hierarchy) folder() string {
	if h.hybrid {
		return filepath.Join(top, "unified")
	}
	return filepath.Join(top, strings.TrimPrefix(h.controllers, "name="))
}

// parent is where the cgroups of nodes are: below our own. In version 2 a cgroup with processes
// hands no controllers on, unless it is the root.
func (h hierarchy) parent() string {
	if h.unified() {
		return top
	}
	return filepath.Join(h.folder(), h.group)
}

// hierarchies are those of version 1, if the machine has them, with the controllers, and after them
// version 2 where it is mounted beside them, as systemd does; or version 2 alone.
func hierarchies() (all []hierarchy, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var unified []hierarchy
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if h := (hierarchy{controllers: parts[1], group: parts[2]}); h.unified() {
			unified = append(unified, h)
		} else {
			all = append(all, h)
		}
	}
	if len(all) == 0 {
		all = unified
	} else if h := (hierarchy{hybrid: true}); len(unified) > 0 && isCgroup2(h.folder()) {
		h.group = unified[0].group
		all = append(all, h)
	}
	if len(all) == 0 {
		return nil, errors.New("this machine has no cgroups, which kubelet needs: boot a kernel that has them")
	}
	return all, nil
}

func isCgroup2(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// joinGroups makes the cgroups of the node, and moves this process there.
func joinGroups(name string) (joined groups, err error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	for _, h := range all {
		sweep(h.parent())
		g := group{filepath.Join(h.parent(), name), filepath.Join(h.folder(), h.group)}
		if err := g.join(h); err != nil {
			return nil, errors.Join(fmt.Errorf("making the cgroups of the node: %w", err), joined.remove())
		}
		joined = append(joined, g)
	}
	return joined, nil
}

func (g group) join(h hierarchy) error {
	if h.unified() {
		if err := os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte(needed), 0o644); err != nil {
			return err
		}
	}
	if err := os.Mkdir(g.path, 0o755); err != nil {
		return err
	}
	if slices.Contains(strings.Split(h.controllers, ","), "cpuset") {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new one, and then nothing can run there
			text, err := os.ReadFile(filepath.Join(h.parent(), file))
			if err == nil {
				err = os.WriteFile(filepath.Join(g.path, file), text, 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	return moveTo(g.path)
}

// moveTo moves this process to a cgroup.
func moveTo(group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644)
}

// leave moves this process back to its old cgroups. Process 1 stays in what became its roots.
func (g groups) leave() error {
	var errs []error
	for _, group := range g {
		errs = append(errs, moveTo(group.before))
	}
	return errors.Join(errs...)
}

// clearRoot moves process 1 to a cgroup of its own: else version 2 denies kubelet its controllers.
func clearRoot() error {
	all, err := hierarchies()
	if err != nil || !all[0].unified() {
		return err
	}
	own := filepath.Join(top, "node")
	return errors.Join(os.Mkdir(own, 0o755), moveTo(own))
}

// remove moves this process back and removes the cgroups, whose killed processes are soon gone.
func (g groups) remove() error {
	errs := []error{g.leave()}
	for _, group := range g {
		var err error
		for range 250 {
			if err = removeTree(group.path); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeTree removes a cgroup and those in it, all without processes. Its files go by themselves.
func removeTree(group string) error {
	var all []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return err
	})
	for _, path := range slices.Backward(all) { // children come after their parents
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// sweep removes the cgroups of nodes that were killed with everything in them.
func sweep(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, "clusterip-operator-*-node-*"))
	for _, group := range left {
		if empty(group) {
			_ = removeTree(group)
		}
	}
}

// empty reports whether no process is in a cgroup or in those in it.
func empty(group string) bool {
	found := errors.New("found a process")
	return filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "cgroup.procs" {
			return err
		}
		if processes, err := os.ReadFile(path); err != nil || len(processes) > 0 {
			return errors.Join(err, found)
		}
		return nil
	}) == nil
}
