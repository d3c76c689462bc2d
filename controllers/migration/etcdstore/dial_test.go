package etcdstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

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
