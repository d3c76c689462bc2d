package healthz

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// listenAgainEvery is the period at which ports that could not be bound are tried again.
var listenAgainEvery = 30 * time.Second

// Services answers on the healthCheckNodePort of each Service, at all addresses, on any path: 200
// when the Service has a local endpoint and the agent is healthy, otherwise 503. Its methods may be
// called by several goroutines. Set costs as much as one port, however many there are.
type Services struct {
	healthy func() bool
	failed  func(model.ServiceName, uint16, error)

	mu sync.Mutex
	// checks are the Services that have a port; nil once Run has ended.
	checks map[model.ServiceName]*check
}

// NewServices returns Services without any. healthy says whether the agent is well. failed hears
// once of a port that cannot be bound, until it works or is changed; it must not call our methods.
func NewServices(healthy func() bool, failed func(model.ServiceName, uint16, error)) *Services {
	return &Services{healthy: healthy, failed: failed, checks: map[model.ServiceName]*check{}}
}

// Run tries again to listen where that failed, until ctx ends. Then it frees all ports, for good.
func (s *Services) Run(ctx context.Context) error {
	again := time.NewTicker(listenAgainEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			s.mu.Lock()
			s.listenAll()
			s.mu.Unlock()
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, c := range s.checks {
				c.close()
			}
			s.checks = nil
			return nil
		}
	}
}

// Set sets a Service's health check port and number of ready local endpoints; port 0 stops
// answering. Answers change at once. A port that cannot be bound, or is another Service's, is tried
// again at each Set for this Service, when any port gets free, and every 30 s. After Run it does
// nothing.
func (s *Services) Set(n model.ServiceName, port uint16, localEndpoints int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checks == nil {
		return
	}
	c := s.checks[n]
	freed := c != nil && c.port != port
	if freed {
		c.close()
		delete(s.checks, n)
	}
	if port != 0 {
		if c == nil || freed {
			c = &check{name: n, port: port, healthy: s.healthy}
			s.checks[n] = c
		}
		c.endpoints.Store(int64(localEndpoints))
		s.listen(c)
	}
	if freed {
		s.listenAll()
	}
}

func (s *Services) listenAll() {
	for _, c := range s.checks {
		s.listen(c)
	}
}

// listen opens the port of a check unless it is open, and reports the failure unless that is known.
func (s *Services) listen(c *check) {
	if c.listener != nil {
		return
	}
	err := c.listen()
	if err != nil && !c.failed {
		s.failed(c.name, c.port, err)
	}
	c.failed = err != nil
}

// check is the healthCheckNodePort of one Service. Answers read endpoints; mu guards all else.
type check struct {
	name      model.ServiceName
	port      uint16
	endpoints atomic.Int64
	healthy   func() bool
	// failed is true when the last attempt to listen failed.
	failed   bool
	listener net.Listener // nil while it is not open
	server   *http.Server
}

func (c *check) listen() error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("", strconv.Itoa(int(c.port))))
	if err != nil {
		return fmt.Errorf("listening on the health check port %d of the Service %s: %w", c.port, c.name, err)
	}
	server := newHTTPServer(c)
	c.listener, c.server = l, server
	go func() { _ = server.Serve(l) }() // until close
	return nil
}

// close frees the port. The server alone would not, if it has not begun to serve.
func (c *check) close() {
	if c.listener != nil {
		_, _ = c.listener.Close(), c.server.Close()
	}
}

// checkReport is the body of an answer, in the field names of kube-proxy.
type checkReport struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int64 `json:"localEndpoints"`
	ServiceProxyHealthy bool  `json:"serviceProxyHealthy"`
}

// ServeHTTP answers a load balancer.
func (c *check) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r := checkReport{LocalEndpoints: c.endpoints.Load(), ServiceProxyHealthy: c.healthy()}
	r.Service.Namespace, r.Service.Name = c.name.Namespace, c.name.Name
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(r.LocalEndpoints, 10))
	code := http.StatusServiceUnavailable
	if r.LocalEndpoints > 0 && r.ServiceProxyHealthy {
		code = http.StatusOK
	}
	writeJSON(w, code, r)
}
