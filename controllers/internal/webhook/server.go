package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Certificates are those that the webhooks are served with.
type Certificates interface {
	// GetCertificate returns an error while there is none. The hello may be nil.
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
}

// source hands out the certificate of the moment. Started, it keeps up with whoever renews it, and ends only with its context.
type source interface {
	manager.Runnable
	// GetCertificate returns an error while there is none. The hello may be nil.
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
}

// SetupWithManager serves handlers by their paths from the start of mgr, on every replica, and makes readiness depend on it. It may be
// called once. Handlers are called as soon as there is a certificate, which may be before caches are synchronised.
func SetupWithManager(mgr manager.Manager, o Options, handlers map[string]http.Handler) (Certificates, error) {
	certificates, err := o.source(mgr)
	if err != nil {
		return nil, err
	}
	server, err := o.server(certificates)
	if err != nil {
		return nil, err
	}
	for path, handler := range handlers {
		server.Register(path, handler)
	}
	return certificates, errors.Join(mgr.Add(certificates), mgr.Add(server), mgr.AddReadyzCheck("webhook", ready(server, certificates)))
}

func (o Options) source(mgr manager.Manager) (source, error) {
	if o.CertDir != "" {
		return &files{dir: o.CertDir, log: mgr.GetLogger().WithName("webhook")}, nil
	}
	return newKept(mgr, o)
}

func (o Options) server(certificates source) (webhook.Server, error) {
	host, port, err := o.hostAndPort()
	if err != nil {
		return nil, err
	}
	secure := func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
		// Without HTTP/2 an API server opens several connections, which spread over the replicas.
		c.NextProtos = []string{"http/1.1"}
		c.GetCertificate = certificates.GetCertificate
	}
	return webhook.NewServer(webhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){secure}}), nil
}

// ready is true when a client that trusts us would be served.
func ready(server webhook.Server, certificates source) healthz.Checker {
	listens := server.StartedChecker()
	return func(req *http.Request) error {
		certificate, err := certificates.GetCertificate(nil)
		if err != nil {
			return err
		}
		if leaf := certificate.Leaf; leaf != nil && time.Now().After(leaf.NotAfter) {
			return fmt.Errorf("the certificate has expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		return listens(req)
	}
}
