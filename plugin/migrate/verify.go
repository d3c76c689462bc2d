package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// verifying are the flags of verify.
type verifying struct {
	output      string
	watch, etcd bool
	pace        batch.Pace
}

func newVerify(m *command) *cobra.Command {
	var v verifying
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Is the cluster ready for API servers that allocate from IPAddresses?",
		Long: `Answers whether an API server that starts to allocate from IPAddresses would find anything to repair (exit status 1), and names it.

It also writes the condition clusterip-operator.io/Migrated on the ServiceCIDR "kubernetes", if it may.

With --watch it keeps the IPAddresses in step with the Services until it is ended, as the operator does where it runs: through the API
server, or, where that does not serve them, with --etcd in etcd.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.verify(cmd.Context(), v) },
	}
	cli.AddOutput(cmd, &v.output)
	cmd.Flags().BoolVarP(&v.watch, "watch", "w", false, "keep IPAddresses in step with Services until ended")
	cmd.Flags().BoolVar(&v.etcd, "etcd", false, "with --watch: yes, write into etcd, past the API server")
	cli.AddPace(cmd, &v.pace)
	return cmd
}

func (m *command) verify(ctx context.Context, v verifying) error {
	if err := cli.ValidOutput(v.output); err != nil {
		return err
	}
	switch {
	case !cli.ValidPace(v.pace):
		return cli.ErrPace
	case v.watch:
		return m.keep(ctx, v)
	}
	l, err := m.from.Open(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	if l.API != nil && !l.Served && l.Store == nil {
		return l.serves()
	}
	plan, err := l.Confirmed(m.Logging(ctx), migration.Options{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(plan.Findings, migration.Finding.Unknown) {
		m.tellCondition(ctx, l, plan)
	}
	plan.Findings = plan.StopFlip() // the others do not matter here
	if err := m.print(plan, migration.KindReport, v.output); err != nil {
		return err
	}
	if cli.AsTable(v.output) {
		m.tellReady(plan)
	}
	return status(plan)
}

func (m *command) tellReady(p migration.Plan) {
	if p.ReadyToFlip() {
		m.Say("ready: an API server that allocates from IPAddresses would find nothing to repair")
		if p.Passing > 0 {
			m.Say("%d Services or IPAddresses were changing meanwhile: let the operator, or verify --watch, follow until the upgrade", p.Passing)
		}
		return
	}
	m.Say("not ready: %d findings that such an API server would have to repair or could not", len(p.Findings))
}

// keep works until ctx ends.
func (m *command) keep(ctx context.Context, v verifying) error {
	through := needAPI
	if v.etcd {
		through = needEtcd
	}
	l, err := m.from.Open(ctx, through)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx = m.Logging(ctx)
	if err := l.keepable(ctx, v.etcd); err != nil {
		return err
	}
	snapshot, err := l.Snapshot(ctx)
	if err != nil {
		return err
	}
	plan := migration.NewPlan(snapshot, migration.Options{})
	if blocked := plan.Blocked(); len(blocked) > 0 {
		return &migration.BlockedError{Findings: blocked}
	}
	err = m.follow(ctx, l, migration.NewSyncer(l.Sources, plan, v.etcd, v.pace), v.etcd)
	switch {
	case errors.Is(err, errOtherVersion):
		m.Say("the API server has changed: %v", err)
		return nil
	case errors.Is(err, context.Canceled):
		return nil // it was asked to end
	}
	return err
}

// keepable reports whether IPAddresses can be kept in etcd, or through the API server.
func (l *Link) keepable(ctx context.Context, etcd bool) error {
	switch {
	case !etcd && !l.Served:
		return fmt.Errorf("%w; with --etcd it works in etcd", l.serves())
	case etcd && l.Served:
		return fmt.Errorf("the API server serves IPAddresses (%s): leave out --etcd, so that it is told of every change", l.APIVersion)
	case etcd:
		return migration.Plain(ctx, l.Store)
	default:
		return nil
	}
}

// errOtherVersion says that the API server is not the one of the start, as after an upgrade.
var errOtherVersion = errors.New("it serves another version of networking.k8s.io")

// versionCheck is how often the served version is asked for.
const versionCheck = time.Minute

// awaitOtherVersion ends with errOtherVersion when there is nothing to follow any more.
func (l *Link) awaitOtherVersion(ctx context.Context) error {
	d, err := discovery.NewDiscoveryClientForConfig(l.config)
	if err != nil {
		return err
	}
	tick := time.NewTicker(versionCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		// An API server that cannot be asked just now has not changed.
		if now, err := kube.Discover(d); err == nil && now.String() != l.APIVersion {
			return fmt.Errorf("%w: %s instead of %s, so that it allocates from IPAddresses itself", errOtherVersion, now, l.APIVersion)
		}
	}
}

// cacheOptions keep of each object what is needed to judge it.
func cacheOptions(l *Link) cache.Options {
	o := kube.CacheOptions(false)
	o.Scheme = l.API.Scheme()
	o.ReaderFailOnMissingInformer = false
	o.ByObject = map[client.Object]cache.ByObject{}
	for kind, options := range kube.CacheOptions(false).ByObject {
		if _, ok := kind.(*corev1.Service); ok { // an IPAddress needs its signature
			o.ByObject[kind] = options
		}
	}
	return o
}

// follow feeds the syncer and lets it work.
func (m *command) follow(ctx context.Context, l *Link, syncer *migration.Syncer, etcd bool) error {
	group, ctx := errgroup.WithContext(ctx)
	told := make(chan struct{})
	tell := sync.OnceFunc(func() { close(told) })
	group.Go(func() error {
		select {
		case <-told:
			syncer.Run(ctx, func(n int) { m.Say("in step: %d addresses", n) })
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	if etcd {
		group.Go(func() error { return syncer.FollowStore(ctx, l.Store, tell) })
		return group.Wait()
	}
	informers, err := cache.New(l.config, cacheOptions(l))
	if err != nil {
		return err
	}
	group.Go(func() error { return informers.Start(ctx) })
	group.Go(func() error {
		if err := syncer.FollowAPI(ctx, informers); err != nil {
			return err // with half of the Services, the IPAddresses of the others would be orphans
		}
		tell()
		return nil
	})
	group.Go(func() error { return l.awaitOtherVersion(ctx) })
	return group.Wait()
}
