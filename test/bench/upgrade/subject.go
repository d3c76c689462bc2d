package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

// subject is a cluster that something is done to.
type subject struct {
	*cluster.Cluster
	shape Shape
}

// apiServer is the field manager of IPAddresses that the API server writes itself.
const apiServer = "kube-apiserver"

// count counts the IPAddresses, and those that the API server, which must be the new one, wrote.
func (s *subject) count(ctx context.Context) (all, written int, err error) {
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return s.Client.NetworkingV1().IPAddresses().List(ctx, o)
	}
	err = pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		all++
		if slices.ContainsFunc(o.(*networkingv1.IPAddress).ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == apiServer }) {
			written++
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("counting IPAddresses: %w", err)
	}
	return all, written, err
}

// Shape is what kind of cluster is upgraded.
type Shape struct {
	// Services is their number with the API server's own, which has one family in any cluster.
	Services int
	// Dual: all other Services have an address of each family.
	Dual bool
	// Mixed: in twenty namespaces, seven of a hundred are headless, three of type ExternalName.
	Mixed bool
}

// secondary is the range of the second family: the largest that an API server with bitmaps accepts.
const secondary = "fd00:10:96::/108"

func (s Shape) ranges() string {
	if s.Dual {
		return cluster.Range.String() + "," + secondary
	}
	return cluster.Range.String()
}

// template are the addresses of the Service that is copied.
func (s Shape) template() []string {
	if s.Dual {
		return []string{"10.96.0.10", "fd00:10:96::10"}
	}
	return []string{"10.96.0.10"}
}

// addresses is how many ClusterIPs there are, and how many IPAddresses there have to be.
func (s Shape) addresses() int {
	n := s.Services
	for i := range s.copies() {
		if !(seed.Copies{Mixed: s.Mixed}).HasAddresses(i) {
			n--
		}
	}
	if s.Dual {
		return 2*n - 1
	}
	return n
}

// copies is how many Services there are beside the template and that of the API server.
func (s Shape) copies() int { return s.Services - 2 }

// old is an API server that allocates from the bitmap, and serves IPAddresses for a migration.
func (s Shape) old() framework.Options {
	return framework.Options{Version: framework.V132, ServiceClusterIPRange: s.ranges()}
}

// newer is an API server of a version that expects an IPAddress for each ClusterIP.
func (s Shape) newer(v framework.Version) framework.Options {
	return framework.Options{Version: v, ServiceClusterIPRange: s.ranges()}
}

// String says it in the words of the tables.
func (s Shape) String() string {
	text := stats.Number(float64(s.Services)) + " Services"
	if s.Dual {
		text += " of two families"
	}
	if s.Mixed {
		text += ", 7 % headless, 3 % ExternalName"
	}
	return text
}

// shelf keeps clusters that have been stopped, each in a folder.
type shelf struct {
	dir     string
	folders int
	log     *progress.Log
}

func newShelf(log *progress.Log) (*shelf, error) {
	dir, err := os.MkdirTemp("", "clusterip-operator-bench-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for clusters: %w", err)
	}
	return &shelf{dir: dir, log: log}, nil
}

func (s *shelf) remove() error { return os.RemoveAll(s.dir) }

// next names a folder that is not there yet.
func (s *shelf) next() string {
	s.folders++
	return filepath.Join(s.dir, fmt.Sprint(s.folders))
}

// build makes a cluster as an old API server leaves it. Most of it is written into etcd while that
// is away; then it is started again, and has to find everything in order.
func (s *shelf) build(ctx context.Context, shape Shape) (folder string, err error) {
	s.log.Step("building a cluster of %s", shape)
	options := shape.old()
	options.Dir = s.next()
	c, err := cluster.Open(ctx, options, s.log)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := c.CreateTemplate(ctx, shape.template()...); err != nil {
		return "", err
	}
	if shape.Mixed {
		for _, name := range seed.MixedNamespaces {
			if err := c.CreateNamespace(ctx, name); err != nil {
				return "", err
			}
		}
	}
	if err := c.API.Stop(); err != nil {
		return "", err
	}
	if err := c.Stock(ctx, shape.copies(), shape.ranges(), shape.Mixed); err != nil {
		return "", err
	}
	if err := c.API.Start(ctx); err != nil {
		return "", err
	}
	return options.Dir, expectOrder(ctx, c)
}

// expectOrder fails if an API server that has just been started found something to repair.
func expectOrder(ctx context.Context, c *cluster.Cluster) error {
	if err := c.Settle(ctx, time.Minute); err != nil {
		return err
	}
	n, err := c.Repairs(ctx, func(*eventsv1.Event) bool { return true })
	if err == nil && n > 0 {
		err = fmt.Errorf("the old API server found fault with %d Services: what was written to etcd is not what it writes itself", n)
	}
	return err
}

// open starts the old API server on a copy of a cluster.
func (s *shelf) open(ctx context.Context, folder string, shape Shape) (*subject, error) {
	options := shape.old()
	options.Dir = s.next()
	if err := os.CopyFS(options.Dir, os.DirFS(folder)); err != nil {
		return nil, fmt.Errorf("copying a cluster: %w", err)
	}
	c, err := cluster.Open(ctx, options, s.log)
	if err != nil {
		return nil, err
	}
	return &subject{Cluster: c, shape: shape}, c.Settle(ctx, 30*time.Second)
}

// put stops a cluster and keeps its folder.
func (s *shelf) put(c *subject) (folder string, err error) { return c.Dir(), c.Stop() }

// discard stops a cluster and removes its folder.
func (s *shelf) discard(c *subject) error {
	folder, err := s.put(c)
	return errors.Join(err, os.RemoveAll(folder))
}
