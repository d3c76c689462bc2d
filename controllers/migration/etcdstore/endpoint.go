package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// openTimeout is how long Open waits for the first endpoint to answer.
const openTimeout = 10 * time.Second

// validateEndpoints joins what is wrong with the endpoints. The client would take the scheme of the first one for all.
func validateEndpoints(endpoints []string) error {
	if len(endpoints) == 0 {
		return errors.New("no etcd is named: give --etcd-servers what kube-apiserver is started with, https://127.0.0.1:2379 for example")
	}
	var complaints []error
	schemes := map[string]bool{}
	for _, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.Port() == "" {
			complaints = append(complaints, fmt.Errorf("the etcd endpoint %q (--etcd-servers) is not of the form https://HOST:PORT", endpoint))
			continue
		}
		schemes[u.Scheme] = true
	}
	if len(schemes) > 1 {
		complaints = append(complaints, fmt.Errorf("the etcd endpoints %s (--etcd-servers) mix http and https: say one for all",
			strings.Join(endpoints, ",")))
	}
	return errors.Join(complaints...)
}

// knock waits until one of the endpoints answers. A cluster with a member down is a cluster.
func (s *Store) knock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	endpoints := s.client.Endpoints()
	answers := make(chan error, len(endpoints))
	for _, endpoint := range endpoints {
		go func() { answers <- s.knockAt(ctx, endpoint) }()
	}
	var refusals []error
	for range endpoints {
		err := <-answers
		if err == nil {
			return nil
		}
		refusals = append(refusals, err)
	}
	return errors.Join(refusals...)
}

// knockAt asks one endpoint until it answers. What is a matter of certificates does not get better by asking again.
func (s *Store) knockAt(ctx context.Context, endpoint string) error {
	var last error
	err := insist(ctx, s.patience, func(ctx context.Context) error {
		_, err := s.client.Status(ctx, endpoint)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		if advice(err) != "" {
			return &hopeless{err}
		}
		return err
	}, nil)
	if err == nil {
		return nil
	}
	if last == nil {
		last = errors.New("it does not answer")
	}
	return fmt.Errorf("connecting to etcd at %s: %s%s", endpoint, reason(last), advice(last))
}

// advice says what to do about a failure to connect, as far as it is known. The TLS errors arrive as text only.
func advice(err error) string {
	if err == nil {
		return ""
	}
	for _, a := range []struct{ symptom, advice string }{
		{"signed by unknown authority", "name the CA that signed the certificate of etcd with --etcd-cafile"},
		{"first record does not look like a TLS handshake", "there is no TLS at this port: say http:// in --etcd-servers"},
		{"tls: certificate required", "etcd asks for a client certificate: give --etcd-certfile and --etcd-keyfile"},
		{"remote error: tls:", "etcd refuses the client certificate: --etcd-certfile must be signed by the CA that etcd trusts, and be valid"},
		{"authentication handshake failed", "look at the certificate of etcd, the name in --etcd-servers, and --etcd-cafile"},
	} {
		if strings.Contains(err.Error(), a.symptom) {
			return "; " + a.advice
		}
	}
	return ""
}
