package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// sysctls are what a kubelet sets, and what the whole machine would have. Files lie over them.
var sysctls = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// mount is one call of mount(2).
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (m mount) do() error {
	if m.target != "/" {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mounting %s: %w", m.target, err)
	}
	return nil
}

// prepareMounts gives the node a machine's own /proc, /sys, cgroups, /etc, /run, /var/lib and
// /var/log. The machine sees none of it; mounts of the node reach its pods.
func prepareMounts(dir string) error {
	all := []mount{
		{"", "/", "", unix.MS_PRIVATE | unix.MS_REC, ""},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""}, // that of the node's network
	}
	cgroups, err := cgroupMounts()
	if err != nil {
		return err
	}
	all = append(all, cgroups...)
	for _, kept := range []string{"/var/lib", "/var/log"} {
		own := filepath.Join(dir, strings.ReplaceAll(kept[1:], "/", "-"))
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		all = append(all, mount{own, kept, "", unix.MS_BIND, ""})
	}
	etc, err := etc(dir)
	if err != nil {
		return err
	}
	all = append(all, etc, mount{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"})
	for _, m := range all {
		if err := m.do(); err != nil {
			return err
		}
	}
	if err := coverSysctls(filepath.Join(dir, "sysctls")); err != nil {
		return err
	}
	for _, path := range []string{"/run/lock", "/run/netns", "/var/lib/kubelet", "/var/lib/containerd"} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	}
	return mount{"", "/", "", unix.MS_SHARED | unix.MS_REC, ""}.do()
}

// etc is that of the machine, with what the node has in its folder etc over it.
func etc(dir string) (mount, error) {
	own, work := filepath.Join(dir, "etc"), filepath.Join(dir, "etc-work")
	err := errors.Join(os.MkdirAll(own, 0o755), os.MkdirAll(work, 0o755))
	return mount{"overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir=" + own + ",workdir=" + work}, err
}

func cgroupMounts() ([]mount, error) {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	known, err := hierarchies()
	if err != nil || known[0].unified() {
		return []mount{{"cgroup2", top, "cgroup2", flags, ""}}, err
	}
	all := []mount{{"tmpfs", top, "tmpfs", flags, "mode=755"}}
	for _, h := range known {
		data := h.controllers
		if strings.HasPrefix(data, "name=") {
			data = "none," + data
		}
		kind := "cgroup"
		if h.hybrid {
			kind = "cgroup2"
		}
		all = append(all, mount{kind, h.folder(), kind, flags, data})
	}
	return all, nil
}

func coverSysctls(dir string) error {
	for name, value := range sysctls {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("covering the sysctl %s: %w", name, err)
		}
	}
	return nil
}
