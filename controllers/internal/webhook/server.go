package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Options say where webhooks are served, and with which certificate.
type Options struct {
	// BindAddress to listen on, HOST:PORT or :PORT, with a number for a port.
	BindAddress string
	// CertDir holds tls.crt and tls.key, which somebody else renews. Empty: a certificate of our own, kept in the Secret.
	CertDir string
	// Namespace and Service say how the API server finds us; the Secret lies in the same namespace.
	Namespace, Service string
	// DNSNames are further names in a certificate of our own.
	DNSNames []string
	// Configuration is the name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration.
	Configuration string
}

// Certificates hand out the certificate that is served.
type Certificates interface {
	// GetCertificate returns an error while there is none. The hello may be nil.
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
}

// NewCertificates returns the certificates of the options, which mgr keeps up to date from its start.
func NewCertificates(mgr manager.Manager, o Options) (Certificates, error) {
	if o.CertDir == "" {
		return newKeeper(mgr, o)
	}
	f := &files{dir: o.CertDir}
	return f, mgr.Add(f)
}

// SetupWithManager serves endpoints by their paths from the start of mgr, on every replica, and makes readiness depend on it. It may be
// called once.
func SetupWithManager(mgr manager.Manager, o Options, certificates Certificates, endpoints map[string]Endpoint) error {
	host, text, err := net.SplitHostPort(o.BindAddress)
	port, badPort := strconv.Atoi(text)
	if err := errors.Join(err, badPort); err != nil {
		return fmt.Errorf("the address of the webhooks: %w", err)
	}
	server := webhook.NewServer(webhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
		// Without HTTP/2 an API server opens several connections, which spread over the replicas.
		c.NextProtos = []string{"http/1.1"}
		c.GetCertificate = certificates.GetCertificate
	}}})
	for path, endpoint := range endpoints {
		server.Register(path, endpoint)
	}
	ready := func(req *http.Request) error {
		certificate, err := certificates.GetCertificate(nil)
		if err != nil {
			return err
		}
		if end := certificate.Leaf.NotAfter; time.Now().After(end) {
			return fmt.Errorf("the certificate has expired at %s", end.UTC().Format(time.RFC3339))
		}
		return server.StartedChecker()(req)
	}
	return errors.Join(mgr.Add(server), mgr.AddReadyzCheck("webhook", ready))
}

// files is a certificate that somebody else mounts and renews. The files may come later than we do.
type files struct {
	dir     string
	watcher atomic.Pointer[certwatcher.CertWatcher]
	problem atomic.Pointer[error]
}

// NeedLeaderElection is false: every replica serves.
func (f *files) NeedLeaderElection() bool { return false }

// Start waits for the files, and follows them until ctx ends.
func (f *files) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		watcher, err := certwatcher.New(filepath.Join(f.dir, certKey), filepath.Join(f.dir, keyKey))
		if err != nil {
			f.problem.Store(&err)
			return
		}
		f.watcher.Store(watcher)
		_ = watcher.Start(ctx) // one that ends is replaced
	}, time.Second)
	return nil
}

// GetCertificate returns what was read last.
func (f *files) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if watcher := f.watcher.Load(); watcher != nil {
		return watcher.GetCertificate(hello)
	}
	if problem := f.problem.Load(); problem != nil {
		return nil, fmt.Errorf("there is no certificate yet: %w", *problem)
	}
	return nil, errors.New("there is no certificate yet")
}
