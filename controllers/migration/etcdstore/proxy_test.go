package etcdstore

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// proxy stands between a store and etcd and loses what it is told to lose, without closing a connection.
type proxy struct {
	listener net.Listener
	target   string
	// deaf loses what the store says, mute what etcd answers.
	deaf, mute atomic.Bool

	mu          sync.Mutex
	connections []net.Conn
}

// newProxy starts a proxy that ends with the calling node.
func newProxy(url string) *proxy {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &proxy{listener: listener, target: strings.TrimPrefix(url, "http://")}
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
	for _, c := range p.connections {
		_ = c.Close()
	}
	p.connections = nil
}

// Heal forwards everything again, on new connections: the old ones have lost part of what was said.
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
		p.mu.Lock()
		p.connections = append(p.connections, near, far)
		p.mu.Unlock()
		go forward(near, far, &p.deaf)
		go forward(far, near, &p.mute)
	}
}

func forward(from, to net.Conn, lose *atomic.Bool) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !lose.Load() {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
