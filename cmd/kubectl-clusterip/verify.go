package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// verifying are the flags of verify.
type verifying struct {
	output      string
	watch, etcd bool
}

func newVerify(m *migrate) *cobra.Command {
	var v verifying
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Is the cluster ready for API servers that allocate from IPAddresses?",
		Long: `Answers whether an API server that starts to allocate from IPAddresses would find anything to repair (exit status 1), and names it.

It also writes the condition clusterip-operator.io/Migrated on the ServiceCIDR "kubernetes", if it may.

With --watch it keeps the IPAddresses in step with the Services until it is ended, as the operator does where it runs: through the API
server, or, where that does not serve them, with --etcd in etcd.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.verify(cmd.Context(), v) },
	}
	addOutput(cmd, &v.output, "table, json or yaml")
	cmd.Flags().BoolVarP(&v.watch, "watch", "w", false, "keep IPAddresses in step with Services until ended")
	cmd.Flags().BoolVar(&v.etcd, "etcd", false, "with --watch: yes, write into etcd, past the API server")
	return cmd
}

func (m *migrate) verify(ctx context.Context, v verifying) error {
	if err := validOutput(v.output); err != nil {
		return err
	}
	if v.watch {
		return m.keep(ctx, v.etcd)
	}
	l, err := m.from.open(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	if l.API != nil && !l.Served && l.Store == nil {
		return l.serves()
	}
	plan, err := l.Confirmed(m.logging(ctx), migration.Options{})
	if err != nil {
		return err
	}
	m.tellCondition(ctx, l, plan)
	plan.Findings = plan.StopFlip() // the others do not matter here
	if err := m.print(plan, migration.KindReport, v.output); err != nil {
		return err
	}
	if v.output == "table" {
		m.tellReady(plan)
	}
	return status(plan)
}

func (m *migrate) tellReady(p migration.Plan) {
	if p.ReadyToFlip() {
		m.say("ready: an API server that allocates from IPAddresses would find nothing to repair")
		return
	}
	m.say("not ready: %d findings that such an API server would have to repair or could not", len(p.Findings))
}

// keep works until ctx ends.
func (m *migrate) keep(ctx context.Context, etcd bool) error {
	needs := []need{}
	if etcd {
		needs = append(needs, needEtcd)
	} else {
		needs = append(needs, needAPI)
	}
	l, err := m.from.open(ctx, needs...)
	if err != nil {
		return err
	}
	defer l.close()
	switch {
	case !etcd && !l.Served:
		return fmt.Errorf("%w; with --etcd it works in etcd", l.serves())
	case etcd && l.Served:
		return fmt.Errorf("the API server serves IPAddresses (%s): leave out --etcd, so that it is told of every change", l.APIVersion)
	}
	world, err := l.World(m.logging(ctx))
	if err != nil {
		return err
	}
	plan := migration.NewPlan(world, migration.Options{})
	if blocked := plan.Blocked(); len(blocked) > 0 {
		return &migration.BlockedError{Findings: blocked}
	}
	keeper := migration.NewKeeper(l.Sources, plan, etcd)
	if err := m.follow(m.logging(ctx), l, keeper, etcd); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // it was asked to end
}

// follow feeds the keeper and lets it work.
func (m *migrate) follow(ctx context.Context, l *link, keeper *migration.Keeper, etcd bool) error {
	group, ctx := errgroup.WithContext(ctx)
	told := make(chan struct{})
	tell := sync.OnceFunc(func() { close(told) })
	group.Go(func() error {
		select {
		case <-told:
			keeper.Run(ctx, func(n int) { m.say("in step: %d addresses", n) })
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	if etcd {
		group.Go(func() error { return keeper.FollowStore(ctx, l.Store, tell) })
		return group.Wait()
	}
	informers, err := cache.New(l.config, cache.Options{Scheme: l.API.Scheme()})
	if err != nil {
		return err
	}
	group.Go(func() error { return informers.Start(ctx) })
	group.Go(func() error {
		defer tell()
		return keeper.FollowAPI(ctx, informers)
	})
	return group.Wait()
}
