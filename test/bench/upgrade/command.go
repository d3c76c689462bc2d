package upgrade

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Usage is what one run of a command took.
type Usage struct {
	Took time.Duration
	// Peak is the most memory that it occupied, in bytes, as seen every few milliseconds.
	Peak int64
	// said is what it printed.
	said string
}

// Exit statuses of the commands.
const (
	clean    = 0
	findings = 1
)

// migrate runs `kubectl clusterip migrate`, with the ways to the API server and to etcd, to its end and wants a certain exit status.
func (s *subject) migrate(ctx context.Context, status int, args ...string) (Usage, error) {
	return s.measure(ctx, status, framework.PluginOptions{Args: slices.Concat([]string{"migrate"}, args, s.EtcdArgs())})
}

// offline is migrate without an API server.
func (s *subject) offline(ctx context.Context, status int, args ...string) (Usage, error) {
	return s.measure(ctx, status, framework.PluginOptions{
		Kubeconfig: framework.NoKubeconfig, Args: slices.Concat([]string{"migrate"}, args, s.EtcdArgs(), []string{"--offline"}),
	})
}

func (s *subject) measure(ctx context.Context, status int, options framework.PluginOptions) (u Usage, err error) {
	// The first run of all builds the command, which is not part of it.
	if _, err := s.RunPlugin(ctx, framework.PluginOptions{Args: []string{"--help"}}); err != nil {
		return u, err
	}
	start := time.Now()
	plugin, err := s.StartPlugin(ctx, options)
	if err != nil {
		return u, err
	}
	if u.Peak, err = watchMemory(ctx, &plugin.Process); err != nil {
		return u, err
	}
	u.Took, u.said = time.Since(start), plugin.LogTail(20)
	if code := plugin.ExitCode(); code != status {
		return u, fmt.Errorf("%q ended with exit code %d instead of %d; the end of what it printed:\n%s", options.Args, code, status, u.said)
	}
	return u, nil
}

// watchMemory returns the most memory that a process has occupied when it has ended. The kernel keeps the peak, but not beyond the end.
func watchMemory(ctx context.Context, p *framework.Process) (peak int64, err error) {
	const pause = 5 * time.Millisecond
	for {
		if now, err := p.PeakRSS(); err == nil {
			peak = now
		}
		select {
		case <-p.Done():
			return peak, nil
		case <-ctx.Done():
			return peak, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
