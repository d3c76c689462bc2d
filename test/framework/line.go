package framework

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Line lies between a client and a server, for tests to stretch and cut. All bytes are late alike,
// so a test can hit the moment between two requests. Its methods may be called concurrently.
type Line struct {
	listener    net.Listener
	target      string
	there, back time.Duration

	mu    sync.Mutex
	conns []net.Conn
}

// Stretch leads to the server of a URL until Close: requests are late by there, answers by back.
func Stretch(url string, there, back time.Duration) (*Line, error) {
	listener, err := net.Listen("tcp4", loopback+":0")
	if err != nil {
		return nil, fmt.Errorf("laying a line to %s: %w", url, err)
	}
	_, target, _ := strings.Cut(url, "://")
	l := &Line{listener: listener, target: target, there: there, back: back}
	go l.serve()
	return l, nil
}

// URL is where the client is sent to.
func (l *Line) URL() string { return "http://" + l.listener.Addr().String() }

// Cut ends all connections; what is on its way does not arrive. New ones are let through.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// Close cuts the line for good.
func (l *Line) Close() {
	_ = l.listener.Close()
	l.Cut()
}

func (l *Line) serve() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp4", l.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, client, server)
		l.mu.Unlock()
		go forward(client, server, l.there)
		go forward(server, client, l.back)
	}
}

// forward copies until either side ends. Pieces wait independently: a delay limits no throughput.
func forward(from, to net.Conn, delay time.Duration) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 32<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- piece{buffer[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		_ = from.Close()
		_ = to.Close()
		for range pieces { // the reader must not be left waiting
			continue
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.bytes); err != nil {
			return
		}
	}
}
