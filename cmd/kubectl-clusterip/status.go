package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// installation is the name of the operator's Lease and of its webhook configurations.
const installation = "clusterip-operator"

func newStatus(a *admin) *cobra.Command {
	var namespace string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Is the operator well, in a line for each of its parts",
		Long: `Looks at the manager's Deployment and Lease, at the webhook configurations, at the agents' DaemonSets, and at the conditions of ServiceCIDRs and policies.
Drift of single addresses is looked for by ` + "`check`" + `.

Exit status: 0 all is well, 1 something is not, 2 it could not be told.`,
		Example: `  kubectl clusterip status
  kubectl clusterip status --wait=2m`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context(), namespace, timeout) },
	}
	cmd.Flags().StringVar(&namespace, "operator-namespace", "clusterip-operator-system", "namespace of the operator")
	cmd.Flags().DurationVar(&timeout, "wait", 0, "wait for so long until all is well")
	return cmd
}

func (a *admin) status(ctx context.Context, namespace string, timeout time.Duration) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	var parts []part
	look := func(ctx context.Context) (bool, error) {
		h, err := s.health(ctx, namespace)
		parts = h.parts(time.Now())
		return !slices.ContainsFunc(parts, func(p part) bool { return !p.well }), err
	}
	well, err := look(ctx)
	if err == nil && !well && timeout > 0 {
		err = wait.PollUntilContextTimeout(ctx, time.Second, timeout, false, look)
		well = err == nil
		if wait.Interrupted(err) && ctx.Err() == nil {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	l := listing{table: metav1.Table{ColumnDefinitions: columns("PART", "WELL", "STATUS")}}
	for _, p := range parts {
		l.table.Rows = append(l.table.Rows, metav1.TableRow{Cells: []any{p.name, p.well, p.text}})
	}
	if err := (&output{}).print(a.Out, l); err != nil || well {
		return err
	}
	return exit{code: exitFindings}
}

// health is what there is of an installation.
type health struct {
	manager  *appsv1.Deployment // nil without one
	lease    *coordinationv1.Lease
	mutating *admissionregistrationv1.MutatingWebhookConfiguration
	agents   []appsv1.DaemonSet
	ranges   []networkingv1.ServiceCIDR
	policies []v1alpha1.ServiceCIDRPolicy
}

// part is one line of `status`.
type part struct {
	name string
	well bool
	text string
}

// component are the labels of a part of the operator.
func component(name string) client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/name": installation, "app.kubernetes.io/component": name}
}

func (s *session) health(ctx context.Context, namespace string) (h health, err error) {
	managers, agents, ranges, policies := &appsv1.DeploymentList{}, &appsv1.DaemonSetList{}, &networkingv1.ServiceCIDRList{}, &v1alpha1.ServiceCIDRPolicyList{}
	if err := s.List(ctx, managers, client.InNamespace(namespace), component("manager")); err != nil {
		return h, fmt.Errorf("listing Deployments: %w", permission(err))
	}
	if len(managers.Items) > 0 {
		h.manager = &managers.Items[0]
	}
	if err := s.List(ctx, agents, component("proxyagent")); err != nil {
		return h, fmt.Errorf("listing DaemonSets: %w", permission(err))
	}
	h.agents = agents.Items
	lease, webhooks := &coordinationv1.Lease{}, &admissionregistrationv1.MutatingWebhookConfiguration{}
	if h.lease, err = orNone(s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: installation}, lease), lease); err != nil {
		return h, fmt.Errorf("reading the Lease: %w", err)
	}
	if h.mutating, err = orNone(s.Get(ctx, client.ObjectKey{Name: installation}, webhooks), webhooks); err != nil {
		return h, fmt.Errorf("reading the webhook configuration: %w", err)
	}
	if err := s.list(ctx, ranges, "ServiceCIDRs"); err != nil {
		return h, err
	}
	h.ranges = ranges.Items
	if s.policies {
		err = s.list(ctx, policies, "ServiceCIDRPolicies")
		h.policies = policies.Items
	}
	return h, err
}

// orNone returns an object, or nothing if there is none.
func orNone[T any](err error, object *T) (*T, error) {
	if client.IgnoreNotFound(err) != nil {
		return nil, permission(err)
	}
	if err != nil {
		return nil, nil
	}
	return object, nil
}

func (h health) parts(now time.Time) []part {
	return append([]part{h.managerPart(), h.leaderPart(now), h.webhookPart(now), h.agentPart()}, h.conditionParts()...)
}

func (h health) managerPart() part {
	if h.manager == nil {
		return part{"manager", false, "there is no Deployment: the operator is not installed in this namespace"}
	}
	want, ready := int32(1), h.manager.Status.ReadyReplicas
	if h.manager.Spec.Replicas != nil {
		want = *h.manager.Spec.Replicas
	}
	image := "<none>"
	if all := h.manager.Spec.Template.Spec.Containers; len(all) > 0 {
		image = all[0].Image
	}
	return part{"manager", ready == want && want > 0, fmt.Sprintf("%d of %d replicas are ready, image %s", ready, want, image)}
}

func (h health) leaderPart(now time.Time) part {
	if h.lease == nil || h.lease.Spec.HolderIdentity == nil || *h.lease.Spec.HolderIdentity == "" {
		return part{"leader", false, "nobody leads: nothing is repaired, and no condition is written"}
	}
	holder, _, _ := strings.Cut(*h.lease.Spec.HolderIdentity, "_")
	spec := h.lease.Spec
	if spec.RenewTime != nil && spec.LeaseDurationSeconds != nil && now.Sub(spec.RenewTime.Time) > time.Duration(*spec.LeaseDurationSeconds)*time.Second {
		return part{"leader", false, fmt.Sprintf("%s has not renewed its Lease for %s", holder, duration.HumanDuration(now.Sub(spec.RenewTime.Time)))}
	}
	since := ""
	if spec.AcquireTime != nil {
		since = ", for " + duration.HumanDuration(now.Sub(spec.AcquireTime.Time))
	}
	return part{"leader", true, holder + since}
}

// webhookPart goes by the CA that the API server trusts: without one it cannot call the webhooks, and when it has run out no more.
func (h health) webhookPart(now time.Time) part {
	if h.mutating == nil {
		return part{"webhooks", true, "none are configured: policies are not applied to new Services"}
	}
	var until time.Time
	for _, w := range h.mutating.Webhooks {
		end := trustedUntil(w.ClientConfig.CABundle)
		if end.IsZero() {
			return part{"webhooks", false, fmt.Sprintf("%s has no CA yet: the API server cannot call it, and lets Services pass", w.Name)}
		}
		if until.IsZero() || end.Before(until) {
			until = end
		}
	}
	return part{"webhooks", until.After(now), fmt.Sprintf("%d are configured, trusted until %s", len(h.mutating.Webhooks), until.UTC().Format(time.DateOnly))}
}

// trustedUntil is when the last certificate of a bundle runs out; zero without any.
func trustedUntil(bundle []byte) (last time.Time) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	return last
}

func (h health) agentPart() part {
	if len(h.agents) == 0 {
		return part{"agents", true, "there are none: another proxy serves Services"}
	}
	var want, ready, updated int32
	for _, d := range h.agents {
		want, ready, updated = want+d.Status.DesiredNumberScheduled, ready+d.Status.NumberReady, updated+d.Status.UpdatedNumberScheduled
	}
	return part{"agents", ready == want, fmt.Sprintf("%d of %d nodes are ready, %d have this version", ready, want, updated)}
}

// conditionParts tell of ServiceCIDRs and policies by the checks that find something.
func (h health) conditionParts() []part {
	ranges, policies := checkReport{}, checkReport{}
	for _, o := range h.ranges {
		ranges.addConditions(o.Name, o.Status.Conditions, rangeCheck)
	}
	for _, o := range h.policies {
		policies.addConditions(o.Name, o.Status.Conditions, policyCheck)
	}
	return []part{ranges.part("ranges", len(h.ranges)), policies.part("policies", len(h.policies))}
}

func (r checkReport) part(name string, all int) part {
	var texts []string
	for _, i := range r.Items {
		texts = append(texts, i.Object+": "+i.Check)
	}
	return part{name, len(r.Items) == 0, fmt.Sprintf("%d, %s", all, cmp.Or(strings.Join(texts, ", "), "nothing is wrong with them"))}
}
