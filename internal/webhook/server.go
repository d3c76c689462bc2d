package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Options say where webhooks are served, and with which certificate. The zero value serves none.
type Options struct {
	// BindAddress to listen on, HOST:PORT or :PORT, with a number for a port.
	BindAddress string
	// NetworkOverlap is what the webhook of ServiceCIDRs does about those that overlap other networks.
	NetworkOverlap string
	// CertDir holds tls.crt and tls.key, renewed by another program. Empty: our own, in the Secret.
	CertDir string
	// Namespace and Service say how the API server finds us; the Secret lies in the same namespace.
	Namespace, Service string
	// DNSNames are further names in a certificate of our own.
	DNSNames []string
	// Budget is a review's time, from first byte to answer; 0: [Budget]. Less than the API server has.
	Budget time.Duration
	// Configuration is the name of the mutating and of the validating webhook configuration.
	Configuration string
}

// Enabled reports whether webhooks are served.
func (o Options) Enabled() bool { return o.BindAddress != "" }

// Certificate returns the certificate in use, or an error without one. The hello may be nil.
type Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// NewCertificate returns the certificate of the options, which mgr keeps up to date from its start.
func NewCertificate(mgr manager.Manager, o Options) (Certificate, error) {
	if o.CertDir != "" {
		return files(o.CertDir), nil
	}
	r, err := newReconciler(mgr, o)
	if err != nil {
		return nil, err
	}
	return r.certificate, nil
}

// files returns the certificate in a folder that another program mounts and renews. The files may
// come later than we do, and are read for each connection, of which an API server keeps few. While
// they cannot be read, those that were read last are served.
func files(dir string) Certificate {
	var last atomic.Pointer[tls.Certificate]
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		read, err := tls.LoadX509KeyPair(filepath.Join(dir, certKey), filepath.Join(dir, keyKey))
		if err == nil {
			last.Store(&read)
		}
		if used := last.Load(); used != nil {
			return used, nil
		}
		return nil, fmt.Errorf("there is no certificate yet: %w", err)
	}
}

// SetupWithManager serves handlers by their paths from the start of mgr, on every replica, and
// makes readiness depend on it. It may be called once.
func SetupWithManager(mgr manager.Manager, o Options, certificate Certificate, handlers map[string]http.Handler) error {
	host, text, err := net.SplitHostPort(o.BindAddress)
	port, badPort := strconv.Atoi(text)
	if err := errors.Join(err, badPort); err != nil {
		return fmt.Errorf("the address of the webhooks: %w", err)
	}
	server := &server{Server: webhook.NewServer(webhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
		// Without HTTP/2 an API server opens several connections, which spread over the replicas.
		c.NextProtos = []string{"http/1.1"}
		c.GetCertificate = certificate
	}}})}
	for path, handler := range handlers {
		server.Register(path, handler)
	}
	ready := func(req *http.Request) error {
		served, err := certificate(nil)
		if err != nil {
			return err
		}
		if end := served.Leaf.NotAfter; time.Now().After(end) {
			return fmt.Errorf("the certificate has expired at %s", end.UTC().Format(time.RFC3339))
		}
		return server.StartedChecker()(req)
	}
	return errors.Join(mgr.Add(server), mgr.AddReadyzCheck("webhook", ready))
}
