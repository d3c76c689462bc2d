package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/health"
)

// gather reads everything that a plan is made of.
func gather(ctx context.Context, s *cli.Cluster, r planning) (in Inputs, err error) {
	cidrs, _, err := s.RangesAndPolicies(ctx)
	if err != nil {
		return in, err
	}
	if in.From, err = cli.NamedRanges("--range", r.from, cidrs.Items); err != nil {
		return in, err
	}
	if in.To, err = targetRanges(r.to, cidrs.Items); err != nil {
		return in, err
	}
	selector, err := labels.Parse(r.selector)
	if err != nil {
		return in, fmt.Errorf("--selector: %w", err)
	}
	if in.Rules, err = rulesFor(ctx, s, r.include, r.loadBalancers); err != nil {
		return in, err
	}
	if in.Keep, err = howToKeep(ctx, s, r.keep); err != nil {
		return in, err
	}
	v, err := s.View(ctx)
	if err != nil {
		return in, err
	}
	if v.Bitmap() {
		return in, errBitmap
	}
	in.Taken = sets.New(v.Known()...)
	services := &corev1.ServiceList{}
	err = s.ListNamed(ctx, services, "Services", client.InNamespace(r.namespace), client.MatchingLabelsSelector{Selector: selector})
	in.Services = services.Items
	return in, err
}

var errBitmap = errors.New("the API server allocates from the bitmap in etcd, where nothing can keep an old address for its Service: Services are moved on Kubernetes 1.33 and later")

// targetRanges are those of a ServiceCIDR, or CIDRs that lie in one.
func targetRanges(names []string, cidrs []networkingv1.ServiceCIDR) (out []Target, err error) {
	for _, name := range names {
		before := len(out)
		for i := range cidrs {
			for _, text := range cidrs[i].Spec.CIDRs {
				want := text
				if cidrs[i].Name != name {
					want = name
				}
				if r, err := allocator.ParseRange(want); err == nil && within(r.Prefix(), text) {
					out = append(out, Target{Range: r, ServiceCIDR: cidrs[i].Name, Ready: usable(&cidrs[i])})
				}
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("--to: no ServiceCIDR is called %s or has that range; API servers allocate from ServiceCIDRs alone, so create one first", name)
		}
	}
	return out, nil
}

func within(p netip.Prefix, cidr string) bool {
	outer, err := netip.ParsePrefix(cidr)
	return err == nil && outer.Contains(p.Addr()) && outer.Bits() <= p.Bits()
}

// usable reports whether API servers allocate from a ServiceCIDR.
func usable(o *networkingv1.ServiceCIDR) bool {
	return o.DeletionTimestamp.IsZero() && !meta.IsStatusConditionFalse(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
}

// rulesFor reads which Services --include names, which keep addresses of others, and what webhooks
// call.
func rulesFor(ctx context.Context, s *cli.Cluster, include []string, loadBalancers bool) (r Rules, err error) {
	r = Rules{IncludeLoadBalancers: loadBalancers, Callers: map[netip.Addr][]string{}, Awaited: map[types.NamespacedName][]string{}, Keeping: map[types.UID]string{}}
	if r.Named, err = named(include); err != nil {
		return r, err
	}
	kept, err := seconds(ctx, s, "")
	if err != nil {
		return r, err
	}
	for _, k := range kept {
		r.Keeping[k.held.Second] = fmt.Sprintf("%s of %s", k.Address, k.First)
	}
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfigurationList{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := errors.Join(s.ListNamed(ctx, mutating, "MutatingWebhookConfigurations"), s.ListNamed(ctx, validating, "ValidatingWebhookConfigurations")); err != nil {
		return r, err
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			addCaller(r, w.ClientConfig, w.FailurePolicy, w.Rules, "MutatingWebhookConfiguration "+c.Name)
		}
	}
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			addCaller(r, w.ClientConfig, w.FailurePolicy, w.Rules, "ValidatingWebhookConfiguration "+c.Name)
		}
	}
	return r, nil
}

// addCaller notes what a webhook calls: a URL's address, or a Service that Service changes need.
func addCaller(to Rules, c admissionregistrationv1.WebhookClientConfig, p *admissionregistrationv1.FailurePolicyType, on []admissionregistrationv1.RuleWithOperations, name string) {
	if s := c.Service; s != nil && ptr.Deref(p, admissionregistrationv1.Fail) == admissionregistrationv1.Fail && slices.ContainsFunc(on, changesServices) {
		note(to.Awaited, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, name)
	}
	if u, err := url.Parse(ptr.Deref(c.URL, "")); err == nil {
		if a, err := netip.ParseAddr(u.Hostname()); err == nil {
			note(to.Callers, a, name)
		}
	}
}

func note[K comparable](in map[K][]string, at K, name string) {
	if !slices.Contains(in[at], name) {
		in[at] = append(in[at], name)
	}
}

// changesServices reports whether a rule of a webhook is about changes of Services. What selectors
// and match conditions leave out is not looked at.
func changesServices(r admissionregistrationv1.RuleWithOperations) bool {
	const every = "*"
	return (slices.Contains(r.Operations, admissionregistrationv1.Update) || slices.Contains(r.Operations, admissionregistrationv1.OperationAll)) &&
		(slices.Contains(r.APIGroups, "") || slices.Contains(r.APIGroups, every)) &&
		slices.ContainsFunc(r.Resources, func(of string) bool { return of == "services" || of == every || of == "*/*" })
}

// howToKeep is how old addresses are kept: as the flag says, or as what runs on the nodes allows.
func howToKeep(ctx context.Context, s *cli.Cluster, flag string) (Keep, error) {
	if flag != "" {
		return Keep(flag), nil
	}
	agents, err := health.AgentSets(ctx, s, metav1.NamespaceSystem)
	if err != nil {
		return "", err
	}
	if len(agents) > 0 {
		return KeepAgent, nil
	}
	return KeepExternalIPs, nil
}
