package network

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// Forward lets programs in the namespace reach a TCP server of the machine outside, such as an API server on 127.0.0.1. It returns the
// address, of 127.0.0.1 inside, that leads to target until the Topology is closed. While nothing listens at target, connections are closed at
// once.
func (n *Namespace) Forward(target string) (address string, err error) {
	listener, err := n.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("forwarding to %s: %w", target, err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go pipe(conn, target)
		}
	}()
	return listener.Addr().String(), nil
}

// pipe carries bytes both ways until one side ends; then both do.
func pipe(inside net.Conn, target string) {
	defer func() { _ = inside.Close() }()
	outside, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	var once sync.WaitGroup
	once.Go(func() {
		_, _ = io.Copy(outside, inside)
		_, _ = outside.Close(), inside.Close()
	})
	_, _ = io.Copy(inside, outside)
	_, _ = outside.Close(), inside.Close()
	once.Wait()
}
