package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// All that is wrong is said at once, one line each.
func TestConfigRefuses(t *testing.T) {
	good := []string{"https://127.0.0.1:2379"}
	for name, tc := range map[string]struct {
		config Config
		want   []string
	}{
		"all good":            {Config{Endpoints: good}, nil},
		"without TLS":         {Config{Endpoints: []string{"http://localhost:2379", "http://[::1]:2379/"}}, nil},
		"no endpoints":        {Config{}, []string{"no etcd is named: give --etcd-servers"}},
		"no scheme":           {Config{Endpoints: []string{"127.0.0.1:2379"}}, []string{`"127.0.0.1:2379" (--etcd-servers) is not of the form https://HOST:PORT`}},
		"no port":             {Config{Endpoints: []string{"https://etcd"}}, []string{`"https://etcd" (--etcd-servers) is not`}},
		"no host":             {Config{Endpoints: []string{"https://:2379"}}, []string{`"https://:2379" (--etcd-servers) is not`}},
		"unix socket":         {Config{Endpoints: []string{"unix:///run/etcd.sock"}}, []string{`"unix:///run/etcd.sock" (--etcd-servers) is not`}},
		"mixed schemes":       {Config{Endpoints: []string{"https://a:1", "http://b:1"}}, []string{`"http://b:1" (--etcd-servers) mixes http and https`}},
		"no such CA":          {Config{Endpoints: good, CAFile: "/no/ca"}, []string{"open /no/ca: no such file"}},
		"certificate alone":   {Config{Endpoints: good, CertFile: "/some/cert"}, []string{"must both be present"}},
		"no such certificate": {Config{Endpoints: good, CertFile: "/no/cert", KeyFile: "/no/key"}, []string{"open /no/cert"}},
		"everything":          {Config{Endpoints: []string{"https://b:1", "ftp://a:1"}, CAFile: "/no/ca"}, []string{`"ftp://a:1"`, "/no/ca"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			if client, err := tc.config.dial(); err != nil {
				got = strings.Split(err.Error(), "\n")
			} else {
				_ = client.Close()
			}
			if !slices.EqualFunc(got, tc.want, strings.Contains) {
				t.Errorf("complaints %q, want %q", got, tc.want)
			}
		})
	}
}

// TestPassing sorts what the client may return: whether to ask again.
func TestPassing(t *testing.T) {
	cutOff := status.Error(codes.Unavailable, "error reading from server: EOF")
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: connect: connection refused"`), true},
		{fmt.Errorf("wrapped: %w", cutOff), true},
		{context.DeadlineExceeded, true},
		{context.Canceled, true},
		{status.Error(codes.Internal, "stream terminated by RST_STREAM"), true},
		{rpctypes.ErrTimeout, true},
		{rpctypes.ErrLeaderChanged, true},
		{rpctypes.ErrTooManyRequests, true},
		{status.Error(codes.InvalidArgument, "etcdserver: request is too large"), false},
		{rpctypes.ErrNoSpace, false},
		{rpctypes.ErrPermissionDenied, false},
		{migration.ErrCompacted, false},
		{errors.New("something else"), false},
	} {
		if passing(tc.err) != tc.want {
			t.Errorf("%v: passing %t", tc.err, passing(tc.err))
		}
	}
}

func TestKeys(t *testing.T) {
	for _, tc := range []struct{ prefix, key, absolute, relative, below string }{
		{"", "ranges/serviceips", "/registry/ranges/serviceips", "ranges/serviceips", "/registry/ranges/serviceips/"},
		{"registry", "ranges", "/registry/ranges", "ranges", "/registry/ranges/"},
		{"/a/b", "ranges", "/a/b/ranges", "ranges", "/a/b/ranges/"},
		{"/a/b", "/a/b/ranges", "/a/b/ranges", "ranges", "/a/b/ranges/"},
		{"/a/b", "/a/bc", "/a/bc", "/a/bc", "/a/bc/"},
		{"/", "ranges", "/ranges", "ranges", "/ranges/"},
		{"", "/", "/", "/", "/"},
	} {
		k := newKeys(tc.prefix)
		if got, want := []string{k.absolute(tc.key), k.relative(tc.absolute), k.below(tc.key)}, []string{tc.absolute, tc.relative, tc.below}; !slices.Equal(got, want) {
			t.Errorf("prefix %q, key %q: %q, want %q", tc.prefix, tc.key, got, want)
		}
	}
}

// hasty is an etcd that carries a transaction out and reports a timeout of its own. The next time
// it says truly that the guards do not hold.
type hasty struct {
	etcdserverpb.UnimplementedKVServer
	value string
	asked atomic.Int32
}

// Range is what Open asks for.
func (h *hasty) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return &etcdserverpb.RangeResponse{}, nil
}

func (h *hasty) Txn(context.Context, *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	if h.asked.Add(1) == 1 {
		return nil, status.Error(codes.DeadlineExceeded, "etcdserver: context deadline exceeded")
	}
	kv := &mvccpb.KeyValue{Key: []byte("/registry/a"), Value: []byte(h.value), CreateRevision: 7, ModRevision: 7, Version: 1}
	return &etcdserverpb.TxnResponse{
		Header: &etcdserverpb.ResponseHeader{Revision: 9},
		Responses: []*etcdserverpb.ResponseOp{{Response: &etcdserverpb.ResponseOp_ResponseRange{
			ResponseRange: &etcdserverpb.RangeResponse{Kvs: []*mvccpb.KeyValue{kv}, Count: 1},
		}}},
	}, nil
}

// TestServersTimeout holds the client to one attempt. It would repeat a transaction after the
// server's timeout without saying so, and our own write would look like another writer's.
func TestServersTimeout(t *testing.T) {
	for name, tc := range map[string]struct {
		value        string
		wantRevision int64
		wantErr      error
	}{
		"our write":             {"ours", 7, nil},
		"somebody else's write": {"theirs", 0, migration.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			listener := must(net.Listen("tcp4", "127.0.0.1:0"))
			server, etcd := grpc.NewServer(), &hasty{value: tc.value}
			etcdserverpb.RegisterKVServer(server, etcd)
			go func() { _ = server.Serve(listener) }()
			defer server.Stop()

			s := must(Open(t.Context(), Config{Endpoints: []string{"http://" + listener.Addr().String()}}))
			defer func() { _ = s.Close() }()
			revision, err := s.Commit(t.Context(), []migration.Write{{Key: "a", Raw: []byte("ours")}})
			if revision != tc.wantRevision || !errors.Is(err, tc.wantErr) {
				t.Errorf("revision %d, error %v, want %d, %v", revision, err, tc.wantRevision, tc.wantErr)
			}
			if asked := etcd.asked.Load(); asked != 2 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}
