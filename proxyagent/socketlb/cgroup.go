//go:build linux

package socketlb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// podsCgroups are how kubelets call the cgroup of all pods, with the driver systemd and cgroupfs,
// on nodes and in nodes of kind.
var podsCgroups = []string{"kubepods.slice", "kubepods", "kubelet.slice/kubelet-kubepods.slice", "kubelet/kubepods"}

// hierarchy is the root of the cgroup2 hierarchy below a folder: that itself or, where the machine
// has cgroup v1, its folder unified. hybrid is true in that case.
func hierarchy(root string) (path string, hybrid bool, err error) {
	if isCgroup2(root) {
		return root, false, nil
	}
	if unified := filepath.Join(root, "unified"); isCgroup2(unified) {
		return unified, true, nil
	}
	return "", false, unavailable{NoCgroup2, fmt.Sprintf("neither %s nor %s/unified is a cgroup2 hierarchy; the container may lack the mount, or the machine has cgroup v1 alone", root, root)}
}

func isCgroup2(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// target is the cgroup whose processes a scope is about: it, and all below it.
func target(s Scope, root string) (string, error) {
	top, hybrid, err := hierarchy(root)
	if err != nil || s != Pods {
		return top, err
	}
	var idle string
	for _, name := range podsCgroups {
		path := filepath.Join(top, name)
		if events, err := os.ReadFile(filepath.Join(path, "cgroup.events")); err != nil {
			continue
		} else if strings.Contains(string(events), "populated 1") {
			return path, nil
		}
		if idle == "" {
			idle = path
		}
	}
	if idle != "" {
		return idle, nil
	}
	if hybrid {
		return "", unavailable{NoPodsCgroup, fmt.Sprintf("the machine has cgroup v1, and the kubelet no cgroup of pods in %s: with scope host or all it would work", top)}
	}
	return "", unavailable{NoPodsCgroup, fmt.Sprintf("there is none of %s in %s, as the kubelet makes it", strings.Join(podsCgroups, ", "), top)}
}

// identity tells a cgroup from another one that is made at its path later.
func identity(path string) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return 0, fmt.Errorf("looking at the cgroup %s: %w", path, err)
	}
	return s.Ino, nil
}

// namespaceCookie is that of the network namespace in which the agent is.
func namespaceCookie() (uint64, error) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("making a socket: %w", err)
	}
	defer func() { _ = unix.Close(s) }()
	cookie, err := unix.GetsockoptUint64(s, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return 0, unavailable{KernelTooOld, "scope host takes Linux 5.14, which tells connections of the node's network namespace from those of pods"}
	}
	return cookie, err
}
