package bundle

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/clusterip-operator/clusterip-operator/internal/history"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// pod is what is needed of a pod of the operator to ask for its log.
type pod struct {
	Namespace, Name, Node, Container string
	Ready, Restarted                 bool
}

const (
	// askers is how many pods are asked at once; the answers of so many are in memory.
	askers = 8
	// askFor is how long one pod may take: an API server waits half a minute for a node that is away.
	askFor = 10 * time.Second
	// mostOfLog is how many bytes of the end of a log are kept. All that the API server sends is read:
	// the newest lines come last, and askFor bounds the time.
	mostOfLog = 1 << 20
	// mostManagers is of how many replicas logs are read.
	mostManagers = 10
)

// pods lists the operator's pods, those that are not ready first.
func (b *bundle) pods(ctx context.Context) {
	list := func(into *[]pod, namespace, what string, by func() ([]corev1.Pod, error)) {
		all, err := by()
		if err != nil {
			b.say("%s in namespace %s: %v", what, namespace, err)
		}
		for i := range all {
			*into = append(*into, podOf(&all[i]))
		}
	}
	if b.manager != nil {
		list(&b.managers, b.namespace, "pods of the manager", func() ([]corev1.Pod, error) {
			return b.s.PodsOf(ctx, b.namespace, b.manager.Spec.Selector, "manager")
		})
	}
	for i := range b.sets {
		d := &b.sets[i]
		list(&b.agentPods, d.Namespace, "pods of the agents", func() ([]corev1.Pod, error) {
			return b.s.PodsOf(ctx, d.Namespace, d.Spec.Selector, "agents")
		})
	}
	for _, all := range [][]pod{b.managers, b.agentPods} {
		slices.SortStableFunc(all, func(a, b pod) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Node, b.Node)) })
	}
}

// rank puts first what an issue is likely about.
func rank(p pod) int {
	switch {
	case !p.Ready:
		return 0
	case p.Restarted:
		return 1
	}
	return 2
}

func podOf(p *corev1.Pod) pod {
	out := pod{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName}
	if len(p.Spec.Containers) > 0 {
		out.Container = p.Spec.Containers[0].Name // ours have one
	}
	for _, c := range p.Status.Conditions {
		out.Ready = out.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	for _, c := range p.Status.ContainerStatuses {
		out.Restarted = out.Restarted || c.RestartCount > 0
	}
	return out
}

// managerLogs adds the ends of the logs of all replicas, and of what ran before a restart.
func (b *bundle) managerLogs(ctx context.Context) error {
	some := b.first(b.managers, mostManagers, "logs of managers")
	return b.logs(ctx, some)
}

// agentLogs adds the ends of the logs of some agents, and what these serve.
func (b *bundle) agentLogs(ctx context.Context) error {
	some := b.first(b.agentPods, b.agents, "logs and dumps of agents")
	return errors.Join(b.logs(ctx, some), b.dumps(ctx, some))
}

// first are so many pods, and says how many are left out.
func (b *bundle) first(all []pod, most int, what string) []pod {
	if len(all) > most {
		b.say("%s beyond the first %d of %d", what, most, len(all))
		return all[:most]
	}
	return all
}

func (b *bundle) logs(ctx context.Context, all []pod) error {
	all, err := b.allowed(ctx, all, authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Subresource: "log"})
	if err != nil {
		return err
	}
	err = b.askAll(ctx, all, "the log of", "logs/%s.txt", func(ctx context.Context, p pod) (string, error) { return b.logOf(ctx, p, false) })
	before := slices.DeleteFunc(slices.Clone(all), func(p pod) bool { return !p.Restarted })
	return errors.Join(err, b.askAll(ctx, before, "the log before the restart of", "logs/%s.previous.txt", func(ctx context.Context, p pod) (string, error) {
		return b.logOf(ctx, p, true)
	}))
}

// dumps has agents say what they serve. It is a program in their pods that asks them, on the node:
// an agent tells no other machine.
func (b *bundle) dumps(ctx context.Context, all []pod) error {
	for _, verb := range []string{"get", "create"} { // a WebSocket is opened by the one, and API servers of 1.35 and later want the other too
		var err error
		if all, err = b.allowed(ctx, all, authorizationv1.ResourceAttributes{Verb: verb, Resource: "pods", Subresource: "exec"}); err != nil {
			return err
		}
	}
	return b.askAll(ctx, all, "what is served by", "agents/%s.dump.txt", func(ctx context.Context, p pod) (string, error) {
		return execute(ctx, b.s.Config, p, "/proxyagent", "dump")
	})
}

// allowed are the pods to which the user may do something. It says in which namespaces the user may
// not: agents can be in several.
func (b *bundle) allowed(ctx context.Context, all []pod, what authorizationv1.ResourceAttributes) (out []pod, err error) {
	refused := map[string]string{} // namespace -> why
	for _, p := range all {
		why, asked := refused[p.Namespace]
		if !asked {
			what.Namespace = p.Namespace
			if why, err = b.s.May(ctx, what); err != nil {
				return nil, err
			}
			if refused[p.Namespace] = why; why != "" {
				b.say("%s/%s: %s", what.Resource, what.Subresource, why)
			}
		}
		if why == "" {
			out = append(out, p)
		}
	}
	return out, nil
}

// askAll asks pods, some at a time, and adds a file for each answer. file has their names.
func (b *bundle) askAll(ctx context.Context, all []pod, what, file string, ask func(context.Context, pod) (string, error)) error {
	for some := range slices.Chunk(all, askers) {
		answers, failed, asked := make([]string, len(some)), make([]error, len(some)), errgroup.Group{}
		for i, p := range some {
			asked.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, askFor)
				defer cancel()
				answers[i], failed[i] = ask(ctx, p)
				return nil
			})
		}
		_ = asked.Wait() // each has its own error
		for i, p := range some {
			if failed[i] != nil {
				b.say("%s pod %s: %v", what, p.Name, failed[i])
				if answers[i] == "" {
					continue
				}
			}
			if err := b.archive.text(fmt.Sprintf(file, b.names.text(p.Name)), plain.Lines(answers[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// logOf is the end of a log.
func (b *bundle) logOf(ctx context.Context, p pod, previous bool) (string, error) {
	c, err := corev1client.NewForConfig(b.s.Config)
	if err != nil {
		return "", err
	}
	stream, err := c.Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: p.Container, Previous: previous, TailLines: &b.tail}).Stream(ctx)
	if err != nil {
		return "", cli.Permission(err)
	}
	var kept end
	_, err = io.Copy(&kept, stream)
	text := kept.String()
	if b.redact {
		text = withoutOwners(text)
	}
	return text, errors.Join(err, stream.Close())
}

// withoutOwners drops the lines about addresses that changed hands: they name Services, and
// namespaces, that are gone, for which there are no pseudonyms.
func withoutOwners(log string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, history.LineGot) && !strings.Contains(line, history.LineLost) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// end keeps the end of what is written: between one and two times mostOfLog while it is written.
type end struct{ bytes.Buffer }

// Write implements io.Writer.
func (e *end) Write(p []byte) (int, error) {
	if e.Len() > 2*mostOfLog {
		e.Next(e.Len() - mostOfLog)
	}
	return e.Buffer.Write(p)
}

// ReadFrom hides that of the buffer, which keeps all.
func (e *end) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{e}, r)
}

// String are the whole lines at the end.
func (e *end) String() string {
	text := e.Buffer.String()
	if over := len(text) - mostOfLog; over > 0 {
		_, text, _ = strings.Cut(text[over:], "\n")
	}
	return text
}
