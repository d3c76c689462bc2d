package etcdstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// DefaultPrefix is where kube-apiserver keeps its objects unless it is told otherwise.
const DefaultPrefix = "/registry"

// Config says where etcd is and how to be let in: what kube-apiserver is told with its flags --etcd-servers, --etcd-cafile,
// --etcd-certfile, --etcd-keyfile and --etcd-prefix.
type Config struct {
	// Endpoints are the URLs of one or more members, all http or all https.
	Endpoints []string
	// CAFile holds the authorities that may have signed the certificate of etcd. Empty means those of the system.
	CAFile string
	// CertFile and KeyFile are our certificate and its key. They are read again for each connection, so that they can be
	// renewed while a long watch runs.
	CertFile, KeyFile string
	// Prefix is that of all keys. Empty means DefaultPrefix.
	Prefix string
}

// validate joins all that is wrong with the configuration and reads its files.
func (c Config) validate() (*tls.Config, error) {
	trust, err := c.tls()
	if err := errors.Join(validateEndpoints(c.Endpoints), err); err != nil {
		return nil, err
	}
	return trust, nil
}

// tls returns how to connect to an https endpoint.
func (c Config) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	var caErr, certErr error
	if c.CAFile != "" {
		config.RootCAs, caErr = readCA(c.CAFile)
	}
	switch {
	case c.CertFile != "" && c.KeyFile != "":
		_, certErr = c.certificate(nil)
		config.GetClientCertificate = c.certificate
	case c.CertFile != "":
		certErr = errors.New("a certificate for etcd is given (--etcd-certfile) but not its key: add --etcd-keyfile")
	case c.KeyFile != "":
		certErr = errors.New("a key for etcd is given (--etcd-keyfile) but not its certificate: add --etcd-certfile")
	}
	return config, errors.Join(caErr, certErr)
}

func readCA(file string) (*x509.CertPool, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of etcd (--etcd-cafile): %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("reading the CA of etcd (--etcd-cafile): %s holds no certificate in PEM", file)
	}
	return pool, nil
}

// certificate reads our certificate, whatever etcd says it accepts: etcd will tell if it does not.
func (c Config) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate for etcd and its key (--etcd-certfile, --etcd-keyfile): %w", err)
	}
	return &pair, nil
}

// prefix returns the prefix with one slash before it and none behind, as kube-apiserver would understand it.
func (c Config) prefix() string { return path.Join("/", cmp.Or(c.Prefix, DefaultPrefix)) }

// keys translates between keys as etcd has them and keys relative to the API server's prefix. Its value is the prefix, with a slash
// on both sides.
type keys string

func newKeys(prefix string) keys { return keys(strings.TrimSuffix(prefix, "/") + "/") }

// absolute returns a key as etcd has it. A key that begins with a slash is one already.
func (k keys) absolute(key string) string {
	if strings.HasPrefix(key, "/") {
		return key
	}
	return string(k) + key
}

// relative is the inverse of absolute: a key of somebody else stays absolute.
func (k keys) relative(key string) string { return strings.TrimPrefix(key, string(k)) }

// below returns what all keys below a folder begin with. The folder services/specs does not hold services/specs2.
func (k keys) below(folder string) string { return strings.TrimSuffix(k.absolute(folder), "/") + "/" }

// dial returns a client that connects when it is used. What etcd's client would do by itself about an etcd that is away is
// switched off: it waits and repeats in silence, and of a transaction it would not say that it was sent twice.
func dial(endpoints []string, trust *tls.Config) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints,
		TLS:       trust,
		// A frozen member or a lost network is found out even by a watch that is idle.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		MaxUnaryRetries:      1, // one attempt; 0 would be a hundred
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(failFast),
			grpc.WithConnectParams(grpc.ConnectParams{
				// gRPC's own limit would have us notice two minutes late that etcd is back.
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
				MinConnectTimeout: 5 * time.Second,
			}),
		},
	})
}

// failFast lets a call fail when there is no connection, with the reason why there is none.
func failFast(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	return invoke(ctx, method, request, reply, connection, append(options, grpc.WaitForReady(false))...)
}
