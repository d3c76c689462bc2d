package etcdstore

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

func TestConfigRefuses(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(dir, "ca")
	cert, key := ca.issue("client", nil)
	_, otherKey := ca.issue("other", nil)
	noise := filepath.Join(dir, "noise")
	if err := os.WriteFile(noise, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"https://127.0.0.1:2379"}
	for name, tc := range map[string]struct {
		config Config
		want   []string // in this order, and one line each
	}{
		"all good":            {Config{Endpoints: good, CAFile: ca.CA(), CertFile: cert, KeyFile: key}, nil},
		"CA of the system":    {Config{Endpoints: good, CertFile: cert, KeyFile: key}, nil},
		"without TLS":         {Config{Endpoints: []string{"http://localhost:2379", "http://[::1]:2379/"}}, nil},
		"TLS files for http":  {Config{Endpoints: []string{"http://localhost:2379"}, CAFile: ca.CA()}, nil}, // kube-apiserver lets it pass
		"no endpoints":        {Config{}, []string{"no etcd is named: give --etcd-servers"}},
		"no scheme":           {Config{Endpoints: []string{"127.0.0.1:2379"}}, []string{`"127.0.0.1:2379" (--etcd-servers) is not of the form https://HOST:PORT`}},
		"no port":             {Config{Endpoints: []string{"https://etcd"}}, []string{`"https://etcd" (--etcd-servers) is not`}},
		"no host":             {Config{Endpoints: []string{"https://:2379"}}, []string{`"https://:2379" (--etcd-servers) is not`}},
		"unix socket":         {Config{Endpoints: []string{"unix:///run/etcd.sock"}}, []string{`"unix:///run/etcd.sock" (--etcd-servers) is not`}},
		"empty endpoint":      {Config{Endpoints: []string{"https://a:1", ""}}, []string{`"" (--etcd-servers) is not`}},
		"mixed schemes":       {Config{Endpoints: []string{"https://a:1", "http://b:1"}}, []string{"https://a:1,http://b:1 (--etcd-servers) mix http and https"}},
		"no such CA":          {Config{Endpoints: good, CAFile: "/no/ca"}, []string{"reading the CA of etcd (--etcd-cafile): open /no/ca: no such file"}},
		"CA without PEM":      {Config{Endpoints: good, CAFile: noise}, []string{noise + " holds no certificate in PEM"}},
		"certificate alone":   {Config{Endpoints: good, CertFile: cert}, []string{"add --etcd-keyfile"}},
		"key alone":           {Config{Endpoints: good, KeyFile: key}, []string{"add --etcd-certfile"}},
		"no such certificate": {Config{Endpoints: good, CertFile: "/no/cert", KeyFile: key}, []string{"(--etcd-certfile, --etcd-keyfile): open /no/cert"}},
		"key of another":      {Config{Endpoints: good, CertFile: cert, KeyFile: otherKey}, []string{"private key does not match public key"}},
		"everything": {Config{Endpoints: []string{"ftp://a:1", "https://b:1", "http://c:1"}, CAFile: noise, CertFile: cert}, []string{
			`"ftp://a:1"`, "mix http and https", "no certificate in PEM", "add --etcd-keyfile",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.config.validate()
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if len(got) != len(tc.want) {
				t.Fatalf("complaints %q, want %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("complaint %q, want %q", got[i], want)
				}
			}
		})
	}
}

func TestKeys(t *testing.T) {
	for _, tc := range []struct{ prefix, key, absolute, relative, below string }{
		{"", "ranges/serviceips", "/registry/ranges/serviceips", "ranges/serviceips", "/registry/ranges/serviceips/"},
		{"/registry", "services/specs/", "/registry/services/specs/", "services/specs/", "/registry/services/specs/"},
		{"/registry/", "ranges", "/registry/ranges", "ranges", "/registry/ranges/"},
		{"registry", "ranges", "/registry/ranges", "ranges", "/registry/ranges/"},
		{"/a/b", "ranges", "/a/b/ranges", "ranges", "/a/b/ranges/"},
		{"/a/b", "/a/b/ranges", "/a/b/ranges", "ranges", "/a/b/ranges/"},
		{"/a/b", "/a/bc", "/a/bc", "/a/bc", "/a/bc/"},
		{"/a", "/registry/ranges", "/registry/ranges", "/registry/ranges", "/registry/ranges/"},
		{"/", "ranges", "/ranges", "ranges", "/ranges/"},
		{"", "", "/registry/", "", "/registry/"},
		{"", "/", "/", "/", "/"},
	} {
		k := newKeys(Config{Prefix: tc.prefix}.prefix())
		if got := k.absolute(tc.key); got != tc.absolute {
			t.Errorf("prefix %q: absolute(%q) = %q, want %q", tc.prefix, tc.key, got, tc.absolute)
		}
		if got := k.relative(tc.absolute); got != tc.relative {
			t.Errorf("prefix %q: relative(%q) = %q, want %q", tc.prefix, tc.absolute, got, tc.relative)
		}
		if got := k.below(tc.key); got != tc.below {
			t.Errorf("prefix %q: below(%q) = %q, want %q", tc.prefix, tc.key, got, tc.below)
		}
	}
}

// hasty is an etcd that carries a transaction out and then reports a timeout of its own. The next time it says truly that the guards do
// not hold.
type hasty struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedMaintenanceServer
	value string
	asked atomic.Int32
}

func (h *hasty) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{}, nil
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

// TestServersTimeout holds the client to one attempt. Left to itself it repeats a transaction after a timeout of the server and hides
// that it did, so that our own write would look like somebody else's.
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
			listener, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server, etcd := grpc.NewServer(), &hasty{value: tc.value}
			etcdserverpb.RegisterKVServer(server, etcd)
			etcdserverpb.RegisterMaintenanceServer(server, etcd)
			go func() { _ = server.Serve(listener) }()
			defer server.Stop()

			s, err := Open(t.Context(), Config{Endpoints: []string{"http://" + listener.Addr().String()}})
			if err != nil {
				t.Fatal(err)
			}
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
