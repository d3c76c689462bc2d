package framework

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// loopback is the only address on which anything of this package listens.
const loopback = "127.0.0.1"

// FreePort returns a port of 127.0.0.1 without a listener at this moment. Another program may take
// it before its user: a caller that starts a server on it must be ready to ask for another one.
func FreePort() (int, error) {
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// Ports come from below those that Linux gives to any asker, and below node ports: another program
// does not get one by chance while its process restarts. They stay with this process until it ends.
const firstPort, lastPort = 21000, 29999

// freePorts returns n different ports. All are held until the last is found.
func freePorts(n int) (ports []int, err error) {
	for range n {
		listener, err := listenAnywhere()
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// claimed are this process's locked port files: collected as garbage, they would be unlocked.
var claimed sync.Map

// claim keeps a port until this process ends, from other processes of this framework: one could
// pick the port of a program that is down for a moment, while its clients wait there.
func claim(port int) bool {
	folder := filepath.Join(os.TempDir(), "clusterip-operator-ports")
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // there are only names in it
		return false
	}
	f, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = f.Close()
		return false
	}
	claimed.Store(port, f)
	return true
}

// listenAnywhere tries random ports, so that packages tested at once do not try the same ones.
func listenAnywhere() (listener net.Listener, err error) {
	const attempts = 100
	for range attempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if listener, err = net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(port))); err != nil {
			continue
		}
		if claim(port) {
			return listener, nil
		}
		_ = listener.Close()
		err = fmt.Errorf("another test has port %d", port)
	}
	return nil, err
}
