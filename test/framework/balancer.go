package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// probeInterval is how often a balancer asks its backends whether they are ready, as a kubelet and the watchers of
	// EndpointSlices do together, only faster.
	probeInterval = 100 * time.Millisecond
	// probeTimeout is how long a backend may take to answer. One that is frozen is not ready.
	probeTimeout = time.Second
	// idleAfter is how long nobody says anything on a connection that is idle.
	idleAfter = 20 * time.Millisecond
)

// Backend is where a [Balancer] leads.
type Backend struct {
	// Address is "127.0.0.1:port".
	Address string
	// Ready returns nil when the backend may be given new connections.
	Ready func(context.Context) error
}

// Trouble is what a [Balancer] does to connections, new ones and those that exist. The zero Trouble is none.
type Trouble struct {
	// Refuse resets every new connection, as if nobody listened.
	Refuse bool
	// SlowRequests holds back what clients send for this long, SlowReplies what backends send. What is held back
	// arrives in the end, also when nobody waits for it any more.
	SlowRequests, SlowReplies time.Duration
}

// Balancer is what a Service is between an API server and the replicas of a webhook: a port of loopback whose connections go to the
// backends that are ready, one after the other. A connection stays where it is, also when its backend is not ready any more.
// Its methods may be called concurrently.
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
type link struct {
	client, backend net.Conn
	busy            atomic.Bool  // the client was the last to be heard
	heard           atomic.Int64 // when somebody was, in nanoseconds since 1970
}

// hear notes who says something.
func (l *link) hear(client bool) {
	l.busy.Store(client)
	l.heard.Store(time.Now().UnixNano())
}

// idle reports whether no answer is awaited. The backend's last words of a handshake may come after the first request, hence the pause.
func (l *link) idle() bool {
	return !l.busy.Load() && time.Since(time.Unix(0, l.heard.Load())) > idleAfter
}

// StartBalancer starts a balancer without backends, which refuses everything. It ends with the control plane.
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

// CloseIdle closes the connections on which no client waits for an answer, and returns how many there were. Clients that keep
// connections open for later come back on new ones, which all backends get their share of.
func (b *Balancer) CloseIdle() (closed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for link := range b.open {
		if link.idle() {
			link.close()
			closed++
		}
	}
	return closed
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
	l.hear(true)
	defer l.close()
	if l.backend == nil || !b.register(l) {
		l.reset()
		return
	}
	defer b.forget(l)
	var both sync.WaitGroup
	both.Go(func() { b.carry(l, true) })
	both.Go(func() { b.carry(l, false) })
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

// carry hands on what the client says, or the backend, late if that is the trouble, and tells the other when there is no more.
func (b *Balancer) carry(l *link, client bool) {
	from, to := l.backend, l.client
	if client {
		from, to = l.client, l.backend
	}
	defer func() { _ = to.(*net.TCPConn).CloseWrite() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := b.hand(l, client, to, buffer[:n]); err != nil {
				_ = from.Close() // nobody is there to read it
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = to.Close()
			}
			return
		}
	}
}

// hand hands on one piece. A client waits from when it has spoken until it has its answer.
func (b *Balancer) hand(l *link, client bool, to io.Writer, piece []byte) error {
	trouble := b.current()
	if client {
		l.hear(true)
		b.pause(trouble.SlowRequests)
	} else {
		b.pause(trouble.SlowReplies)
	}
	_, err := to.Write(piece)
	if !client {
		l.hear(false)
	}
	return err
}

func (b *Balancer) current() Trouble {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trouble
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
		ready := isReady(asked.Ready)
		b.mu.Lock()
		asked.ready = ready
		b.mu.Unlock()
		select {
		case <-life.Done():
			return
		case <-time.After(probeInterval):
		}
	}
}

func isReady(ask func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	return ask(ctx) == nil
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
