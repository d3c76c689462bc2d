package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// probeInterval is how often a balancer asks its backends whether they are ready, as kubelet and
	// the watchers of EndpointSlices together do, only faster.
	probeInterval = 100 * time.Millisecond
	// probeTimeout is how long a backend may take to answer. One that is frozen is not ready.
	probeTimeout = time.Second
)

// Backend is where a [Balancer] leads.
type Backend struct {
	// Address is "127.0.0.1:port".
	Address string
	// Ready returns nil when the backend may be given new connections.
	Ready func(context.Context) error
}

// Trouble is what a [Balancer] does to all connections. The zero Trouble is none.
type Trouble struct {
	// Refuse resets every new connection, as if no backend listened.
	Refuse bool
	// SlowRequests delays what clients send, SlowReplies what backends send. What is held back arrives
	// in the end, also when its receiver does not wait for it any more.
	SlowRequests, SlowReplies time.Duration
}

// Balancer is what a Service is between an API server and a webhook's replicas: a loopback port
// whose connections go to the ready backends in turn. A connection stays with its backend, also
// when that is not ready any more. Its methods may be called concurrently.
type Balancer struct {
	listener net.Listener
	life     context.Context // until Stop
	end      context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	backends []*backend
	turn     int // of the backend that got the last connection
	trouble  Trouble
	open     map[*link]struct{}
}

type backend struct {
	Backend
	ready bool
	end   context.CancelFunc
}

// link is a connection of a client with the one to its backend.
type link struct{ client, backend net.Conn }

// StartBalancer starts a balancer without backends, which refuses all. The control plane ends it.
func (c *ControlPlane) StartBalancer() (*Balancer, error) {
	b, err := newBalancer()
	if err != nil {
		return nil, err
	}
	c.add(b)
	return b, nil
}

func newBalancer() (*Balancer, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("starting a balancer: %w", err)
	}
	b := &Balancer{listener: listener, open: map[*link]struct{}{}}
	b.life, b.end = context.WithCancel(context.Background())
	b.running.Go(b.accept)
	return b, nil
}

// Stretch leads to the server of a URL until Stop. Requests are late by there, answers by back, and
// all bytes alike, so that a test can hit the moment between two requests.
func Stretch(url string, there, back time.Duration) (*Balancer, error) {
	b, err := newBalancer()
	if err != nil {
		return nil, err
	}
	_, target, _ := strings.Cut(url, "://")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = []*backend{{Backend: Backend{Address: target}, ready: true}}
	b.trouble = Trouble{SlowRequests: there, SlowReplies: back}
	return b, nil
}

// URL is where clients are sent to, without TLS.
func (b *Balancer) URL() string { return "http://" + b.listener.Addr().String() }

// Port returns the port on which clients connect.
func (b *Balancer) Port() int { return b.listener.Addr().(*net.TCPAddr).Port }

// Add adds a backend. It gets connections as soon as it is ready.
func (b *Balancer) Add(to Backend) {
	life, end := context.WithCancel(b.life)
	added := &backend{Backend: to, end: end}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = append(b.backends, added)
	b.running.Go(func() { b.probe(life, added) })
}

// Remove takes a backend away. Its connections stay.
func (b *Balancer) Remove(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = slices.DeleteFunc(b.backends, func(other *backend) bool {
		if other.Address != address {
			return false
		}
		other.end()
		return true
	})
}

// Ready returns the addresses of the backends that get connections.
func (b *Balancer) Ready() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ready []string
	for _, backend := range b.backends {
		if backend.ready {
			ready = append(ready, backend.Address)
		}
	}
	return ready
}

// Inflict replaces the trouble. Inflict(Trouble{}) ends it, but for what is held back already.
func (b *Balancer) Inflict(trouble Trouble) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trouble = trouble
}

// Cut resets all connections, and returns how many there were.
func (b *Balancer) Cut() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for link := range b.open {
		link.reset()
	}
	return len(b.open)
}

// Stop ends the balancer with all connections. A second Stop does nothing.
func (b *Balancer) Stop() error {
	b.end()
	err := b.listener.Close()
	b.Cut()
	b.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (b *Balancer) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return // stopped
		}
		b.running.Go(func() { b.serve(client.(*net.TCPConn)) })
	}
}

// serve connects a client to a backend until one of them ends the connection.
func (b *Balancer) serve(client *net.TCPConn) {
	l := &link{client: client, backend: b.dial()}
	defer l.close()
	if l.backend == nil || !b.register(l) {
		l.reset()
		return
	}
	defer b.forget(l)
	var both sync.WaitGroup
	both.Go(func() { b.carry(l.client, l.backend, func(t Trouble) time.Duration { return t.SlowRequests }) })
	both.Go(func() { b.carry(l.backend, l.client, func(t Trouble) time.Duration { return t.SlowReplies }) })
	both.Wait()
}

// dial connects to the backend whose turn it is; nil if there is none, or if it does not listen.
func (b *Balancer) dial() net.Conn {
	conn, err := net.DialTimeout("tcp4", b.next(), probeTimeout)
	if err != nil {
		return nil
	}
	return conn
}

// next returns the address of the backend whose turn it is, "" if there is none.
func (b *Balancer) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trouble.Refuse {
		return ""
	}
	for range b.backends {
		b.turn = (b.turn + 1) % len(b.backends)
		if chosen := b.backends[b.turn]; chosen.ready {
			return chosen.Address
		}
	}
	return ""
}

// register makes a connection known to Cut. It is refused when the balancer has stopped meanwhile.
func (b *Balancer) register(l *link) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.life.Err() != nil {
		return false
	}
	b.open[l] = struct{}{}
	return true
}

func (b *Balancer) forget(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, l)
}

// carry hands on what one side says, late if Trouble wants, and tells the other when that ends.
// Pieces wait independently: a delay limits no throughput.
func (b *Balancer) carry(from, to net.Conn, late func(Trouble) time.Duration) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	pieces := make(chan piece, 1024)
	var read error // known once pieces is closed
	go func() {
		defer close(pieces)
		for read == nil {
			var n int
			buffer := make([]byte, 32<<10)
			if n, read = from.Read(buffer); n > 0 {
				b.mu.Lock()
				trouble := b.trouble
				b.mu.Unlock()
				pieces <- piece{buffer[:n], time.Now().Add(late(trouble))}
			}
		}
	}()
	var written error
	for p := range pieces { // to the end: the reader must not be left waiting
		if written == nil {
			b.pause(time.Until(p.due))
			if _, written = to.Write(p.bytes); written != nil {
				_ = from.Close()
			}
		}
	}
	if written != nil || !errors.Is(read, io.EOF) {
		_, _ = from.Close(), to.Close()
		return
	}
	_ = to.(*net.TCPConn).CloseWrite()
}

// pause waits, at most until the balancer stops.
func (b *Balancer) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-b.life.Done():
	}
}

// probe asks a backend again and again whether it is ready.
func (b *Balancer) probe(life context.Context, asked *backend) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		err := asked.Ready(ctx)
		cancel()
		b.mu.Lock()
		asked.ready = err == nil
		b.mu.Unlock()
		select {
		case <-life.Done():
			return
		case <-time.After(probeInterval):
		}
	}
}

func (l *link) close() {
	_ = l.client.Close()
	if l.backend != nil {
		_ = l.backend.Close()
	}
}

// reset ends both connections at once, with RST.
func (l *link) reset() {
	for _, conn := range []net.Conn{l.client, l.backend} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
	l.close()
}
