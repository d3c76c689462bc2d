// Package plugin measures the commands of `kubectl clusterip` on a large cluster, beside what
// kubectl needs to list the same objects. Start with Run.
package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Options of Run.
type Options struct {
	// Services is how many there are, each with one address.
	Services int
	// Rounds is how often each command runs, in turn.
	Rounds int
}

// Full are the options of what is written down.
func Full() Options { return Options{Services: 65_000, Rounds: 3} }

// Quick are those of a try.
func Quick() Options { return Options{Services: 1_000, Rounds: 2} }

// command is what is measured. Without a target it is there to compare.
type command struct {
	name   string
	args   []string // of the plugin, or of kubectl
	peer   bool
	target float64 // seconds
	// page is measured in a browser, in the place of a process.
	page func(*console) (time.Duration, error)
}

var commands = []command{
	{name: "kubectl clusterip version", args: []string{"version"}, target: 0.06},
	{name: "kubectl clusterip ranges", args: []string{"ranges"}, target: 0.5},
	{name: "kubectl clusterip why service/...", args: []string{"why", "service/" + cluster.Namespace + "/template"}},
	{name: "kubectl clusterip check", args: []string{"check"}, target: 3},
	{name: "kubectl clusterip addresses", args: []string{"addresses"}},
	{name: "kubectl clusterip map kubernetes", args: []string{"map", "kubernetes"}},
	{name: "console: first contentful paint", page: (*console).paint, target: 1},
	{name: "console: the ranges are on the screen", page: (*console).ranges},
	{name: "kubectl get servicecidrs", args: []string{"get", "servicecidrs"}, peer: true},
	{name: "kubectl get ipaddresses", args: []string{"get", "ipaddresses"}, peer: true},
}

// Result is what was measured.
type Result struct {
	Options  Options
	Versions string
	// Seconds are the times of whole processes, by command.
	Seconds []stats.Sample
}

// Run measures all commands, in turn.
func Run(ctx context.Context, o Options, log *progress.Log) (r Result, err error) {
	r = Result{Options: o, Seconds: make([]stats.Sample, len(commands))}
	c, err := cluster.Start(ctx, log)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if r.Versions, err = c.Versions(ctx); err != nil {
		return r, err
	}
	if err := c.Grow(ctx, o.Services-2); err != nil {
		return r, err
	}
	manager, err := c.StartManager(ctx, framework.ManagerOptions{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, manager.Stop()) }()
	if err := counted(ctx, c, o.Services); err != nil {
		return r, err
	}
	page, err := openConsole(ctx, c)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, page.close()) }()
	for round := range o.Rounds + 1 { // the first one warms up
		for i, one := range commands {
			log.Step("round %d: %s", round, one.name)
			took, err := one.run(ctx, c, page)
			if err != nil {
				return r, err
			}
			if round > 0 {
				r.Seconds[i] = append(r.Seconds[i], took.Seconds())
			}
		}
	}
	return r, nil
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

// run runs a command and returns how long its process took, or measures in the browser.
func (one command) run(ctx context.Context, c *cluster.Cluster, page *console) (time.Duration, error) {
	if one.page != nil {
		return one.page(page)
	}
	start := time.Now()
	if one.peer {
		kubectl, err := framework.Assets("kubernetes-1.37", "kubectl")
		if err != nil {
			return 0, err
		}
		cmd := exec.CommandContext(ctx, kubectl+"/kubectl", one.args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
		start = time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%s: %w: %.500s", one.name, err, out)
		}
		return time.Since(start), nil
	}
	result, err := c.RunPlugin(ctx, framework.PluginOptions{Args: one.args})
	if err == nil && result.ExitCode > 0 {
		err = fmt.Errorf("%s: %.500s", one.name, result)
	}
	return time.Since(start), err
}

// Tables has a row for each command.
func (r Result) Tables() []report.Table {
	table := report.Table{Header: []string{fmt.Sprintf("with %s Services", stats.Count(r.Options.Services)), "s, median", "target"}}
	for i, one := range commands {
		target := ""
		if one.target > 0 {
			target = stats.Number(one.target)
		}
		table.Add(one.name, r.Seconds[i].String(), target)
	}
	return []report.Table{table}
}

// Notes say which targets were reached.
func (r Result) Notes() (all []string) {
	for i, one := range commands {
		if one.target > 0 {
			word := "reached"
			if r.Seconds[i].Median() > one.target {
				word = "missed"
			}
			all = append(all, fmt.Sprintf("Target %s: `%s` within %s s (%s).", word, one.name, stats.Number(one.target), stats.Number(r.Seconds[i].Median())))
		}
	}
	return all
}
