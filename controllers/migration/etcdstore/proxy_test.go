package etcdstore

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// proxy stands between a store and etcd, and loses what it is told to lose, on open connections.
type proxy struct {
	listener net.Listener
	target   string
	// deaf loses what the store says, mute what etcd answers.
	deaf, mute atomic.Bool

	mu          sync.Mutex
	connections map[net.Conn]bool
}

// newProxy starts a proxy that ends with the calling node.
func newProxy(url string) *proxy {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &proxy{listener: listener, target: url[strings.Index(url, "//")+2:], connections: map[net.Conn]bool{}}
	go p.serve()
	DeferCleanup(func() {
		_ = listener.Close()
		p.Cut()
	})
	return p
}

// URL returns where the store finds the proxy.
func (p *proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Cut closes all connections. New ones are welcome.
func (p *proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.connections {
		_ = c.Close()
	}
}

// Open returns how many connections, of both sides, are open.
func (p *proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.connections)
}

// Heal forwards everything again, on new connections: the old ones have lost part of the traffic.
func (p *proxy) Heal() {
	p.Cut()
	p.deaf.Store(false)
	p.mute.Store(false)
}

func (p *proxy) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp4", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.keep(near, far)
		go p.forward(near, far, &p.deaf)
		go p.forward(far, near, &p.mute)
	}
}

func (p *proxy) keep(connections ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		p.connections[c] = true
	}
}

func (p *proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.connections, c)
}

// forward copies one direction until one of the ends is closed, and closes both.
func (p *proxy) forward(from, to net.Conn, lose *atomic.Bool) {
	defer p.drop(from)
	defer p.drop(to)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if lose.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
