package etcdstore

import (
	"context"
	"crypto/tls"
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
func (s *Store) knock(ctx context.Context, trust *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	endpoints := s.client.Endpoints()
	answers := make(chan error, len(endpoints))
	for _, endpoint := range endpoints {
		go func() { answers <- s.knockAt(ctx, endpoint, trust) }()
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
func (s *Store) knockAt(ctx context.Context, endpoint string, trust *tls.Config) error {
	last := errors.New("it does not answer")
	err := insist(ctx, s.attemptTimeout, func(ctx context.Context) error {
		_, err := s.client.Status(ctx, endpoint)
		if err == nil {
			return nil
		}
		if refusal := shakeHands(ctx, endpoint, trust); diagnose(refusal).lasting {
			last = refusal
			return &hopeless{refusal}
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		return err
	}, nil)
	if err == nil {
		return nil
	}
	return fmt.Errorf("connecting to etcd at %s: %s%s", endpoint, reason(last), diagnose(last).advice)
}

// shakeHands returns what an https endpoint has against our certificate, or we against its. With TLS 1.3 a server says so after the
// handshake, and gRPC, which writes at once, is often told of a broken pipe instead.
func shakeHands(ctx context.Context, endpoint string, trust *tls.Config) error {
	address, secure := strings.CutPrefix(endpoint, "https://")
	if !secure {
		return nil
	}
	trust = trust.Clone()
	trust.NextProtos = []string{"h2"}
	connection, err := (&tls.Dialer{Config: trust}).DialContext(ctx, "tcp", strings.TrimSuffix(address, "/"))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	_ = connection.SetReadDeadline(time.Now().Add(time.Second))
	_, err = connection.Read(make([]byte, 1))
	return err
}

// diagnosis is what to do about a failure to connect.
type diagnosis struct {
	symptom, advice string
	// lasting says that it will be the same when asked again.
	lasting bool
}

// diagnoses are by the text of an error, which is all that gRPC leaves of it. The first that fits is meant.
var diagnoses = []diagnosis{
	{"signed by unknown authority", "; name the CA that signed the certificate of etcd with --etcd-cafile", true},
	{"failed to verify certificate", "; look at the certificate of etcd and at the name in --etcd-servers", true},
	{"tls: certificate required", "; etcd asks for a client certificate: give --etcd-certfile and --etcd-keyfile", true},
	{"remote error: tls:", "; etcd refuses the client certificate: --etcd-certfile must be signed by the CA that etcd trusts, and be valid", true},
	{"first record does not look like a TLS handshake", "; there is no TLS at this port: say http:// in --etcd-servers", true},
	{"authentication handshake failed", "; if etcd speaks no TLS at this port, say http:// in --etcd-servers", false},
	{"error reading server preface", "; if etcd speaks TLS at this port, say https:// in --etcd-servers", false},
}

// diagnose returns the zero diagnosis of an error that speaks for itself.
func diagnose(err error) diagnosis {
	for _, d := range diagnoses {
		if err != nil && strings.Contains(err.Error(), d.symptom) {
			return d
		}
	}
	return diagnosis{}
}
