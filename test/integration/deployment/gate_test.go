package deployment_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// gate proxies an API server and can hold back the watch of one resource, as if events were slow.
type gate struct {
	*httptest.Server
	// passing is locked while the watch is held back.
	passing sync.RWMutex
}

// openGate returns a gate to an API server for a resource's watch. It closes with the calling node.
func openGate(config *rest.Config, resource string) *gate {
	GinkgoHelper()
	to, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config)) // the client's own credentials pass
	Expect(err).NotTo(HaveOccurred())
	g := &gate{}
	// client-go sends no credentials without TLS.
	g.Server = httptest.NewTLSServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			if strings.HasSuffix(r.Request.URL.Path, "/"+resource) && r.Request.URL.Query().Has("watch") {
				r.Body = gated{r.Body, g}
			}
			return nil
		},
	})
	DeferCleanup(g.Close)
	DeferCleanup(g.CloseClientConnections) // first, or Close waits for watches
	return g
}

// config returns the config of a client that goes through the gate.
func (g *gate) config(of *rest.Config) *rest.Config {
	config := rest.CopyConfig(of)
	config.Host, config.CAData = g.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
	return config
}

// held runs do while the watch tells nothing.
func (g *gate) held(do func()) {
	g.passing.Lock()
	defer g.passing.Unlock()
	do()
}

// gated is the body of a watch.
type gated struct {
	io.ReadCloser
	gate *gate
}

// Read reads, and lets what it has read wait at the gate.
func (b gated) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.gate.passing.RLock()
	defer b.gate.passing.RUnlock()
	return n, err
}
