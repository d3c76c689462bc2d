package bundle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/health"
)

// learn finds the operator, and all names before the first file is written: a text may have any of
// them. Without those of Services and namespaces nothing is covered, and nothing is written.
func (b *bundle) learn(ctx context.Context) (err error) {
	if b.manager, err = check.Manager(ctx, b.s, b.namespace); err != nil {
		b.say("the manager: %v", err)
	}
	if b.sets, err = health.AgentSets(ctx, b.s, b.namespace); err != nil {
		b.say("the agents: %v", err)
	}
	b.pods(ctx)
	if b.redact {
		b.names = newNames(b.namespace)
	}
	err = b.learnAll(ctx)
	if err != nil && b.redact {
		return fmt.Errorf("%w; all names have to be known that are replaced: ask an admin for the bundle, or give --redact=false", err)
	}
	if err != nil {
		b.say("ServiceCIDRs and policies: %v", err)
	}
	return nil
}

// learnAll reads what has names.
func (b *bundle) learnAll(ctx context.Context) error {
	ranges, policies, err := b.s.RangesAndPolicies(ctx)
	if err != nil {
		return err
	}
	b.cidrs, b.policies = ranges.Items, policies.Items
	b.learnPolicies(b.cidrs, b.policies)
	if !b.redact {
		return nil
	}
	for _, one := range []struct {
		kind string
		of   schema.GroupVersionKind
	}{
		{ofNamespace, corev1.SchemeGroupVersion.WithKind("NamespaceList")},
		{ofService, corev1.SchemeGroupVersion.WithKind("ServiceList")},
	} {
		if err := b.learnNames(ctx, one.kind, one.of); err != nil {
			return err
		}
	}
	b.names.add(ofNamespace, b.s.Namespace) // which need not exist
	b.learnHosts(ctx)
	return b.learnUser(ctx)
}

// learnUser gives a pseudonym to the user, whom a refusal of the API server names.
func (b *bundle) learnUser(ctx context.Context) error {
	c, err := authenticationv1client.NewForConfig(b.s.Config)
	review := &authenticationv1.SelfSubjectReview{}
	if err == nil {
		review, err = c.SelfSubjectReviews().Create(ctx, review, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("asking who the user is: %w", err)
	}
	b.names.addUser(review.Status.UserInfo.Username)
	return nil
}

// learnNames gives pseudonyms to the objects of a kind. Those of the operator itself are kept.
func (b *bundle) learnNames(ctx context.Context, kind string, of schema.GroupVersionKind) error {
	var all []string
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(of)
	_, err := pages(ctx, b.s, list, strings.TrimSuffix(of.Kind, "List")+"s", math.MaxInt, func() error {
		for i := range list.Items {
			if o := &list.Items[i]; o.Namespace != b.namespace {
				all = append(all, o.Name)
			}
		}
		return nil
	})
	b.names.add(kind, all...)
	return err
}

// learnHosts gives pseudonyms to nodes, and to the hosts of the API server, of webhooks and of
// images.
func (b *bundle) learnHosts(ctx context.Context) {
	refused, err := b.s.May(ctx, authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"})
	if err == nil && refused != "" {
		err = errors.New(refused + ", so that only those have pseudonyms on which a pod of the operator runs")
	}
	if err == nil {
		err = b.learnNames(ctx, ofNode, corev1.SchemeGroupVersion.WithKind("NodeList"))
	}
	if err != nil {
		b.say("names of nodes: %v", err)
	}
	for _, p := range slices.Concat(b.managers, b.agentPods) {
		b.names.addHost(ofNode, p.Node)
	}
	if at, err := url.Parse(b.s.Config.Host); err == nil {
		b.names.addHost(ofHost, at.Hostname())
	}
	var pods []corev1.PodSpec
	if b.manager != nil {
		pods = append(pods, b.manager.Spec.Template.Spec)
	}
	for i := range b.sets {
		pods = append(pods, b.sets[i].Spec.Template.Spec)
	}
	for _, p := range pods {
		for _, c := range p.Containers {
			if registry, _, ok := strings.Cut(c.Image, "/"); ok && strings.ContainsAny(registry, ".:") {
				host, _, _ := strings.Cut(registry, ":")
				b.names.addHost(ofHost, host)
			}
		}
	}
}

// learnPolicies gives pseudonyms to ranges and policies, and to what these name and select by.
func (b *bundle) learnPolicies(ranges []networkingv1.ServiceCIDR, policies []v1alpha1.ServiceCIDRPolicy) {
	b.chosen = map[string]bool{}
	for i := range ranges {
		b.names.add(ofRange, ranges[i].Name)
	}
	for i := range policies {
		p := &policies[i]
		b.names.add(ofPolicy, p.Name)
		b.names.add(ofRange, p.Spec.ServiceCIDRs...)
		for _, r := range p.Spec.Reservations {
			b.names.add(ofReservation, r.Name)
			b.learnService(strings.Cut(r.For, "/"))
		}
		for _, r := range p.Status.Refusals {
			b.learnService(strings.Cut(r.Service, "/"))
		}
		for _, s := range []*metav1.LabelSelector{p.Spec.ServiceCIDRSelector, p.Spec.NamespaceSelector, p.Spec.ServiceSelector} {
			b.names.addSelectors(s)
			b.choose(s)
		}
	}
}

// learnService gives pseudonyms to a Service that an object names, and which may not exist.
func (b *bundle) learnService(namespace, name string, _ bool) {
	if namespace != b.namespace {
		b.names.add(ofNamespace, namespace)
		b.names.add(ofService, strings.TrimSuffix(name, "*"))
	}
}

// choose notes by which labels a selector selects.
func (b *bundle) choose(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	for key := range s.MatchLabels {
		b.chosen[key] = true
	}
	for _, r := range s.MatchExpressions {
		b.chosen[r.Key] = true
	}
}

// learnObject gives pseudonyms to what the author of an object has chosen beside its name.
func (b *bundle) learnObject(o metav1.Object) {
	for key := range b.chosen {
		if value, ok := o.GetLabels()[key]; ok {
			b.names.add(ofValue, value)
		}
	}
	for _, f := range o.GetFinalizers() {
		if !isKnown(f) {
			b.names.add(ofLabel, f)
		}
	}
}

// learnConfigurations gives pseudonyms to what webhook configurations were given by admins.
func (b *bundle) learnConfigurations(a check.Admission) {
	hosts := func(at *string) {
		if at == nil {
			return
		}
		if u, err := url.Parse(*at); err == nil {
			b.names.addHost(ofHost, u.Hostname())
		}
	}
	if o := a.Mutating.Object; o != nil {
		for _, h := range o.Webhooks {
			hosts(h.ClientConfig.URL)
			b.names.addSelectors(h.NamespaceSelector, h.ObjectSelector)
		}
	}
	if o := a.Validating.Object; o != nil {
		for _, h := range o.Webhooks {
			hosts(h.ClientConfig.URL)
			b.names.addSelectors(h.NamespaceSelector, h.ObjectSelector)
		}
	}
}
