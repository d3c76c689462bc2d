package scale

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Handover is a change of the leader, while the cluster changes and Services are created.
type Handover struct {
	// How says how the leader went.
	How string
	// Leads is the time until the other replica led.
	Leads time.Duration
	// Asked are questions to the webhooks of both, through a balancer, Unanswered those without an
	// answer, Unsteered those with addresses of no policy of the tenant; Longest the longest answer.
	Asked, Unanswered, Unsteered int
	Longest                      time.Duration
	// Created are Services created through the API server, Refused those that it refused, and Stray
	// those with addresses that their policy does not have.
	Created, Refused, Stray int
}

// measureHandovers has the leader leave as in an update, and then be killed.
func (e *environment) measureHandovers(ctx context.Context) (all []Handover, err error) {
	for _, way := range []struct {
		name string
		end  func(*framework.Manager) error
	}{
		{"stopped, as by an update", func(m *framework.Manager) error { return m.Stop() }},
		{"killed", func(m *framework.Manager) error { return m.Kill() }},
	} {
		if len(e.replicas) < 2 {
			if _, err := e.addReplica(ctx); err != nil {
				return all, err
			}
		}
		h, err := e.measureHandover(ctx, way.end)
		if err != nil {
			return all, err
		}
		h.How = way.name
		e.log.Step("leader %s: the other one leads after %.1f s; %+v", h.How, h.Leads.Seconds(), h)
		all = append(all, h)
	}
	return all, nil
}

func (e *environment) measureHandover(ctx context.Context, end func(*framework.Manager) error) (h Handover, err error) {
	leader, other, err := e.leader(ctx)
	if err != nil {
		return h, err
	}
	e.balancer.Cut()
	e.ending.Store(true)
	defer e.ending.Store(false)
	life, stop := context.WithCancel(ctx)
	defer stop()
	var clients sync.WaitGroup
	clients.Go(func() {
		h.questions(life, newAsker(fmt.Sprintf("127.0.0.1:%d", e.balancer.Port()), min(e.level.Ranges, e.options.Namespaces)))
	})
	clients.Go(func() { e.creations(life, &h) })
	_, err = e.churn(ctx, func(ctx context.Context) error {
		defer clients.Wait()
		defer stop()
		if err := progress.Pause(ctx, e.options.Pause); err != nil {
			return err
		}
		began := time.Now()
		gone := make(chan error, 1)
		go func() { gone <- end(leader) }()
		if err := e.waitLease(ctx, other); err != nil {
			return errors.Join(err, <-gone)
		}
		h.Leads = time.Since(began)
		return errors.Join(progress.Pause(ctx, e.options.Pause), <-gone)
	})
	e.balancer.Remove(leader.WebhookAddress())
	e.replicas = []*framework.Manager{other}
	return h, err
}

// waitLease waits until the Lease is a replica's. A leader that has just begun to look at all
// addresses takes seconds to answer about its metrics.
func (e *environment) waitLease(ctx context.Context, m *framework.Manager) error {
	return e.until(ctx, "the other replica has the Lease", func(ctx context.Context) (bool, error) {
		holder, err := e.holder(ctx)
		return err == nil && holds(holder, m), nil
	})
}

// holder returns the identity that the Lease names.
func (e *environment) holder(ctx context.Context) (string, error) {
	lease, err := e.Client.CoordinationV1().Leases(cluster.Home).Get(ctx, "clusterip-operator", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the Lease: %w", err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

// holds reports whether an identity is that of a replica.
func holds(identity string, m *framework.Manager) bool {
	return strings.HasSuffix(identity, "@"+m.WebhookAddress())
}

// leader returns the replica that leads, and the other one.
func (e *environment) leader(ctx context.Context) (leader, other *framework.Manager, err error) {
	holder, err := e.holder(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i, m := range e.replicas {
		if holds(holder, m) {
			return m, e.replicas[1-i], nil
		}
	}
	return nil, nil, fmt.Errorf("no replica has the Lease, but %q", holder)
}

// questions asks until ctx ends.
func (h *Handover) questions(ctx context.Context, a *asker) {
	for ctx.Err() == nil {
		took, err := a.ask(context.WithoutCancel(ctx))
		h.Asked++
		h.Longest = max(h.Longest, took)
		switch {
		case errors.Is(err, errUnsteered):
			h.Unsteered++
		case err != nil:
			h.Unanswered++
		}
		_ = progress.Pause(ctx, askEach)
	}
}

// creations creates Services of tenants with exclusive ranges, one after the other, until ctx ends.
func (e *environment) creations(ctx context.Context, h *Handover) {
	began := time.Now().Unix()
	for n := 0; ctx.Err() == nil; n++ {
		i := n * 10 % min(e.level.Ranges, e.options.Namespaces) // every tenth policy is exclusive
		o := framework.NewService(e.world.namespaceOf(i), fmt.Sprintf("created-%d-%d", began, n), framework.RequireDualStack())
		o, err := e.Client.CoreV1().Services(o.Namespace).Create(context.WithoutCancel(ctx), o, metav1.CreateOptions{})
		switch {
		case err != nil:
			h.Refused++
			e.log.Step("a creation is refused: %v", err)
		case !inRange(i, o.Spec.ClusterIPs):
			e.log.Step("a creation is unsteered: %s has %v", o.Name, o.Spec.ClusterIPs)
			h.Stray++
			h.Created++
		default:
			h.Created++
		}
	}
}

// inRange reports whether a Service has all its addresses from the i-th range.
func inRange(i int, addresses []string) bool {
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, func(text string) bool { return !has(cidrsOf(i), text) })
}

// has reports whether one of the CIDRs has an address.
func has(cidrs []string, address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(cidrs, func(text string) bool { return netip.MustParsePrefix(text).Contains(a) })
}
