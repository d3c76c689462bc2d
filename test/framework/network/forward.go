package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
)

// Forward lets programs in the namespace reach a TCP server of the machine outside, such as an API
// server on 127.0.0.1. It returns the address, of 127.0.0.1 inside, that leads to target until the
// Topology is closed. While nothing listens at target, connections are closed at once.
func (n *Namespace) Forward(target string) (address string, err error) {
	listener, err := n.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("forwarding to %s: %w", target, err)
	}
	go Accept(listener, func(conn net.Conn) { pipe(conn, func() (net.Conn, error) { return net.Dial("tcp", target) }) })
	return listener.Addr().String(), nil
}

// Expose lets programs of the machine reach a TCP server in the namespace, until the Topology is
// closed. It returns an address of the machine, not loopback: an API server proxies to no such pod.
func (n *Namespace) Expose(target string) (netip.AddrPort, error) {
	address, err := MachineAddr()
	if err != nil {
		return netip.AddrPort{}, err
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("leading to %s: %w", target, err)
	}
	n.closeLater(listener.Close)
	go Accept(listener, func(conn net.Conn) {
		pipe(conn, func() (net.Conn, error) { return n.DialContext(context.Background(), "tcp", target) })
	})
	return addrPort(listener.Addr()), nil
}

// MachineAddr is an address of this machine that is not of loopback.
func MachineAddr() (netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			address, _ := netip.AddrFromSlice(n.IP)
			return address.Unmap(), nil
		}
	}
	return netip.Addr{}, errors.Join(errors.New("this machine has no address but those of loopback"), err)
}

// Accept serves each connection of a listener in a goroutine of its own, until that is closed.
func Accept(listener net.Listener, serve func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go serve(conn)
	}
}

// pipe carries bytes both ways until one side ends; then both do.
func pipe(inside net.Conn, dial func() (net.Conn, error)) {
	defer func() { _ = inside.Close() }()
	outside, err := dial()
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
