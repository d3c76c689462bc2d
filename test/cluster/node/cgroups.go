//go:build linux

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
)

// top is where cgroups of version 1 are mounted, a folder for each hierarchy.
const top = "/sys/fs/cgroup"

// groups are the cgroups of a node, one in each hierarchy. Inside, a cgroup namespace makes them the roots.
type groups []string

// hierarchy is one of them, as /proc/self/cgroup shows it: "cpu,cpuacct", "name=systemd", and the cgroup that we are in.
type hierarchy struct{ controllers, group string }

// folder is where a hierarchy is mounted, below top.
func (h hierarchy) folder() string { return strings.TrimPrefix(h.controllers, "name=") }

// hierarchies are those of the machine. One that has version 2 alone is not supported: there, a cgroup with processes hands no controllers on.
func hierarchies() (all []hierarchy, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && parts[1] != "" { // of version 2 is the one without controllers
			all = append(all, hierarchy{parts[1], parts[2]})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("this machine has cgroups of version 2 alone, and nodes need version 1: boot it with systemd.unified_cgroup_hierarchy=0")
	}
	return all, nil
}

// joinGroups makes the cgroups of the node below those that this process is in, and moves it there.
func joinGroups(name string) (joined groups, err error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	for _, h := range all {
		parent := filepath.Join(top, h.folder(), h.group)
		sweep(parent)
		group := filepath.Join(parent, name)
		if err := join(parent, group, h); err != nil {
			return nil, errors.Join(fmt.Errorf("making the cgroups of the node: %w", err), joined.remove())
		}
		joined = append(joined, group)
	}
	return joined, nil
}

func join(parent, group string, h hierarchy) error {
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	if slices.Contains(strings.Split(h.controllers, ","), "cpuset") {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new one, and then nothing can run there
			text, err := os.ReadFile(filepath.Join(parent, file))
			if err == nil {
				err = os.WriteFile(filepath.Join(group, file), text, 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	return moveTo(group)
}

// moveTo moves this process to a cgroup.
func moveTo(group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644)
}

// remove moves this process back to where it came from, and removes the cgroups. The other processes in them have been killed, and are gone in a moment.
func (g groups) remove() error {
	var errs []error
	for _, group := range g {
		err := moveTo(filepath.Dir(group))
		for range 250 {
			if err = removeTree(group); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeTree removes a cgroup and those in it, which must have no processes. What looks like files in a cgroup goes with it.
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

// sweep removes the cgroups of nodes that were killed with everything in them. In that of a node that lives is the node's own process.
func sweep(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, "clusterip-operator-*-node-*"))
	for _, group := range left {
		if processes, err := os.ReadFile(filepath.Join(group, "cgroup.procs")); err == nil && len(processes) == 0 {
			_ = removeTree(group)
		}
	}
}
