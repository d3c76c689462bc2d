package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Where config/default puts the manager.
const (
	operatorNamespace  = "clusterip-operator-system"
	operatorDeployment = "clusterip-operator-manager"
	operatorAccount    = "clusterip-operator-manager"
	samples            = "clusterip-operator-samples"
)

// tour is one walk. Steps run in order and share the control plane.
type tour struct {
	out   io.Writer
	plane *framework.ControlPlane
	stop  func() error // all that runs
	// manager is a process on loopback; with nodes there are pods in its place. The controllers run
	// there once the tour is over.
	manager     *framework.Manager
	controllers *framework.ControllerManager
	// metrics are those of a manager.
	metrics func(ctx context.Context) (framework.Metrics, error)
	// prefix is what kubectl needs before it to reach the API server, goOn tells what else to look at.
	prefix string
	goOn   func() string
	// config is config/ as an administrator has filled it in; only with nodes.
	config string
}

// step is a part of the tour: what it says it does, and the doing, which fails if that is not so.
type step struct {
	title string
	do    func(context.Context) error
}

// onLoopback is the tour on a control plane without nodes.
func (t *tour) onLoopback() []step {
	return append([]step{
		{"Start etcd and kube-apiserver on loopback", t.startControlPlane},
		{"Apply config/default: namespace, service account, RBAC, CRD, webhooks, Deployment", t.applyConfig},
		{"Run the manager with the token of that service account, and no more rights than it has; it answers the webhooks", t.startManager},
	}, t.steps()...)
}

// steps are those of every tour.
func (t *tour) steps() []step {
	return []step{
		{"Apply config/samples: three ServiceCIDRs and five Services in two families", t.applySamples},
		{"The addresses, each with its Service and its band", t.showAddresses},
		{"The ranges, with bands and use", t.showRanges},
		{"Delete the IPAddress of a living Service, by mistake, and as a controller gone wrong", t.deleteAddress},
		{"Delete a ServiceCIDR that is in use", t.deleteRange},
		{"Delete what blocks it", t.unblockRange},
		{"Fill a small range: the warning comes before the failure", t.fillRange},
		{"Give a tenant a range of its own: others are kept out of it", t.tenantRange},
		{"Reserve addresses for a Service that is still to come", t.reserve},
		{"Let the addresses of a deleted Service cool down", t.coolDown},
		{"Give a Service one more address of each family, from ranges of its choice", t.addMore},
	}
}

// walk runs the steps, then stays until ctx ends.
func (t *tour) walk(ctx context.Context, steps []step, once bool) error {
	for i, s := range steps {
		t.say("\n[%d/%d] %s", i+1, len(steps), s.title)
		start := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("step %d, %q: %w", i+1, s.title, err)
		}
		t.say("      ok, %.1f s", time.Since(start).Seconds())
	}
	t.say("\nEvery step did what it says.")
	if once {
		return nil
	}
	if err := t.sayHowToGoOn(); err != nil {
		return err
	}
	return t.stay(ctx)
}

func (t *tour) end() error {
	if t.stop == nil {
		return nil
	}
	t.say("\nStopping everything.")
	return t.stop()
}

// sayHowToGoOn tells how to reach the cluster from another terminal, and what to look at.
func (t *tour) sayHowToGoOn() error {
	kubectl, err := framework.Assets("kubernetes-1.37", "kubectl")
	if err != nil {
		return err
	}
	plugin, err := framework.PluginProgram()
	if err != nil {
		return err
	}
	t.say("%s", t.howToGoOn(t.plane.Kubeconfig(), plugin, kubectl))
	return nil
}

// howToGoOn says it for a kubeconfig, the plugin's path and kubectl's folder. With nodes there is
// no word of the console, which a browser of this machine does not reach in the nodes' network, and
// none of the guides, for which only toStay makes room.
func (t *tour) howToGoOn(kubeconfig, plugin, kubectl string) string {
	console := "\n  kubectl clusterip console          # in a browser: it prints the address, and opens it"
	guides := "\n\n" + goOnWithGuides
	if t.prefix != "" {
		console, guides = "", ""
	}
	return fmt.Sprintf(`
The control plane stays up until Ctrl-C. In another terminal:

  export KUBECONFIG=%s
  export PATH=%s:%s:$PATH%s

The plugin, %s:

  kubectl clusterip status
  kubectl clusterip ranges
  kubectl clusterip map kubernetes
  kubectl clusterip why service/%s/sample-dual-stack%s

And what kubectl shows:

  kubectl get ipaddresses -L clusterip-operator.io/band --server-print=false
  kubectl describe servicecidr kubernetes
  kubectl explain scp.spec
  kubectl get events --sort-by=.lastTimestamp
  kubectl create service clusterip mine --tcp=80
%s%s`,
		kubeconfig, filepath.Dir(plugin), kubectl, t.alias(kubectl), plugin, samples, console, t.goOn(), guides)
}

// goOnWithGuides names those that start API servers or the operator again with other flags, which
// this does not do.
const goOnWithGuides = `Go on with the guides, from docs/guides/quick-start.md, "On a cluster". These need another control plane, whose API servers you
start again with other flags: docs/migration.md, docs/guides/dual-stack.md, and docs/guides/renumber.md from "Replacing the default range" on.
So does docs/guides/history.md, for the flag of its operator: this one runs without --history.`

// alias makes kubectl reach an API server that is in another network.
func (t *tour) alias(folder string) string {
	if t.prefix == "" {
		return ""
	}
	return fmt.Sprintf("\n  alias kubectl='%s%s'", t.prefix, filepath.Join(folder, "kubectl"))
}

func (t *tour) say(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format+"\n", args...) }

// kubectl shows a command as an admin would type it, and what it prints.
func (t *tour) kubectl(ctx context.Context, args ...string) (string, error) {
	t.say("      $ kubectl %s", strings.Join(args, " "))
	out, err := framework.Kubectl(ctx, t.plane.Kubeconfig(), args...)
	t.print(out)
	return out, err
}

func (t *tour) print(text string) {
	for line := range strings.Lines(text) {
		_, _ = io.WriteString(t.out, "      "+line)
	}
}

// eventually asks again until the answer is yes, and says what it waited for if it never is.
func eventually(ctx context.Context, what string, within time.Duration, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		ok, err := ask()
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("waiting for %s: %w", what, err)
			}
			return fmt.Errorf("waiting for %s: not within %v", what, within)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
