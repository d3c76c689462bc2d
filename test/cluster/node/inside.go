package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// socket is where containerd serves.
const socket = "/run/containerd/containerd.sock"

// inside is process 1: it starts containerd and kubelet, and reaps what they leave.
func inside(o options) error {
	if err := prepareMounts(o.dir); err != nil {
		return err
	}
	if err := clearRoot(); err != nil {
		return fmt.Errorf("leaving the root of the cgroups: %w", err)
	}
	if err := unix.Sethostname([]byte(o.name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	runtime, err := start(o.dir, "containerd", "--config="+filepath.Join(o.dir, "containerd.toml"))
	if err != nil {
		return err
	}
	if err := await(); err != nil {
		return err
	}
	kubelet, err := start(o.dir, "kubelet", "--config="+filepath.Join(o.dir, "kubelet.yaml"), "--kubeconfig="+filepath.Join(o.dir, "kubeconfig"),
		"--hostname-override="+o.name, "--root-dir=/var/lib/kubelet", "--node-ip="+os.Getenv("NODE_IPS"))
	if err != nil {
		return err
	}
	return reap(map[int]string{runtime: "containerd", kubelet: "kubelet"})
}

// start starts a program that appends to its log in the node's folder, and returns its process id.
func start(dir, name string, args ...string) (int, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return 0, err
	}
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	process, err := os.StartProcess(path, append([]string{name}, args...), &os.ProcAttr{Files: []*os.File{nil, log, log}, Env: os.Environ()})
	if err := errors.Join(err, log.Close()); err != nil {
		return 0, fmt.Errorf("starting %s: %w", name, err)
	}
	return process.Pid, nil
}

// await waits until containerd accepts connections.
func await() (err error) {
	for range 600 {
		var conn net.Conn
		if conn, err = net.Dial("unix", socket); err == nil {
			return conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("waiting for containerd: %w", err)
}

// reap waits for all processes, orphans too, and returns when one of the needed ones has ended.
func reap(needed map[int]string) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for processes: %w", err)
		}
		if name := needed[pid]; name != "" {
			return fmt.Errorf("%s ended with status %d", name, status.ExitStatus())
		}
	}
}
