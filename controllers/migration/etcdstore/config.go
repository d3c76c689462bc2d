package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/stats"
)

// DefaultPrefix is where kube-apiserver keeps its objects unless it is told otherwise.
const DefaultPrefix = "/registry"

// Config says where etcd is and how to be let in, like kube-apiserver's flags --etcd-servers,
// --etcd-cafile, --etcd-certfile, --etcd-keyfile and --etcd-prefix.
type Config struct {
	Endpoints []string // URLs of one or more members, all http or all https
	CAFile    string   // the authorities that may have signed the certificate of etcd; empty means those of the system
	// CertFile and KeyFile are ours. Each connection reads them: they can be renewed during a watch.
	CertFile, KeyFile string
	Prefix            string // of all keys; empty means DefaultPrefix
}

// validateEndpoints joins the faults of endpoints. The client uses the first one's scheme for all.
func validateEndpoints(endpoints []string) error {
	if len(endpoints) == 0 {
		return errors.New("no etcd is named: give --etcd-servers what kube-apiserver is started with, https://127.0.0.1:2379 for example")
	}
	var complaints []error
	for _, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" {
			complaints = append(complaints, fmt.Errorf("the etcd endpoint %q (--etcd-servers) is not of the form https://HOST:PORT", endpoint))
		} else if !strings.HasPrefix(endpoints[0], u.Scheme+"://") {
			complaints = append(complaints, fmt.Errorf("the etcd endpoint %q (--etcd-servers) mixes http and https: say one for all", endpoint))
		}
	}
	return errors.Join(complaints...)
}

// dial returns a client that connects when it is used. All faults of the configuration come at
// once. It switches off what etcd's client does by itself about an etcd that is away: to wait and
// repeat without a word, and not to say that a transaction was sent twice.
func (c Config) dial() (*clientv3.Client, error) {
	trust, err := transport.TLSInfo{TrustedCAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile}.ClientConfig()
	if err != nil {
		err = fmt.Errorf("reading --etcd-cafile, --etcd-certfile and --etcd-keyfile: %w", err)
	}
	if err := errors.Join(validateEndpoints(c.Endpoints), err); err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints,
		TLS:       trust,
		// A frozen member or a lost network is found out even by a watch that is idle.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		MaxUnaryRetries:      1, // one attempt; 0 would be a hundred
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(failFast),
			grpc.WithStatsHandler(noteSent{}),
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

// sentKey is a context's key for an atomic.Bool that is set when a connection gets the request.
type sentKey struct{}

// noteSent sets it: a context's error is the same without a connection and without an answer.
type noteSent struct{}

// HandleRPC implements stats.Handler, as the other methods do.
func (noteSent) HandleRPC(ctx context.Context, s stats.RPCStats) {
	sent, ok := ctx.Value(sentKey{}).(*atomic.Bool)
	if _, out := s.(*stats.OutPayload); ok && out {
		sent.Store(true)
	}
}

// TagRPC returns ctx.
func (noteSent) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn returns ctx.
func (noteSent) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (noteSent) HandleConn(context.Context, stats.ConnStats) {}

// keys translates etcd's keys to and from keys relative to its value, the prefix between slashes.
type keys string

func newKeys(prefix string) keys {
	return keys(strings.TrimSuffix(path.Join("/", cmp.Or(prefix, DefaultPrefix)), "/") + "/")
}

// absolute returns a key as etcd has it. A key that begins with a slash is one already.
func (k keys) absolute(key string) string {
	if strings.HasPrefix(key, "/") {
		return key
	}
	return string(k) + key
}

// relative is the inverse of absolute: a key outside of the prefix stays absolute.
func (k keys) relative(key string) string { return strings.TrimPrefix(key, string(k)) }

// below returns what all keys of a folder begin with: services/specs does not hold services/specs2.
func (k keys) below(folder string) string { return strings.TrimSuffix(k.absolute(folder), "/") + "/" }
