package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterip-operator/clusterip-operator/controllers/additional"
	"github.com/clusterip-operator/clusterip-operator/controllers/enforcement"
	"github.com/clusterip-operator/clusterip-operator/controllers/growth"
	"github.com/clusterip-operator/clusterip-operator/controllers/policy"
	"github.com/clusterip-operator/clusterip-operator/controllers/reservation"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/refusal"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// sweepInterval is how often what is in flight or cools down is looked at: a cool-down ends that
// much late. Where hundreds of thousands of addresses cool, the pauses are longer, so that no more
// than a twentieth of a processor goes to it.
const sweepInterval = 500 * time.Millisecond

// steer sets up what policies need on every replica, and returns the loops that the leader runs.
func (o Options) steer(ctx context.Context, mgr manager.Manager, index *addressindex.Index, policies *steering.Cache, board *refusal.Board) ([]controller, error) {
	if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	policies.Subscribe(func(_, after *steering.Compiled) { index.SetRules(after) }) // the first to hear of it
	if err := errors.Join(policies.Watch(ctx, mgr.GetCache()), mgr.Add(policies), mgr.Add(sweepInFlight(index))); err != nil {
		return nil, fmt.Errorf("watching policies: %w", err)
	}
	if err := mgr.AddReadyzCheck("policies", ready("policies are not read yet", policies.Synced)); err != nil {
		return nil, err
	}
	if o.Webhook.Enabled() {
		if err := o.admit(ctx, mgr, index, policies); err != nil {
			return nil, fmt.Errorf("serving webhooks: %w", err)
		}
	}
	addresses := &additional.Reconciler{Cluster: cluster(mgr, index, "additional"), Policies: policies}
	addresses.Client = writer(mgr, refusal.Options{What: "additional addresses", Board: board})
	return []controller{
		&reservation.Reconciler{Client: writer(mgr, refusal.Options{What: "reservations and cool-downs", Board: board}), Index: index, Policies: policies, Clock: clock.RealClock{}, APIVersion: o.GroupVersion.String()},
		&policy.Reconciler{Cluster: cluster(mgr, index, "policy"), Policies: policies},
		addresses,
		&enforcement.Reconciler{Cluster: cluster(mgr, index, "enforcement"), Policies: policies, Namespace: o.Namespace},
		&growth.Reconciler{Cluster: cluster(mgr, index, "growth"), Policies: policies, Networks: o.networks(), Unsteered: !o.Webhook.Enabled()},
	}, nil
}

// sweepInFlight ends what is in flight, or cools down, when its time is over.
func sweepInFlight(index *addressindex.Index) everywhere {
	return func(ctx context.Context) error {
		for {
			began := time.Now()
			index.Sweep()
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(max(sweepInterval, 20*time.Since(began))):
			}
		}
	}
}

type everywhere func(context.Context) error

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

func ready(otherwise string, question func() bool) func(*http.Request) error {
	return func(*http.Request) error {
		if !question() {
			return errors.New(otherwise)
		}
		return nil
	}
}
