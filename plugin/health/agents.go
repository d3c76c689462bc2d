package health

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// The agents are asked in parallel, for at most askFor in all; a silent one is judged by its pod.
const (
	askers    = 64
	askFor    = 10 * time.Second
	askOneFor = 3 * time.Second
)

// agents finds the agents of all DaemonSets where config/ puts them, and asks them how they are.
func agents(ctx context.Context, s *cli.Cluster, namespace string, h *found) error {
	sets, err := AgentSets(ctx, s, namespace)
	if err != nil {
		return err
	}
	for i := range sets {
		d := &sets[i]
		h.stale = h.stale || d.Status.ObservedGeneration < d.Generation
		h.wanted, h.updated = h.wanted+d.Status.DesiredNumberScheduled, h.updated+d.Status.UpdatedNumberScheduled
		all, err := agentsOf(ctx, s, d)
		if err != nil {
			return err
		}
		h.agents = append(h.agents, all...)
	}
	slices.SortFunc(h.agents, func(a, b agent) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pod, b.Pod)) })
	return nil
}

// AgentSets are the agents' DaemonSets in kube-system and in namespace, which is the operator's. In
// other namespaces a tenant may have labels like theirs.
func AgentSets(ctx context.Context, s *cli.Cluster, namespace string) (all []appsv1.DaemonSet, err error) {
	for _, n := range slices.Compact([]string{metav1.NamespaceSystem, namespace}) {
		sets := &appsv1.DaemonSetList{}
		if err := s.ListNamed(ctx, sets, "DaemonSets", client.InNamespace(n), check.Component("proxyagent")); err != nil {
			return nil, err
		}
		all = append(all, sets.Items...)
	}
	return all, nil
}

// agentPods are the pods of a DaemonSet, which are agents.
func agentPods(ctx context.Context, s *cli.Cluster, d *appsv1.DaemonSet) ([]replica, error) {
	pods, err := s.PodsOf(ctx, d.Namespace, d.Spec.Selector, "agents")
	if err != nil {
		return nil, err
	}
	var all []replica
	for i := range pods {
		all = append(all, newReplica(&pods[i]))
	}
	return all, nil
}

func agentsOf(ctx context.Context, s *cli.Cluster, d *appsv1.DaemonSet) (all []agent, err error) {
	pods, err := agentPods(ctx, s, d)
	if err != nil {
		return nil, err
	}
	mode, err := configuredMode(ctx, s, d)
	if err != nil {
		return nil, err
	}
	for _, r := range pods {
		a := agent{Node: r.Node, Namespace: d.Namespace, Pod: r.Pod, Image: r.Image, Ready: r.Ready, Mode: mode}
		if !r.Ready {
			a.Problem = "its pod is not ready"
		}
		all = append(all, a)
	}
	return all, askAgents(ctx, s, d, pods, all)
}

// configuredMode is the mode that the agents' configuration names, empty if that cannot be read.
func configuredMode(ctx context.Context, s *cli.Cluster, d *appsv1.DaemonSet) (string, error) {
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, arg := range c.Args {
			if mode, ok := strings.CutPrefix(arg, "--mode="); ok {
				return mode, nil
			}
		}
	}
	file, err := check.ConfigFile(ctx, s, d.Namespace, d.Spec.Template.Spec)
	if err != nil {
		return "", fmt.Errorf("reading the configuration of the agents: %w", err)
	}
	var config struct{ Mode string }
	if file == "" || yaml.Unmarshal([]byte(file), &config) != nil {
		return "", nil
	}
	return cmp.Or(config.Mode, "iptables"), nil
}

// askAgents has the agents say how they are.
func askAgents(ctx context.Context, s *cli.Cluster, d *appsv1.DaemonSet, pods []replica, all []agent) error {
	if len(all) == 0 {
		return nil
	}
	refused, err := s.May(ctx, authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Subresource: "proxy", Namespace: d.Namespace})
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Unknown = refused
	}
	if refused != "" {
		return nil
	}
	return ask(ctx, s, d, pods, "healthz", func(n int, answer []byte, err error) { all[n].hear(answer, err) })
}

// ask sends one request to each pod through the API server, and hears all answers one at a time.
func ask(ctx context.Context, s *cli.Cluster, d *appsv1.DaemonSet, pods []replica, path string, hear func(n int, answer []byte, err error)) error {
	c, err := corev1client.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	var mu sync.Mutex
	asked, port := errgroup.Group{}, healthPort(d)
	asked.SetLimit(askers)
	for n, pod := range pods {
		asked.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, askOneFor)
			defer cancel()
			answer, err := c.Pods(d.Namespace).ProxyGet("http", pod.Pod, port, path, nil).DoRaw(ctx)
			mu.Lock()
			defer mu.Unlock()
			hear(n, answer, err)
			return nil
		})
	}
	return asked.Wait()
}

// healthPort is where the kubelet asks the agents, and we do too.
func healthPort(d *appsv1.DaemonSet) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		if p := c.ReadinessProbe; p != nil && p.HTTPGet != nil {
			return p.HTTPGet.Port.String()
		}
	}
	return "10256"
}

// hear reads an agent's answer: kube-proxy's, with the mode added. A 503 answer counts as well.
func (a *agent) hear(answer []byte, err error) {
	var told struct {
		Healthy      bool
		NodeEligible *bool
		Mode         string
		Status       map[string]struct {
			LastUpdated time.Time
			Healthy     bool
		}
	}
	if json.Unmarshal(answer, &told) != nil || len(told.Status) == 0 {
		a.Unknown = "it did not answer"
		if err != nil {
			a.Unknown += ": " + err.Error()
		}
		return
	}
	a.Told, a.Mode = true, cmp.Or(told.Mode, a.Mode)
	var late []string
	for family, f := range told.Status {
		if !f.Healthy {
			late = append(late, family)
		}
		if !f.LastUpdated.IsZero() && (a.LastSync == nil || f.LastUpdated.After(*a.LastSync)) {
			a.LastSync = &f.LastUpdated
		}
	}
	if len(late) > 0 {
		slices.Sort(late)
		a.Problem = "the rules of " + strings.Join(late, " and ") + " are not up to date"
	}
}

// named is how many agents with a problem are named in one line.
const named = 3

func (h found) agentPart(now time.Time) part {
	if h.stale {
		return part{"agents", false, "their DaemonSet has changed, and kube-controller-manager has not acted on it yet"}
	}
	if h.wanted == 0 && len(h.agents) == 0 {
		return part{"agents", true, "there are none: another proxy serves Services"}
	}
	var modes, images, problems, unknown []string
	for _, a := range h.agents {
		modes, images = append(modes, cmp.Or(a.Mode, "an unknown mode")), append(images, a.Image)
		if a.Problem != "" {
			problems = append(problems, cmp.Or(a.Node, a.Pod)+": "+a.Problem)
		}
		if a.Unknown != "" {
			unknown = append(unknown, a.Unknown)
		}
	}
	well := len(h.agents) - len(problems)
	texts := []string{fmt.Sprintf("%d of %d nodes are ready, %d have this version", well, h.wanted, h.updated)}
	if len(h.agents) > 0 {
		texts = append(texts, tally(modes), "image "+tally(images))
	}
	if latest, oldest, ok := syncs(h.agents); ok {
		texts = append(texts, fmt.Sprintf("last sync %s to %s ago", ago(now, latest), ago(now, oldest)))
	}
	if len(unknown) > 0 {
		texts = append(texts, fmt.Sprintf("nothing is known about the last sync of %d: %s", len(unknown), unknown[0]))
	}
	if more := len(problems) - named; more > 0 {
		problems = append(problems[:named], fmt.Sprintf("and %d more", more))
	}
	return part{"agents", well >= int(h.wanted) && len(problems) == 0, strings.Join(append(texts, problems...), "; ")}
}

// syncs are the latest and the oldest of the last syncs; false if none is known.
func syncs(all []agent) (latest, oldest time.Time, ok bool) {
	var times []time.Time
	for _, a := range all {
		if a.LastSync != nil {
			times = append(times, *a.LastSync)
		}
	}
	if len(times) == 0 {
		return latest, oldest, false
	}
	return slices.MaxFunc(times, time.Time.Compare), slices.MinFunc(times, time.Time.Compare), true
}
