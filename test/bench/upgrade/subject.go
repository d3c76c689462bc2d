package upgrade

import (
	"context"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
)

// subject is a cluster that something is done to.
type subject struct {
	*cluster.Cluster
	shape Shape
}

// apiServer is the field manager of IPAddresses that the API server writes itself.
const apiServer = "kube-apiserver"

// count returns how many IPAddresses there are, and how many of them the API server has written. It must be the new one.
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
