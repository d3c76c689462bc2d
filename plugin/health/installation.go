package health

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// found is what there is of an installation.
type found struct {
	manager   *appsv1.Deployment // nil without one
	replicas  []corev1.Pod
	lease     *coordinationv1.Lease
	admission check.Admission
	probe     probed
	// wanted is how many nodes are to have an agent, updated how many have the newest.
	wanted, updated int32
	stale           bool // the numbers are of what was before
	agents          []agent
	ranges          []networkingv1.ServiceCIDR
	policies        []v1alpha1.ServiceCIDRPolicy
	defaults        check.Defaults
}

// Look looks at all parts of the operator.
func Look(ctx context.Context, s *cli.Cluster, namespace string) (Installation, error) {
	h, err := gather(ctx, s, namespace)
	return h.installation(s.Clock.Now()), err
}

func gather(ctx context.Context, s *cli.Cluster, namespace string) (h found, err error) {
	if err := managers(ctx, s, namespace, &h); err != nil {
		return h, err
	}
	lease := &coordinationv1.Lease{}
	if h.lease, err = orNone(s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: check.InstallationName}, lease), lease); err != nil {
		return h, fmt.Errorf("reading the Lease: %w", err)
	}
	if err := admits(ctx, s, namespace, &h); err != nil {
		return h, err
	}
	if err := agents(ctx, s, namespace, &h); err != nil {
		return h, err
	}
	err = offered(ctx, s, &h)
	return h, err
}

// admits reads what the API server is to ask of the operator, and tries whether it does.
func admits(ctx context.Context, s *cli.Cluster, namespace string, h *found) (err error) {
	if h.admission, err = check.LookAtAdmission(ctx, s, namespace, h.manager); err != nil {
		return err
	}
	if h.admission.Mutating.Object == nil {
		h.probe.Unknown = "no MutatingWebhookConfiguration is there to try it by"
		return nil
	}
	h.probe, err = probe(ctx, s)
	return err
}

// offered reads ranges and policies.
func offered(ctx context.Context, s *cli.Cluster, h *found) error {
	ranges, policies, err := check.RangesAndPolicies(ctx, s)
	if err != nil {
		return err
	}
	h.ranges, h.policies = ranges.Items, policies.Items
	bitmap, err := kube.AllocatesFromBitmap(ctx, s.Discovery, s)
	if err != nil {
		return fmt.Errorf("finding out who allocates: %w", err)
	}
	h.defaults, err = check.LookAtDefaults(ctx, s, h.ranges, bitmap)
	return err
}

// managers reads the Deployment of the manager with its pods.
func managers(ctx context.Context, s *cli.Cluster, namespace string, h *found) error {
	manager, err := check.Manager(ctx, s, namespace)
	if err != nil || manager == nil {
		return err
	}
	h.manager = manager
	h.replicas, err = s.PodsOf(ctx, namespace, manager.Spec.Selector, "manager")
	return err
}

// orNone returns an object, or nothing if there is none.
func orNone[T any](err error, object *T) (*T, error) {
	if client.IgnoreNotFound(err) != nil {
		return nil, cli.Permission(err)
	}
	if err != nil {
		return nil, nil
	}
	return object, nil
}

// installation puts together what was found.
func (h found) installation(now time.Time) Installation {
	i := Installation{
		Kind: "Installation", Time: now.UTC(), Replicas: h.replicaList(), Leader: h.leader(now), Webhooks: h.webhooks(), Agents: append([]agent{}, h.agents...),
		Admission: h.admission.Items(now, h.policies),
		Findings:  append(append([]check.Item{}, h.defaults.Items()...), check.Conditions(now, h.ranges, h.policies)...),
	}
	i.Parts = append([]part{h.managerPart(i.Replicas), i.leaderPart()}, i.admissionParts(h.admission)...)
	i.Parts = append(i.Parts, i.certificatePart(), h.agentPart(now))
	i.Well = !slices.ContainsFunc(i.Parts, func(p part) bool { return !p.Well })
	i.Parts = append(i.Parts, part{
		"ranges and policies", len(i.Findings) == 0, fmt.Sprintf("%d ServiceCIDRs, %d policies, %s", len(h.ranges), len(h.policies), findingsText(len(i.Findings))),
	})
	for _, f := range i.Findings {
		i.Parts = append(i.Parts, itemPart("finding", f))
	}
	return i
}

func itemPart(name string, i check.Item) part {
	return part{name, false, i.Object + ": " + i.Check + ": " + i.Message}
}

// admissionParts are a line for the webhooks, and one for each thing that is wrong with them or
// with what enforces exclusive ranges. Of invalid authorities the certificate's line tells.
func (i Installation) admissionParts(a check.Admission) (all []part) {
	ofWebhooks := func(one check.Item) bool { return strings.HasPrefix(one.Check, "Webhooks") }
	if i.Webhooks != nil || !slices.ContainsFunc(i.Admission, ofWebhooks) {
		all = append(all, i.webhookPart(a))
	}
	for _, one := range i.Admission {
		switch {
		case one.Check == "WebhooksUntrusted" && !i.certificatePart().Well:
		case ofWebhooks(one):
			all = append(all, itemPart("webhooks", one))
		default:
			all = append(all, itemPart("enforcement", one))
		}
	}
	return all
}

func findingsText(n int) string {
	if n == 0 {
		return "nothing is wrong with them"
	}
	return fmt.Sprintf("%d findings", n)
}

func (h found) replicaList() []replica {
	all := []replica{}
	for i := range h.replicas {
		r := newReplica(&h.replicas[i])
		r.Leads = h.lease != nil && r.Pod == holder(h.lease)
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b replica) int { return cmp.Compare(a.Pod, b.Pod) })
	return all
}

func newReplica(p *corev1.Pod) replica {
	r := replica{Pod: p.Name, Node: p.Spec.NodeName, Image: imageOf(p.Spec)}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			r.Ready, r.Since = c.Status == corev1.ConditionTrue, new(c.LastTransitionTime.UTC())
		}
	}
	return r
}

// imageOf is the image of the first container: ours have one.
func imageOf(p corev1.PodSpec) string {
	if len(p.Containers) == 0 {
		return "<none>"
	}
	return p.Containers[0].Image
}

// tally lists how often each word occurs, "v1" if it is the only one, else "v1 (2), v2 (1)".
func tally(words []string) string {
	n := map[string]int{}
	for _, w := range words {
		n[w]++
	}
	all := slices.Sorted(maps.Keys(n))
	for i, w := range all {
		if len(n) > 1 {
			all[i] = fmt.Sprintf("%s (%d)", w, n[w])
		}
	}
	return strings.Join(all, ", ")
}

// ago is how long a moment is past.
func ago(now, then time.Time) string { return duration.HumanDuration(now.Sub(then)) }

func (h found) managerPart(replicas []replica) part {
	if h.manager == nil {
		return part{"manager", false, "there is no Deployment: the operator is not installed in this namespace"}
	}
	want, ready := int32(1), h.manager.Status.ReadyReplicas
	if h.manager.Spec.Replicas != nil {
		want = *h.manager.Spec.Replicas
	}
	images := []string{imageOf(h.manager.Spec.Template.Spec)}
	if len(replicas) > 0 {
		images = nil
	}
	for _, r := range replicas {
		images = append(images, r.Image)
	}
	seen := h.manager.Status.ObservedGeneration >= h.manager.Generation // or the counts are of what was before
	return part{"manager", seen && ready == want && want > 0, fmt.Sprintf("%d of %d replicas are ready, image %s", ready, want, tally(images))}
}

// holder is the pod that holds a Lease, empty if no pod does.
func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
	return name
}

func (h found) leader(now time.Time) *leader {
	if h.lease == nil || holder(h.lease) == "" {
		return nil
	}
	l, spec := &leader{Pod: holder(h.lease)}, h.lease.Spec
	if spec.AcquireTime != nil {
		l.Since = new(spec.AcquireTime.UTC())
	}
	if spec.RenewTime != nil {
		l.Renewed = new(spec.RenewTime.UTC())
		l.Expired = spec.LeaseDurationSeconds != nil && now.Sub(*l.Renewed) > time.Duration(*spec.LeaseDurationSeconds)*time.Second
	}
	return l
}

func (i Installation) leaderPart() part {
	l := i.Leader
	if l == nil {
		return part{"leader", false, "no manager leads: nothing is repaired, and no condition is written"}
	}
	if l.Expired {
		return part{"leader", false, l.Pod + " has not renewed its Lease for " + ago(i.Time, *l.Renewed)}
	}
	text := l.Pod
	if l.Since != nil {
		text += ", for " + ago(i.Time, *l.Since)
	}
	if n := slices.IndexFunc(i.Replicas, func(r replica) bool { return r.Leads }); n >= 0 {
		text += ", image " + i.Replicas[n].Image
	}
	return part{"leader", true, text}
}

func (h found) webhooks() *webhooks {
	bundles := h.admission.Bundles()
	if len(bundles) == 0 {
		return nil
	}
	w := &webhooks{Configured: len(bundles), probed: h.probe}
	for _, one := range bundles {
		end := check.TrustedUntil(one.Bundle)
		if end.IsZero() {
			w.Untrusted = cmp.Or(w.Untrusted, one.Webhook)
		} else if w.TrustedUntil == nil || end.Before(*w.TrustedUntil) {
			w.TrustedUntil = new(end.UTC())
		}
	}
	return w
}

// webhookPart goes by what came of the probe, if there was one.
func (i Installation) webhookPart(a check.Admission) part {
	w := i.Webhooks
	switch {
	case w == nil && len(a.Unknown) > 0:
		return part{"webhooks", true, "which are configured is not known: " + a.Untold()}
	case w == nil:
		return part{"webhooks", true, "none are configured: policies are not applied to new Services"}
	case w.Reached != nil:
		return part{"webhooks", true, fmt.Sprintf("%d are configured; the API server reaches %s, version %s, for %s", w.Configured, w.Reached.Replica, w.Reached.Version, ago(i.Time, w.Reached.Since)) + notRead(a)}
	case w.Unknown != "":
		return part{"webhooks", true, fmt.Sprintf("%d are configured; whether the API server reaches them is not known: %s", w.Configured, w.Unknown) + notRead(a)}
	default:
		return part{"webhooks", false, fmt.Sprintf("%d are configured; the API server does not reach them, and lets Services pass (an operator that is older than this plugin does not answer either)", w.Configured)}
	}
}

// notRead says what of the admission's objects the user may not read.
func notRead(a check.Admission) string {
	if len(a.Unknown) == 0 {
		return ""
	}
	return "; not looked at: " + a.Untold()
}

// certificatePart judges the CA that the API server trusts: webhooks need one that is valid.
func (i Installation) certificatePart() part {
	w := i.Webhooks
	switch {
	case w == nil:
		return part{"certificate", true, "none is needed"}
	case w.Untrusted != "" || w.TrustedUntil == nil:
		return part{"certificate", false, fmt.Sprintf("%s has no CA yet: the API server cannot call it, and lets Services pass", cmp.Or(w.Untrusted, "the configuration"))}
	default:
		return part{"certificate", w.TrustedUntil.After(i.Time), "the API server trusts its CA until " + w.TrustedUntil.Format(time.DateOnly)}
	}
}
