package framework

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// DefaultServiceClusterIPRange is what an API server allocates from without other Options.
const DefaultServiceClusterIPRange = "10.96.0.0/16,fd00:10:96::/112"

// Options say how to run an API server. The zero Options are Kubernetes 1.37 with two IP families.
type Options struct {
	// Version defaults to V137.
	Version Version
	// ServiceClusterIPRange defaults to DefaultServiceClusterIPRange.
	ServiceClusterIPRange string
	// FeatureGates are set after those of the version.
	FeatureGates map[string]bool
	// Addresses are those of the API server's node in a cluster with nodes. It listens everywhere,
	// with the first as endpoint of the Service kubernetes, and admits kubelets and ServiceAccounts of
	// pods; etcd listens with TLS, too, on 127.0.0.1:2379. Without any it serves on loopback alone.
	Addresses []netip.Addr
	// Args are further flags, "--name=value". They come last: the last value of a flag wins.
	Args []string

	// Dir keeps the data, certificates and logs of the control plane, and whatever was there is used
	// again. Empty means a temporary folder. Only Start reads it.
	Dir string
	// EtcdArgs are further flags of etcd. Only Start reads them.
	EtcdArgs []string
}

// APIServer is one kube-apiserver. It authorises by RBAC.
type APIServer struct {
	Process
	*Access

	options Options
	etcd    *Etcd
}

// newAPIServer prepares the n-th API server of a folder.
func newAPIServer(etcd *Etcd, pki *pki, dir string, n int) (*APIServer, error) {
	own := filepath.Join(dir, fmt.Sprintf("kube-apiserver-%d", n))
	if err := os.MkdirAll(own, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of an API server: %w", err)
	}
	a := &APIServer{etcd: etcd, Access: &Access{pki: pki, dir: own}}
	a.name, a.log = "kube-apiserver", own+".log"
	a.Process.args, a.ports, a.ready = a.args, a.pickPorts, a.serves
	return a, nil
}

// Start starts an API server that does not run, with its last options, and waits until it serves.
// One that was ready before keeps its port. See [Process.Start] for the rest.
func (a *APIServer) Start(ctx context.Context) error { return a.startWith(ctx, a.options) }

// startWith is Start with other options.
func (a *APIServer) startWith(ctx context.Context, options Options) (err error) {
	options.Version = options.Version.orDefault()
	a.options = options
	if a.program, err = program(options.Version.module, "kube-apiserver"); err != nil {
		return err
	}
	if err := a.Process.Start(ctx); err != nil {
		return err
	}
	return a.connect(options.Version)
}

// DualWrites reports whether it keeps the bitmap beside the IPAddresses, and draws from that first.
func (a *APIServer) DualWrites() bool {
	return a.options.Version.Name == V133.Name && !a.options.FeatureGates["DisableAllocatorDualWrite"]
}

func (a *APIServer) pickPorts() error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	return a.use(port)
}

// args states everything that would otherwise depend on the machine.
func (a *APIServer) args() []string {
	return slices.Concat([]string{
		"--etcd-servers=" + a.etcd.URL(),
		fmt.Sprintf("--secure-port=%d", a.port),
		"--cert-dir=" + a.dir,
		"--client-ca-file=" + a.pki.path(caCert),
		"--tls-cert-file=" + a.pki.path(serverCert),
		"--tls-private-key-file=" + a.pki.path(serverKey),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + a.pki.path(accountsKey),
		"--service-account-signing-key-file=" + a.pki.path(accountsKey),
		"--service-cluster-ip-range=" + cmp.Or(a.options.ServiceClusterIPRange, DefaultServiceClusterIPRange),
	}, a.placeArgs(), a.options.Version.args, featureGates(a.options.FeatureGates), a.options.Args)
}

// placeArgs depend on whether there are nodes. Without, the kubernetes Service has no endpoints:
// the API server refuses a loopback address, and we have no other. The default advertised address
// needs an interface of the machine, hence one for documentation. No controller here creates the
// ServiceAccount "default" that the admission plugin demands for pods, so it is off.
func (a *APIServer) placeArgs() []string {
	if len(a.options.Addresses) == 0 {
		return []string{
			"--bind-address=" + loopback, "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none", "--authorization-mode=RBAC",
			"--disable-admission-plugins=ServiceAccount",
		}
	}
	return []string{
		"--bind-address=::", "--advertise-address=" + a.options.Addresses[0].String(), "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority=" + a.pki.path(caCert),
		"--kubelet-client-certificate=" + a.pki.path(kubeletClientCert), "--kubelet-client-key=" + a.pki.path(kubeletClientKey),
	}
}

func featureGates(gates map[string]bool) []string {
	if len(gates) == 0 {
		return nil
	}
	var pairs []string
	for name, on := range gates {
		pairs = append(pairs, fmt.Sprintf("%s=%t", name, on))
	}
	slices.Sort(pairs)
	return []string{"--feature-gates=" + strings.Join(pairs, ",")}
}

// serves answers nil once /readyz is content and the kubernetes Service exists. The API server
// creates that and the namespace default some moments after it calls itself ready, and allocates
// its address like any other: from then on a test's own Service is not too early.
func (a *APIServer) serves(ctx context.Context) error {
	client, err := rest.HTTPClientFor(a.admin)
	if err != nil {
		return err
	}
	if err := askOK(ctx, client, a.URL()+"/readyz"); err != nil {
		return err
	}
	return askOK(ctx, client, a.URL()+"/api/v1/namespaces/default/services/kubernetes")
}
