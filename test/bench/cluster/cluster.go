// Package cluster starts control planes with as many Services as a benchmark asks for.
//
// Services beyond the first are written to etcd with their IPAddresses, as copies of one that the
// API server made: to create 50,000 would take hours, since each takes longer than the one before.
// The API server then serves what it would had it created them. Start with Start and Cluster.Grow.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Namespace holds every Service of a benchmark.
const Namespace = "bench"

// Range is what the API server allocates from: its largest prefix, so that no benchmark fills it.
var Range = netip.MustParsePrefix("10.96.0.0/12")

// RangeV6 is what an API server of two families allocates IPv6 addresses from.
var RangeV6 = netip.MustParsePrefix("fd00:96::/108")

// TemplateAddressV6 is the template's address of the second family.
const TemplateAddressV6 = "fd00:96::10"

const (
	template        = "template"
	templateAddress = "10.96.0.10" // in the static band, where no copy lies
)

// Cluster is a control plane with Services in it. Its methods are for one goroutine.
type Cluster struct {
	*framework.ControlPlane
	// Client speaks protobuf, as the API server's own clients do.
	Client kubernetes.Interface
	// Copies is how many Services this Cluster has added to the template and the API server's own.
	Copies int
	// Dual: copies have an address of each family.
	Dual bool
	// Second is another ServiceCIDR, in which every other 5,000 copies lie, if it is valid.
	Second netip.Prefix

	log *progress.Log
}

// Start starts a one-family control plane with the API server's Service and the template of copies.
func Start(ctx context.Context, log *progress.Log) (*Cluster, error) {
	log.Step("starting etcd and kube-apiserver")
	c, err := Open(ctx, framework.Options{ServiceClusterIPRange: Range.String()}, log)
	if err != nil {
		return nil, err
	}
	if err := c.CreateTemplate(ctx, templateAddress); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// StartDual is Start with two families.
func StartDual(ctx context.Context, log *progress.Log) (*Cluster, error) {
	log.Step("starting etcd and kube-apiserver, with two families")
	c, err := Open(ctx, framework.Options{ServiceClusterIPRange: Range.String() + "," + RangeV6.String()}, log)
	if err != nil {
		return nil, err
	}
	c.Dual = true
	if err := c.CreateTemplate(ctx, templateAddress, TemplateAddressV6); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Open starts a control plane on what its folder holds. Its etcd syncs its disk, as real ones do.
func Open(ctx context.Context, options framework.Options, log *progress.Log) (*Cluster, error) {
	options.EtcdArgs = append(options.EtcdArgs, "--unsafe-no-fsync=false")
	plane, err := framework.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	c := &Cluster{ControlPlane: plane, log: log}
	if c.Client, err = kubernetes.NewForConfig(c.Config()); err != nil {
		return nil, errors.Join(fmt.Errorf("making a client: %w", err), plane.Stop())
	}
	return c, nil
}

// CreateTemplate creates the Service that is copied. It has a static-band address of each family.
func (c *Cluster) CreateTemplate(ctx context.Context, addresses ...string) error {
	if err := c.CreateNamespace(ctx, Namespace); err != nil {
		return err
	}
	options := []framework.ServiceOption{framework.WithClusterIPs(addresses...)}
	if len(addresses) > 1 {
		options = append(options, framework.RequireDualStack())
	}
	return c.CreateService(ctx, template, options...)
}

// CreateNamespace creates one.
func (c *Cluster) CreateNamespace(ctx context.Context, name string) error {
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// CreateService creates a Service in the namespace of the benchmark.
func (c *Cluster) CreateService(ctx context.Context, name string, options ...framework.ServiceOption) error {
	service := framework.NewService(Namespace, name, options...)
	if _, err := c.Client.CoreV1().Services(Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating Service %s: %w", name, err)
	}
	return nil
}

// DeleteService deletes a Service, if it is there.
func (c *Cluster) DeleteService(ctx context.Context, name string) error {
	err := c.Client.CoreV1().Services(Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Service %s: %w", name, err)
	}
	return nil
}

// Config is how kube-apiserver's loopback client connects, as administrator: protobuf, no rate
// limit, no compression.
func (c *Cluster) Config() *rest.Config {
	config := c.AdminConfig()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.DisableCompression = true
	return config
}

// Addresses is the number of IPv4 addresses of a cluster to which no other client adds any.
func (c *Cluster) Addresses() int { return c.Copies + 2 }

// ServerVersion is what kube-apiserver calls itself, "v1.37.2".
func (c *Cluster) ServerVersion() (string, error) {
	server, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking kube-apiserver for its version: %w", err)
	}
	return server.GitVersion, nil
}

// Versions names the programs of the control plane, "kube-apiserver v1.37.2, etcd 3.7.0".
func (c *Cluster) Versions(ctx context.Context) (string, error) {
	server, err := c.ServerVersion()
	if err != nil {
		return "", err
	}
	etcd, err := c.etcdVersion(ctx)
	if err != nil {
		return "", fmt.Errorf("asking etcd for its version: %w", err)
	}
	return "kube-apiserver " + server + ", etcd " + etcd, nil
}

func (c *Cluster) etcdVersion(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Etcd.URL()+"/version", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct{ Etcdserver string }
	err = json.NewDecoder(response.Body).Decode(&answer)
	return answer.Etcdserver, err
}
