package migration_test

import (
	"net"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// line lies between a command and a server, for the spec to stretch and to cut. Bytes from the server arrive late, all by the same
// delay, so that a moment between two requests becomes long enough to be hit.
type line struct {
	listener net.Listener
	target   string
	delay    time.Duration

	mu    sync.Mutex
	conns []net.Conn
}

// stretch leads to the server of a URL, until the calling node ends.
func stretch(url string, delay time.Duration) *line {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	_, target, _ := strings.Cut(url, "://")
	l := &line{listener: listener, target: target, delay: delay}
	go l.serve()
	DeferCleanup(func() {
		_ = listener.Close()
		l.cut()
	})
	return l
}

// url is where the command is sent to.
func (l *line) url() string { return "http://" + l.listener.Addr().String() }

// cut ends all connections; what is on its way does not arrive. New ones are let through.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

func (l *line) serve() {
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
		go forward(client, server, 0)
		go forward(server, client, l.delay)
	}
}

// forward copies until either side ends. Each piece waits on its own, so that a delay is no limit to what passes.
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
