package framework

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// CreateServices creates the Services build(0) to build(n-1) with a number of workers and returns what the API server
// made of them, in that order. It gives up at the first refusal. build is called concurrently.
func CreateServices(
	ctx context.Context, client kubernetes.Interface, n, workers int, build func(i int) *corev1.Service,
) ([]*corev1.Service, error) {
	created := make([]*corev1.Service, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		group.Go(func() (err error) {
			service := build(i)
			created[i], err = client.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("creating Service %s/%s: %w", service.Namespace, service.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return created, nil
}
