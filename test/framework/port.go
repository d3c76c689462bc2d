package framework

import (
	"fmt"
	"net"
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

// freePorts returns n different ports. All are held until the last is found, for the system may give the same one again as
// soon as it is free.
func freePorts(n int) (ports []int, err error) {
	for range n {
		listener, err := net.Listen("tcp4", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
