package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Kernel is where the settings are. The zero value is the running kernel, in the network namespace of the process.
type Kernel struct {
	// SysRoot is the directory of the settings, /proc/sys when empty.
	SysRoot string
}

// Apply sets what differs from the targets and returns what it wrote, also together with an error. The error joins one for every setting
// that could not be read or written.
func (k Kernel) Apply(targets []Target) ([]Write, error) {
	current, err := k.read(targets)
	var written []Write
	for _, w := range Decide(current, targets) {
		if werr := k.write(w); werr != nil {
			err = errors.Join(err, werr)
			continue
		}
		written = append(written, w)
	}
	return written, err
}

// BeLiberal reports whether the kernel takes packets outside of the TCP window as valid, whoever set that. An agent drops no
// invalid packets then. Without connection tracking it is false.
func (k Kernel) BeLiberal() (bool, error) {
	n, err := k.get(TCPBeLiberal)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return n != 0, err
}

func (k Kernel) read(targets []Target) (current map[Key]int, err error) {
	current = map[Key]int{}
	for _, t := range targets {
		n, rerr := k.get(t.Key)
		if rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		current[t.Key] = n
	}
	return current, err
}

func (k Kernel) get(key Key) (int, error) {
	text, err := os.ReadFile(k.path(key))
	if err != nil {
		return 0, fmt.Errorf("reading the kernel setting %s: %w%s", key, err, remedy(key, err))
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("reading the kernel setting %s: %w", key, err)
	}
	return n, nil
}

// write opens without creating: in a directory that stands in for the kernel, as in the kernel, a setting is there or is not.
func (k Kernel) write(w Write) error {
	f, err := os.OpenFile(k.path(w.Key), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(w.After))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("setting %s from %d to %d: %w%s", w.Key, w.Before, w.After, err, remedy(w.Key, err))
	}
	return nil
}

func (k Kernel) path(key Key) string {
	root := k.SysRoot
	if root == "" {
		root = "/proc/sys"
	}
	return filepath.Join(root, filepath.FromSlash(string(key)))
}

// remedy returns what an admin can do about an error, as the end of its message.
func remedy(key Key, err error) string {
	leave := "or leave it alone by setting " + fieldOf(key) + " in the configuration"
	switch {
	case errors.Is(err, fs.ErrNotExist) && key != RouteLocalnet:
		return " (the kernel module nf_conntrack is not loaded: load it on the host, " + leave + ")"
	case errors.Is(err, syscall.EROFS):
		return " (mount it writable or set it on the host, " + leave + ")"
	case errors.Is(err, fs.ErrPermission):
		return " (only root of the host's own network namespace may: set it there, " + leave + ")"
	default:
		return ""
	}
}

// fieldOf names the field of the configuration, and the value of it, that leaves a setting alone.
func fieldOf(key Key) string {
	switch key {
	case ConntrackMax, ConntrackBuckets:
		return "conntrack.maxPerCore to 0"
	case TCPEstablishedTimeout:
		return "conntrack.tcpEstablishedTimeout to 0s"
	case TCPCloseWaitTimeout:
		return "conntrack.tcpCloseWaitTimeout to 0s"
	case TCPBeLiberal:
		return "conntrack.tcpBeLiberal to false"
	case UDPTimeout:
		return "conntrack.udpTimeout to 0s"
	case UDPStreamTimeout:
		return "conntrack.udpStreamTimeout to 0s"
	case RouteLocalnet:
		return "localhostNodePorts to false"
	default:
		return "what asks for it"
	}
}
