// Package plugin measures the commands of `kubectl clusterip` on a large cluster, beside what
// kubectl needs to list the same objects. Start with Run.
package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Options of Run.
type Options struct {
	// Sizes are the numbers of Services, each with an address of both families, in ascending order.
	Sizes []int
	// Rounds is how often each command runs, in turn.
	Rounds int
}

// Full are the options of what is written down.
func Full() Options { return Options{Sizes: []int{10_000, 100_000}, Rounds: 2} }

// Quick are those of a try.
func Quick() Options { return Options{Sizes: []int{500, 1_000}, Rounds: 1} }

// command is what is measured. Without a target it is there to compare.
type command struct {
	name   string
	args   []string // of the plugin, or of kubectl
	peer   bool
	most   int     // Services; with more it takes minutes and is left out; 0 for any
	code   int     // with which it ends
	target float64 // seconds, at the smallest size
	// page is measured in a browser, in the place of a process.
	page func(*console) (time.Duration, error)
}

var commands = []command{
	{name: "kubectl clusterip version", args: []string{"version"}, target: 0.06},
	{name: "kubectl clusterip status", args: []string{"status"}, code: 1}, // the manager is no Deployment here
	{name: "kubectl clusterip ranges", args: []string{"ranges"}, target: 0.5},
	{name: "kubectl clusterip why ADDRESS (in use)", args: []string{"why", cluster.TemplateAddressV6}, target: 0.5},
	{name: "kubectl clusterip why ADDRESS (free)", args: []string{"why", "10.96.0.200"}},
	{name: "kubectl clusterip why service/...", args: []string{"why", "service/" + cluster.Template}},
	{name: "kubectl clusterip check", args: []string{"check"}, target: 3},
	{name: "kubectl clusterip addresses", args: []string{"addresses"}},
	{name: "kubectl clusterip addresses -o json", args: []string{"addresses", "-o", "json"}},
	{name: "kubectl clusterip map kubernetes", args: []string{"map", "kubernetes"}},
	{name: "console: first contentful paint", page: (*console).paint, target: 1},
	{name: "console: the ranges are on the screen", page: (*console).ranges},
	{name: "console: the addresses are on the screen", page: (*console).addresses},
	{name: "kubectl get servicecidrs", args: []string{"get", "servicecidrs"}, peer: true},
	{name: "kubectl get ipaddresses", args: []string{"get", "ipaddresses"}, peer: true, most: 10_000},
}

// mostMemory is what each process may occupy at the largest size, in MiB.
const mostMemory = 400

// Result is what was measured.
type Result struct {
	Options  Options
	Versions string
	// Sizes are as in Options.
	Sizes []Size
}

// Size is what was measured with one number of Services, by command.
type Size struct {
	// Seconds are the times of whole processes, MiB the most memory of each.
	Seconds, MiB []stats.Sample
	// Stored is what the objects take elsewhere.
	Stored stored
}

// Run measures all commands at all sizes.
func Run(ctx context.Context, o Options, log *progress.Log) (r Result, err error) {
	r.Options = o
	c, err := cluster.StartDual(ctx, log)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if r.Versions, err = c.Versions(ctx); err != nil {
		return r, err
	}
	for _, services := range o.Sizes {
		size, err := measure(ctx, c, services, o.Rounds, log)
		if err != nil {
			return r, fmt.Errorf("with %d Services: %w", services, err)
		}
		r.Sizes = append(r.Sizes, size)
	}
	return r, nil
}

// measure measures all commands at one size, in turn.
func measure(ctx context.Context, c *cluster.Cluster, services, rounds int, log *progress.Log) (s Size, err error) {
	s = Size{Seconds: make([]stats.Sample, len(commands)), MiB: make([]stats.Sample, len(commands))}
	if err := grow(ctx, c, services-2, log); err != nil {
		return s, err
	}
	if s.Stored, err = measureStored(ctx, c); err != nil {
		return s, err
	}
	manager, err := c.StartManager(ctx, framework.ManagerOptions{})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, manager.Stop()) }()
	if err := counted(ctx, c, services); err != nil {
		return s, err
	}
	page, err := openConsole(ctx, c)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, page.close()) }()
	for round := range rounds + 1 { // the first one warms up
		for i, one := range commands {
			if one.most > 0 && services > one.most {
				continue
			}
			log.Step("%d Services, round %d: %s", services, round, one.name)
			took, peak, err := one.run(ctx, c, page)
			if err != nil {
				return s, fmt.Errorf("%s: %w", one.name, err)
			}
			if round > 0 {
				s.Seconds[i], s.MiB[i] = append(s.Seconds[i], took.Seconds()), append(s.MiB[i], float64(peak)/(1<<20))
			}
		}
	}
	return s, nil
}

// counted waits until the operator has told its counts.
func counted(ctx context.Context, c *cluster.Cluster, services int) error {
	err := wait.PollUntilContextTimeout(ctx, time.Second, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		o, err := c.Client.NetworkingV1().ServiceCIDRs().Get(ctx, v1alpha1.DefaultServiceCIDR, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		var usage v1alpha1.ServiceCIDRUsage
		err = json.Unmarshal([]byte(o.Annotations[v1alpha1.AnnotationUsage]), &usage)
		return err == nil && len(usage.Ranges) > 0 && usage.Ranges[0].Static.Allocated+usage.Ranges[0].Dynamic.Allocated >= int64(services), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the counts of the operator: %w", err)
	}
	return nil
}

// run runs a command and returns how long its process took and its memory, or measures in the
// browser and returns the memory of the console.
func (one command) run(ctx context.Context, c *cluster.Cluster, page *console) (took time.Duration, peak int64, err error) {
	if one.page != nil {
		if took, err = one.page(page); err == nil {
			peak, err = page.plugin.PeakRSS()
		}
		return took, peak, err
	}
	program, err := framework.PluginProgram()
	if one.peer {
		program, err = framework.Assets("kubernetes-1.37", "kubectl")
		program += "/kubectl"
	}
	if err != nil {
		return 0, 0, err
	}
	p, err := measureProcess(ctx, []string{"KUBECONFIG=" + c.Kubeconfig(), "KUBECACHEDIR=" + c.Dir() + "/kubectl-cache"}, program, one.args...)
	if err == nil && p.Code != one.code {
		err = fmt.Errorf("exit code %d: %s", p.Code, p.Told)
	}
	return p.Took, p.Peak, err
}
