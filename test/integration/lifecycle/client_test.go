package lifecycle_test

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// client is one of the users who change the cluster, each with Services and addresses of their own.
type client struct {
	c    *cluster.Cluster
	id   int
	live map[string]*corev1.Service // what the API server has confirmed and not been asked to delete
}

func newClient(c *cluster.Cluster, id int) *client {
	return &client{c: c, id: id, live: map[string]*corev1.Service{}}
}

// work makes five changes in each round. An IPAddress is deleted by hand only if it lies in the static band: an address of
// the dynamic band could be given to another Service before it is restored, which nobody can mend.
func (c *client) work(ctx context.Context, done *atomic.Int64) error {
	for round := range rounds {
		dynamic, fixed := c.name("dynamic", round), c.name("fixed", round)
		steps := []func() error{
			func() error { return c.create(ctx, dynamic, framework.PreferDualStack()) },
			func() error { return c.create(ctx, fixed, framework.WithClusterIPs(c.address(round))) },
			func() error { return c.loseAddress(ctx, c.address(round)) },
			c.third(ctx, round, dynamic, fixed),
			func() error { return c.leak(ctx, round) },
		}
		for i, step := range steps {
			if err := step(); err != nil {
				return fmt.Errorf("client %d, round %d, step %d: %w", c.id, round, i, err)
			}
			done.Add(1)
		}
	}
	return nil
}

// third is what changes from round to round: a Service goes that is whole, or one that has just lost its IPAddress, or the
// same IPAddress is lost again.
func (c *client) third(ctx context.Context, round int, dynamic, fixed string) func() error {
	switch round % 3 {
	case 0:
		return func() error { return c.delete(ctx, dynamic) }
	case 1:
		return func() error { return c.delete(ctx, fixed) }
	default:
		return func() error { return c.loseAddress(ctx, c.address(round)) }
	}
}

func (c *client) name(kind string, round int) string {
	return fmt.Sprintf("%s-%d-%d", kind, c.id, round)
}

// address is in the static band of the default range, which nobody is given who does not ask for it.
func (c *client) address(round int) string { return fmt.Sprintf("10.96.0.%d", 10+c.id*rounds+round) }

func (c *client) create(ctx context.Context, name string, options ...framework.ServiceOption) error {
	service, err := c.c.TryService(ctx, name, options...)
	if err == nil {
		c.live[name] = service
	}
	return err
}

func (c *client) delete(ctx context.Context, name string) error {
	delete(c.live, name)
	return c.c.Client().CoreV1().Services(cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// loseAddress deletes an IPAddress, unless it has not been restored since the last time.
func (c *client) loseAddress(ctx context.Context, address string) error {
	err := c.c.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// leak writes an IPAddress as an API server does that dies before it writes the Service.
func (c *client) leak(ctx context.Context, round int) error {
	address := fmt.Sprintf("fd00:10:96::%x", 16+c.id*rounds+round) // static, so that no client is given it
	_, err := c.c.Networking().IPAddresses().Create(ctx,
		framework.NewIPAddress(address, cluster.Namespace, c.name("never", round)), metav1.CreateOptions{})
	return err
}
