package allocation

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// services creates Services, which get their address from the allocator inside the API server.
type services struct {
	cluster *cluster.Cluster
	taken   int
}

func (s *services) allocate(ctx context.Context, l load.Load) (measurement, error) {
	outcome, err := l.Run(ctx, func(ctx context.Context, i int) error {
		service := framework.NewService(cluster.Namespace, s.name(i))
		if _, err := s.cluster.Client.CoreV1().Services(cluster.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating Service %s: %w", service.Name, err)
		}
		return nil
	})
	s.taken = outcome.Calls
	return measured(outcome), err
}

func (s *services) release(ctx context.Context) error {
	_, err := giveBack(s.taken).Run(ctx, func(ctx context.Context, i int) error {
		err := s.cluster.Client.CoreV1().Services(cluster.Namespace).Delete(ctx, s.name(i), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting Service %s: %w", s.name(i), err)
		}
		return nil
	})
	s.taken = 0
	return err
}

func (s *services) name(i int) string { return fmt.Sprintf("created-%06d", i) }
