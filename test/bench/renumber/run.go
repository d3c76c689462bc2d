// Package renumber measures `kubectl clusterip renumber`: how many Services it moves in a second,
// what a connection to an old address costs while the agent serves both, and what kept addresses
// cost the agent. Start with Run.
package renumber

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Options of Run.
type Options struct {
	// Services are moved.
	Services int
	// Workers are how many of them are moved at a time.
	Workers []int
	// Rounds is how often, there and back.
	Rounds int
	// Connections are measured to old and to new addresses, each.
	Connections int
	// Kept is how many addresses are kept for the Services when memory is measured.
	Kept int
}

// Full are the options of what is written down.
func Full() Options {
	return Options{Services: 500, Workers: []int{1, 16}, Rounds: 2, Connections: 10_000, Kept: 10_000}
}

// Quick are those of a try.
func Quick() Options {
	return Options{Services: 50, Workers: []int{1, 16}, Rounds: 1, Connections: 1_000, Kept: 500}
}

// Result is what was measured.
type Result struct {
	Options  Options
	Versions string
	// Moved and GivenUp are Services per second, by Options.Workers.
	Moved, GivenUp []stats.Sample
	Agents         []Agent
}

// The ranges.
const (
	oldRange = "10.96.0.0/16"
	newRange = "10.200.0.0/15"
)

// bench measures in one control plane.
type bench struct {
	Options
	*cluster.Cluster
	log  *progress.Log
	plan string
}

// Run measures everything. It needs root.
func Run(ctx context.Context, o Options, log *progress.Log) (r Result, err error) {
	r = Result{Options: o, Moved: make([]stats.Sample, len(o.Workers)), GivenUp: make([]stats.Sample, len(o.Workers))}
	if os.Geteuid() != 0 {
		return r, errors.New("this makes network namespaces and needs root")
	}
	b := &bench{Options: o, log: log}
	log.Step("starting etcd and kube-apiserver")
	if b.Cluster, err = cluster.Open(ctx, framework.Options{ServiceClusterIPRange: oldRange}, log); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Stop()) }()
	if r.Versions, err = b.Versions(ctx); err != nil {
		return r, err
	}
	if err := b.populate(ctx); err != nil {
		return r, err
	}
	for i, workers := range o.Workers {
		for round := range o.Rounds {
			for _, verb := range []string{"run", "rollback"} {
				log.Step("%s with %d workers, round %d", verb, workers, round)
				if err := b.move(ctx, verb, workers, &r.Moved[i], &r.GivenUp[i]); err != nil {
					return r, err
				}
			}
		}
	}
	r.Agents, err = b.agents(ctx)
	return r, err
}

// populate creates the Services in the old range, then the new one, and the plan.
func (b *bench) populate(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Namespace}}
	if _, err := b.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the namespace: %w", err)
	}
	b.log.Step("creating %d Services", b.Services)
	if _, err := framework.CreateServices(ctx, b.Client, b.Services, 8, func(i int) *corev1.Service {
		return framework.NewService(cluster.Namespace, nameOf(i))
	}); err != nil {
		return err
	}
	if _, err := b.StartControllerManager(ctx, framework.ServiceCIDRController); err != nil {
		return err
	}
	if _, err := b.Networking().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("new", newRange), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the new range: %w", err)
	}
	b.plan = filepath.Join(b.Dir(), "plan.yaml")
	for { // until the new range is ready
		result, err := b.RunPlugin(ctx, framework.PluginOptions{Args: []string{"renumber", "plan", "-n", cluster.Namespace, "--range=kubernetes", "--to=new", "--keep=none", "-o", b.plan}})
		if err != nil || result.ExitCode == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("making the plan: %w: %s", err, result)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func nameOf(i int) string { return fmt.Sprintf("s-%05d", i) }

// move moves all Services, then gives the old addresses up, and notes how many it did in a second.
func (b *bench) move(ctx context.Context, verb string, workers int, moved, givenUp *stats.Sample) error {
	for _, step := range []struct {
		rate *stats.Sample
		args []string
	}{{moved, []string{"--wait=false"}}, {givenUp, []string{"--dns-ttl=0s", "--quiet=0s", "--drain=1ms"}}} {
		took, err := b.renumber(ctx, append([]string{verb, "--qps=0", "--workers=" + strconv.Itoa(workers)}, step.args...)...)
		if err != nil {
			return err
		}
		*step.rate = append(*step.rate, float64(b.Services)/took.Seconds())
	}
	return nil
}

// renumber carries the plan out and returns how long the process took.
func (b *bench) renumber(ctx context.Context, args ...string) (time.Duration, error) {
	start := time.Now()
	result, err := b.RunPlugin(ctx, framework.PluginOptions{Args: append([]string{"renumber", args[0], "--from", b.plan, "--accept-interruption"}, args[1:]...)})
	if err == nil && result.ExitCode > 1 { // 1: addresses are kept
		err = fmt.Errorf("renumber %s: %s", args[0], result)
	}
	return time.Since(start), err
}
