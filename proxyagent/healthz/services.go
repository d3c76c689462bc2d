package healthz

import (
	"io"
	"log"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// listenAgainEvery is the period at which ports that could not be bound are tried again.
const listenAgainEvery = 30 * time.Second

// ServicesOptions are the options of Services.
type ServicesOptions struct {
	// Healthy says whether the agent itself is well; nil: always.
	Healthy func() bool
	// Failed hears of a port that cannot be bound, once until it works or the Service changes its port. It may be nil. It is called by
	// Set and by a goroutine of Services, and may call methods of Services.
	Failed func(model.ServiceName, uint16, error)
	// Addresses are what to listen on; empty: all addresses of both families.
	Addresses []netip.Addr
	// Clock is the real one when nil.
	Clock clock.WithTicker
}

// Services answers on the healthCheckNodePort of each Service, on any path: 200 when the Service has a local endpoint and the agent
// is healthy, otherwise 503. Its methods may be called by several goroutines. Set costs as much as one port, however many there are.
type Services struct {
	o ServicesOptions

	mu sync.Mutex
	// checks are the Services that have a port; closed once nil.
	checks map[model.ServiceName]*check
	stop   chan struct{}
	done   chan struct{}
}

// failure is a port that could not be bound, to be reported once nothing is locked.
type failure struct {
	name model.ServiceName
	port uint16
	err  error
}

// NewServices returns Services without any. Close ends it.
func NewServices(o ServicesOptions) *Services {
	if o.Healthy == nil {
		o.Healthy = func() bool { return true }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s := &Services{o: o, checks: map[model.ServiceName]*check{}, stop: make(chan struct{}), done: make(chan struct{})}
	go s.tryAgain(o.Clock.NewTicker(listenAgainEvery))
	return s
}

// Set sets the health check port of a Service, and how many ready local endpoints it has. Port 0 stops answering for it. Answers change
// at once; a port that cannot be bound, or is still another Service's, is tried again at each Set for the Service, when any other port
// becomes free, and every 30 s. After Close it does nothing.
func (s *Services) Set(n model.ServiceName, port uint16, localEndpoints int) {
	s.report(s.set(n, port, localEndpoints))
}

func (s *Services) set(n model.ServiceName, port uint16, localEndpoints int) []failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checks == nil {
		return nil
	}
	freed := s.drop(n, port)
	if port != 0 {
		if s.checks[n] == nil {
			s.checks[n] = newCheck(n, port, s.o.Healthy)
		}
		s.checks[n].endpoints.Store(int64(localEndpoints))
	}
	if freed {
		return s.listenAll()
	}
	return s.listen(n)
}

// drop closes the check of a Service unless it is on the port already, and reports whether that made a port free.
func (s *Services) drop(n model.ServiceName, port uint16) bool {
	c := s.checks[n]
	if c == nil || c.port == port {
		return false
	}
	c.close()
	delete(s.checks, n)
	return true
}

func (s *Services) listenAll() (failed []failure) {
	for n := range s.checks {
		failed = append(failed, s.listen(n)...)
	}
	return failed
}

// listen opens the port of a Service if it has one that is not open, and returns the failure unless it is known.
func (s *Services) listen(n model.ServiceName) []failure {
	c := s.checks[n]
	if c == nil || c.open() {
		return nil
	}
	err := c.listen(s.o.Addresses)
	known := c.failed
	c.failed = err != nil
	if err == nil || known {
		return nil
	}
	return []failure{{n, c.port, err}}
}

func (s *Services) report(failed []failure) {
	if s.o.Failed == nil {
		return
	}
	for _, f := range failed {
		s.o.Failed(f.name, f.port, f.err)
	}
}

func (s *Services) tryAgain(t clock.Ticker) {
	defer close(s.done)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C():
			s.report(s.lockedListenAll())
		}
	}
}

func (s *Services) lockedListenAll() []failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listenAll()
}

// Close stops answering, for good. When it returns, every port is free and no goroutine is left. It may be called again, but not by
// ServicesOptions.Failed.
func (s *Services) Close() {
	s.mu.Lock()
	closed := s.checks == nil
	for _, c := range s.checks {
		c.close()
	}
	s.checks = nil
	s.mu.Unlock()
	if !closed {
		close(s.stop)
	}
	<-s.done
}

// newHTTPServer returns a server whose clients can neither dawdle nor send much: probes are short, and these ports are open to
// whoever reaches the node.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
}
