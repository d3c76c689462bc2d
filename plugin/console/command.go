package console

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/singleflight"

	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/health"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// New returns the command `console`, which serves the page until it is interrupted.
func New(a *cli.Session) *cobra.Command {
	var port uint16
	var noBrowser bool
	var namespace string
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Look at ranges, addresses, policies and findings in a browser",
		Long: `Serves a page on the loopback address of this machine, with your credentials and to you alone, and opens a browser. It shows what the other commands print, and follows the
cluster while it is open. It changes nothing, and nothing listens in the cluster. The page needs no network but this machine's; the address has a random token, without
which no request gets an answer: don't pass it on.`,
		Example: `  kubectl clusterip console
  kubectl clusterip console --port=8090 --no-browser`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), a, port, namespace, !noBrowser)
		},
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "port to listen on; 0 takes one that is free")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address")
	check.NamespaceFlag(cmd, &namespace)
	return cmd
}

func run(ctx context.Context, a *cli.Session, port uint16, namespace string, browse bool) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("listening: %w; give another --port", err)
	}
	defer func() { _ = l.Close() }()
	v, err := s.View(ctx)
	if err != nil {
		return err
	}
	token := newToken()
	url := fmt.Sprintf("http://%s/%s/", l.Addr(), token)
	cli.Write(a.Out, "The console of %s is at %s\nIt is there until you press Ctrl-C.\n", s.Config.Host, url)
	if browse {
		failed := func(err error) { cli.Write(a.ErrOut, "%v; open the address yourself\n", err) }
		if clean, err := openBrowser(url, failed); err != nil {
			failed(err)
		} else {
			defer clean()
		}
	}
	return serve(ctx, l, token, newSources(ctx, s, v, namespace))
}

// newSources names what a page can ask. Costly answers are kept for seconds, for all pages.
func newSources(ctx context.Context, s *cli.Cluster, v *view.View, namespace string) map[string]Source {
	d := &data{
		session: s, view: v,
		addresses: remembered(ctx, 5*time.Second, func(ctx context.Context) (addresses, error) { return newAddresses(ctx, mostAddresses, v.EachAddress) }),
		allocations: remembered(ctx, 10*time.Second, func(ctx context.Context) (allocations, error) {
			all, err := v.Allocations(ctx)
			return allocations{all, time.Now()}, err
		}),
		report: remembered(ctx, 5*time.Second, func(ctx context.Context) (check.Report, error) { return check.Look(ctx, s, namespace) }),
		// This creates a Service for trial, and asks the agents.
		status: remembered(ctx, 30*time.Second, func(ctx context.Context) (health.Installation, error) { return health.Look(ctx, s, namespace) }),
	}
	return map[string]Source{
		"state": d.state, "ranges": d.ranges, "history": d.history, "addresses": listed(ctx, d.addresses), "map": d.chart, "policies": d.policies, "renumberings": d.renumberings,
		"findings": d.findings, "health": d.installation, "why": d.why, "suggestions": d.suggestions,
	}
}

// remembered returns a function that asks again when the last answer is older than age. Callers
// that come meanwhile share one question, which only the end of ctx stops, not that of a caller.
func remembered[T any](ctx context.Context, age time.Duration, ask func(context.Context) (T, error)) func() (T, error) {
	type answer struct {
		value T
		at    time.Time
	}
	var last atomic.Pointer[answer]
	var group singleflight.Group
	return func() (T, error) {
		if a := last.Load(); a != nil && time.Since(a.at) < age {
			return a.value, nil
		}
		value, err, _ := group.Do("", func() (any, error) {
			value, err := ask(ctx)
			if err == nil {
				last.Store(&answer{value, time.Now()})
			}
			return value, err
		})
		return value.(T), err
	}
}
