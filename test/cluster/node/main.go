// Node is a Kubernetes node without a machine: containerd and kubelet in mount, pid, ipc, uts and
// cgroup namespaces of their own, in a network namespace that is given.
//
//	node -name NAME -dir FOLDER [-network FILE]
//
// FOLDER has containerd.toml, kubelet.yaml and kubeconfig, and keeps what outlives the node:
// images, pods, logs. NAME is the host name; programs are found in PATH; NODE_IPS has the node's
// addresses, with a comma. The node ends with this process, and when containerd or kubelet ends.
//
// main.go is the outside, inside.go process 1 of the node, cgroups.go and mounts.go what it finds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// options are the same outside and inside.
type options struct {
	name, dir, network string
	inside             bool
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "", "host name of the node")
	flag.StringVar(&o.dir, "dir", "", "folder of the node")
	flag.StringVar(&o.network, "network", "", "file of a network namespace; empty for that of the caller")
	flag.BoolVar(&o.inside, "inside", false, "for the program itself: it is process 1 of the node")
	flag.Parse()
	run := outside
	if o.inside {
		run = inside
	}
	if err := run(o); err != nil {
		fmt.Fprintf(os.Stderr, "node %s: %v\n", o.name, err)
		os.Exit(1)
	}
}

// outside starts process 1 of the node, writes its id outside to the file pid, and waits for it.
func outside(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	groups, err := joinGroups(filepath.Base(filepath.Dir(o.dir)) + "-" + o.name)
	if err != nil {
		return err
	}
	// It is killed at the end of ctx, and with it all that is in its pid namespace.
	one := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"-inside"}, os.Args[1:]...)...)
	one.Stdout, one.Stderr = os.Stdout, os.Stderr
	one.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP, Pdeathsig: syscall.SIGKILL,
	}
	// The child has the network of the thread that starts it, and dies with that thread.
	runtime.LockOSThread()
	if o.network != "" {
		if err := enterNetwork(o.network); err != nil {
			return err
		}
	}
	if err := one.Start(); err != nil {
		return fmt.Errorf("starting process 1: %w", err)
	}
	file := filepath.Join(o.dir, "pid")
	err = errors.Join(os.WriteFile(file, []byte(strconv.Itoa(one.Process.Pid)), 0o644), groups.leave())
	if err == nil {
		err = one.Wait()
	}
	if ctx.Err() != nil {
		err = nil // asked to end
	}
	return errors.Join(err, os.Remove(file), groups.remove())
}

func enterNetwork(file string) error {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(unix.Setns(fd, unix.CLONE_NEWNET), unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("entering the network namespace %s: %w", file, err)
	}
	return nil
}
