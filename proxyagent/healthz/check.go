package healthz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// check is the healthCheckNodePort of one Service. Its answers read endpoints; all else is guarded by the lock of Services.
type check struct {
	name      model.ServiceName
	port      uint16
	endpoints atomic.Int64
	healthy   func() bool
	// failed is true when the last attempt to listen failed.
	failed  bool
	server  *http.Server
	serving sync.WaitGroup
	// broken is true when the kernel took the port away.
	broken atomic.Bool
}

func newCheck(n model.ServiceName, port uint16, healthy func() bool) *check {
	return &check{name: n, port: port, healthy: healthy}
}

func (c *check) open() bool { return c.server != nil && !c.broken.Load() }

// listen opens the port at all of the addresses or at none.
func (c *check) listen(addrs []netip.Addr) error {
	c.close()
	listeners, err := listenAt(addrs, c.port)
	if err != nil {
		return fmt.Errorf("listening on the health check port %d of the Service %s: %w", c.port, c.name, err)
	}
	server := newHTTPServer(c)
	c.server = server
	for _, l := range listeners {
		c.serving.Go(func() { c.serve(server, l) })
	}
	return nil
}

// serve returns when the server is closed, or when it can accept no more.
func (c *check) serve(server *http.Server, l net.Listener) {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		c.broken.Store(true)
	}
}

func listenAt(addrs []netip.Addr, port uint16) (listeners []net.Listener, err error) {
	hosts := []string{""} // all addresses of both families
	if len(addrs) > 0 {
		hosts = nil
	}
	for _, a := range addrs {
		hosts = append(hosts, a.String())
	}
	for _, h := range hosts {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(h, strconv.Itoa(int(port))))
		if err != nil {
			return nil, errors.Join(err, closeListeners(listeners))
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

func closeListeners(listeners []net.Listener) (err error) {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// close returns when the port is free.
func (c *check) close() {
	if c.server == nil {
		return
	}
	_ = c.server.Close() // the sockets are gone whatever it says
	c.serving.Wait()
	c.server = nil
	c.broken.Store(false)
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
	setHeaders(w)
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(r.LocalEndpoints, 10))
	if r.LocalEndpoints > 0 && r.ServiceProxyHealthy {
		w.WriteHeader(http.StatusOK)
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(r) // a client that went away is not an error
}
