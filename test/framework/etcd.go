package framework

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Etcd is one etcd member. Start after a Stop or Kill opens the same data under the same URL.
type Etcd struct {
	Process

	data  string
	extra []string
	port  int
	pki   *pki // nil without TLS
}

// etcdTLS is where etcd listens on a control plane with nodes, where kubeadm has it.
const etcdTLS = "https://" + loopback + ":2379"

// StartEtcd starts an etcd that keeps its data and its log in dir. args are further flags. [Start]
// does this for a control plane; alone it is for callers without an API server.
func StartEtcd(ctx context.Context, dir string, args ...string) (*Etcd, error) {
	return startEtcd(ctx, dir, nil, args)
}

func startEtcd(ctx context.Context, dir string, tls *pki, args []string) (*Etcd, error) {
	path, err := program(moduleEtcd, "etcd")
	if err != nil {
		return nil, err
	}
	e := &Etcd{data: filepath.Join(dir, "etcd"), extra: args, pki: tls}
	e.name, e.program, e.log = "etcd", path, filepath.Join(dir, "etcd.log")
	e.Process.args, e.ports, e.ready = e.args, e.pickPorts, e.healthy
	if err := e.Start(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// URL returns where clients reach etcd, without TLS.
func (e *Etcd) URL() string { return fmt.Sprintf("http://%s:%d", loopback, e.port) }

func (e *Etcd) pickPorts() (err error) {
	e.port, err = FreePort()
	return err
}

// args leaves the data to the page cache (no fsync): they survive etcd's death, no more is asked. A
// short election timeout saves most of a second per start; without peers, no election is lost.
func (e *Etcd) args() []string {
	listen, tls := e.URL(), []string(nil)
	if e.pki != nil {
		listen += "," + etcdTLS
		tls = []string{
			"--cert-file=" + e.pki.path(serverCert), "--key-file=" + e.pki.path(serverKey), "--trusted-ca-file=" + e.pki.path(caCert), "--client-cert-auth",
		}
	}
	return slices.Concat([]string{
		"--name=default",
		"--data-dir=" + e.data,
		"--listen-client-urls=" + listen,
		"--advertise-client-urls=" + e.URL(),
		"--listen-peer-urls=http://" + loopback + ":0",
		"--unsafe-no-fsync",
		"--heartbeat-interval=10",
		"--election-timeout=100",
		"--log-level=warn",
	}, tls, e.extra)
}

func (e *Etcd) healthy(ctx context.Context) error {
	return askOK(ctx, plainClient(), e.URL()+"/health")
}

// Save copies the data to a folder, as a snapshot does, while etcd is down.
func (e *Etcd) Save(dir string) error { return copyData(dir, e.data) }

// Restore puts saved data in the place of the present ones, while etcd is down. Revisions go on
// from the saved one: what was lost is numbered anew.
func (e *Etcd) Restore(dir string) error { return copyData(e.data, dir) }

func copyData(to, from string) error {
	err := os.RemoveAll(to)
	if err == nil {
		err = os.CopyFS(to, os.DirFS(from))
	}
	if err != nil {
		return fmt.Errorf("copying the data of etcd: %w", err)
	}
	return nil
}
