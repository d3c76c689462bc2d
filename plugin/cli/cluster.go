package cli

import (
	"context"
	"fmt"
	"io"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// Cluster is an open connection to an API server.
type Cluster struct {
	client.WithWatch
	// Config is how to reach the API server, Discovery asks it what it serves.
	Config    *rest.Config
	Discovery discovery.DiscoveryInterface
	// progress takes notes about what takes long.
	progress io.Writer
	// Policies: the API server serves ServiceCIDRPolicies.
	Policies bool
	// Namespace is that of the kubeconfig's context.
	Namespace string
	// Clock is the API server's.
	Clock *ServerClock
	// opened is what View has read.
	opened *view.View
}

// UID is the UID of the cluster, by which files know it.
func (s *Cluster) UID(ctx context.Context) (types.UID, error) {
	return migration.Sources{API: s}.Cluster(ctx)
}

// ListNamed lists objects, and says which permission is missing.
func (s *Cluster) ListNamed(ctx context.Context, into client.ObjectList, what string, options ...client.ListOption) error {
	if err := s.List(ctx, into, options...); err != nil {
		return fmt.Errorf("listing %s: %w", what, Permission(err))
	}
	return nil
}

// RangesAndPolicies lists all ServiceCIDRs, and all policies where the API server serves them.
func (s *Cluster) RangesAndPolicies(ctx context.Context) (ranges *networkingv1.ServiceCIDRList, policies *v1alpha1.ServiceCIDRPolicyList, err error) {
	ranges, policies = &networkingv1.ServiceCIDRList{}, &v1alpha1.ServiceCIDRPolicyList{}
	if v := s.opened; v != nil { // has them, and goes on when the API server is away
		err = v.List(ctx, ranges)
		if err == nil && s.Policies {
			err = v.List(ctx, policies)
		}
		return ranges, policies, err
	}
	err = s.ListNamed(ctx, ranges, "ServiceCIDRs")
	if err == nil && s.Policies {
		err = s.ListNamed(ctx, policies, "ServiceCIDRPolicies")
	}
	return ranges, policies, err
}

// Permission adds to a refusal what an admin can do about it.
func Permission(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; the ClusterRole clusterip-operator-view has what this command reads, and is part of view; `why`, `map` and `addresses` answer by one namespace with -n", err)
	}
	return err
}

// View reads the cluster as the operator sees it, once.
func (s *Cluster) View(ctx context.Context) (*view.View, error) {
	if s.opened != nil {
		return s.opened, nil
	}
	v, err := s.reading(func(c view.Cluster) (*view.View, error) { return view.Open(ctx, c) })
	s.opened = v
	return v, err
}

// ViewFor reads what a question needs, unless View has read all.
func (s *Cluster) ViewFor(ctx context.Context, q view.Question) (*view.View, error) {
	if s.opened != nil {
		return s.opened, nil
	}
	return s.reading(func(c view.Cluster) (*view.View, error) { return view.OpenFor(ctx, c, q) })
}

// reading opens a view, and tells on a terminal how far it is.
func (s *Cluster) reading(open func(view.Cluster) (*view.View, error)) (*view.View, error) {
	line := newReading(s.progress)
	defer line.end()
	v, err := open(view.Cluster{Config: s.Config, Live: s, Policies: s.Policies, Progress: line.tell})
	if err != nil {
		return nil, Permission(err)
	}
	return v, nil
}

// EachPage lists objects by pages into list, calls each for every one, and says which permission is
// missing. anew is called when the list begins: what each has noted before does not count.
func (s *Cluster) EachPage(ctx context.Context, list client.ObjectList, what string, anew func(), each func() error, options ...client.ListOption) error {
	line := newReading(s.progress)
	defer line.end()
	err := view.Pages(ctx, s, list, 0, func(p view.Page) error {
		if p.Before == 0 {
			anew()
		}
		line.tell(what, p.Before+meta.LenList(list), p.Before+meta.LenList(list)+p.Left)
		return each()
	}, options...)
	if err != nil {
		return fmt.Errorf("listing %s: %w", what, Permission(err))
	}
	return nil
}
