package framework

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// loopback is the only address on which anything of this package listens.
const loopback = "127.0.0.1"

// FreePort returns a port of 127.0.0.1 on which nobody listens at this moment. Another program may take it
// before its user does: who starts a server on it must be ready to ask for another one.
func FreePort() (int, error) {
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// The ports that are given out lie below those that Linux gives to whoever asks for any, clients included, and below node ports: while a process is
// being started again, nobody else happens to get the one that its clients know.
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

// listenAnywhere tries ports at random: the processes of two packages that are tested at once are not to try the same ones.
func listenAnywhere() (listener net.Listener, err error) {
	const attempts = 100
	for range attempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if listener, err = net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(port))); err == nil {
			return listener, nil
		}
	}
	return nil, err
}
