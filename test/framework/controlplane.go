package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// ControlPlane is an etcd with an API server, and what else a test starts beside them. Stop ends
// all. The embedded Access leads to the API server. Its methods may be called concurrently, but
// Restart and Stop not beside each other.
type ControlPlane struct {
	*Access
	Etcd *Etcd
	API  *APIServer

	dir       string
	temporary bool // dir goes with the control plane

	mu       sync.Mutex
	beside   []stopper // in the order of their start
	servers  int       // API servers so far, for the names of their folders
	programs int       // other programs so far, for the names of their logs
}

type stopper interface{ Stop() error }

// Start starts etcd and an API server.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	c := &ControlPlane{dir: options.Dir, temporary: options.Dir == ""}
	if err := c.makeDir(); err != nil {
		return nil, fmt.Errorf("making the folder of a control plane: %w", err)
	}
	if err := c.start(ctx, options); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *ControlPlane) makeDir() (err error) {
	if c.temporary {
		c.dir, err = os.MkdirTemp("", "clusterip-operator-")
		return err
	}
	return os.MkdirAll(c.dir, 0o755)
}

func (c *ControlPlane) start(ctx context.Context, options Options) error {
	pki, err := openPKI(filepath.Join(c.dir, "pki"), options.Addresses)
	if err != nil {
		return err
	}
	tls := pki
	if len(options.Addresses) == 0 {
		tls = nil
	}
	if c.Etcd, err = startEtcd(ctx, c.dir, tls, options.EtcdArgs); err != nil {
		return err
	}
	c.add(c.Etcd)
	if c.API, err = c.startAPIServer(ctx, pki, options); err != nil {
		return err
	}
	c.Access = c.API.Access
	return nil
}

// AddAPIServer starts a further API server on the same etcd, with the same certificates and keys:
// what one issues, all accept.
func (c *ControlPlane) AddAPIServer(ctx context.Context, options Options) (*APIServer, error) {
	return c.startAPIServer(ctx, c.pki, options)
}

func (c *ControlPlane) startAPIServer(ctx context.Context, pki *pki, options Options) (*APIServer, error) {
	c.mu.Lock()
	c.servers++
	n := c.servers
	c.mu.Unlock()

	a, err := newAPIServer(c.Etcd, pki, c.dir, n)
	if err != nil {
		return nil, err
	}
	if err := a.startWith(ctx, options); err != nil {
		return nil, err
	}
	c.add(a)
	return a, nil
}

// Restart stops a running API server, and starts it with other options, maybe of another version,
// on the same data. Port, certificates and keys stay, so clients, kubeconfigs and tokens remain
// good. To start it with the same options, say API.Stop or API.Kill and API.Start.
func (c *ControlPlane) Restart(ctx context.Context, options Options) error {
	if err := c.API.Stop(); err != nil {
		return err
	}
	return c.API.startWith(ctx, options)
}

// Dir returns the folder with the data, certificates and logs.
func (c *ControlPlane) Dir() string { return c.dir }

// Stop ends everything started on this control plane, the latest first, and removes a temporary
// folder. What is down already is no error. A stopped control plane stays down.
func (c *ControlPlane) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, running := range slices.Backward(c.beside) {
		errs = append(errs, c.end(running))
	}
	switch {
	case c.temporary && os.Getenv("KEEP") != "":
		fmt.Fprintln(os.Stderr, "kept", c.dir)
	case c.temporary:
		errs = append(errs, os.RemoveAll(c.dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping the control plane: %w", err)
	}
	return nil
}

// end stops a program. In a temporary folder no test reads what etcd and API servers leave: they
// are killed, since an API server takes more than a second to end by itself.
func (c *ControlPlane) end(running stopper) error {
	if c.temporary {
		switch program := running.(type) {
		case *APIServer:
			return program.Kill()
		case *Etcd:
			return program.Kill()
		}
	}
	return running.Stop()
}

// run starts a program that ends with the control plane.
func (c *ControlPlane) run(ctx context.Context, program interface {
	stopper
	Start(ctx context.Context) error
},
) error {
	if err := program.Start(ctx); err != nil {
		return err
	}
	c.add(program)
	return nil
}

func (c *ControlPlane) add(started stopper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beside = append(c.beside, started)
}

// logFor returns a new log file for a program.
func (c *ControlPlane) logFor(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.programs++
	return filepath.Join(c.dir, fmt.Sprintf("%s-%d.log", name, c.programs))
}

// Version is a Kubernetes version that this package can run, with the flags that bring its API
// server into the shape that the operator supports. The zero one is [V137] or CLUSTERIP_KUBERNETES.
type Version struct {
	// Name is the release, for the names of files and specs.
	Name string
	// NetworkingVersion is the version of networking.k8s.io that serves IPAddress and ServiceCIDR.
	NetworkingVersion string

	module string
	args   []string
}

var (
	// V137 allocates ClusterIPs as IPAddress objects from ServiceCIDRs.
	V137 = Version{Name: "1.37.2", NetworkingVersion: "v1", module: module137}

	// V132 allocates from the bitmap in etcd and serves IPAddress and ServiceCIDR as plain storage.
	V132 = Version{
		Name:              "1.32.2",
		NetworkingVersion: "v1beta1",
		module:            "kubernetes-1.32",
		args: []string{
			"--runtime-config=networking.k8s.io/v1beta1=true",
			"--feature-gates=MultiCIDRServiceAllocator=false",
		},
	}

	// V133 allocates from ServiceCIDRs and keeps the bitmap in step.
	V133 = Version{Name: "1.33.13", NetworkingVersion: "v1", module: "kubernetes-1.33"}
	// V134 keeps the bitmap in step only with the feature gate DisableAllocatorDualWrite=false.
	V134 = Version{Name: "1.34.4", NetworkingVersion: "v1", module: "kubernetes-1.34"}
	// V135 never keeps the bitmap in step.
	V135 = Version{Name: "1.35.4", NetworkingVersion: "v1", module: "kubernetes-1.35"}
	// V136 does not either.
	V136 = Version{Name: "1.36.3", NetworkingVersion: "v1", module: "kubernetes-1.36"}
)

// WithoutDualWrite lets specs give two Services one ClusterIP, as can happen when its IPAddress was
// deleted. 1.33 alone looks into the bitmap too by default, and would refuse that.
var WithoutDualWrite = map[string]bool{"DisableAllocatorDualWrite": true}

// Versions are all of them, the oldest first.
var Versions = []Version{V132, V133, V134, V135, V136, V137}

// VersionOf returns the version of a minor release, "1.34".
func VersionOf(minor string) (Version, error) {
	at := slices.IndexFunc(Versions, func(v Version) bool { return v.Minor() == minor })
	if at < 0 {
		return Version{}, fmt.Errorf("no Kubernetes %q: one of 1.32, 1.33, 1.34, 1.35, 1.36 and 1.37", minor)
	}
	return Versions[at], nil
}

// defaultVersion is what the zero Version stands for: V137, or the one that the environment names
// by its minor ("1.34"), so that any suite can be run on it.
var defaultVersion = sync.OnceValue(func() Version {
	minor := os.Getenv("CLUSTERIP_KUBERNETES")
	if minor == "" {
		return V137
	}
	v, err := VersionOf(minor)
	if err != nil {
		panic("CLUSTERIP_KUBERNETES: " + err.Error())
	}
	return v
})

// Minor returns the minor release, "1.34" of 1.34.4.
func (v Version) Minor() string { return v.Name[:strings.LastIndex(v.Name, ".")] }

// Assets is [Assets] for programs of this version.
func (v Version) Assets(programs ...string) (string, error) {
	return Assets(v.orDefault().module, programs...)
}

func (v Version) orDefault() Version {
	if v.module == "" {
		return defaultVersion()
	}
	return v
}
