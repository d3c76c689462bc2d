package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hook is what mutating and validating webhooks have in common, and matters here.
type hook struct {
	name                string
	failure             admissionregistrationv1.FailurePolicyType
	client              admissionregistrationv1.WebhookClientConfig
	namespaces, objects *metav1.LabelSelector
	rules               []admissionregistrationv1.RuleWithOperations
}

func mutatingHooks(c admissionregistrationv1.MutatingWebhookConfiguration) (all []hook) {
	for _, w := range c.Webhooks {
		all = append(all, hook{w.Name, failure(w.FailurePolicy), w.ClientConfig, w.NamespaceSelector, w.ObjectSelector, w.Rules})
	}
	return all
}

func validatingHooks(c admissionregistrationv1.ValidatingWebhookConfiguration) (all []hook) {
	for _, w := range c.Webhooks {
		all = append(all, hook{w.Name, failure(w.FailurePolicy), w.ClientConfig, w.NamespaceSelector, w.ObjectSelector, w.Rules})
	}
	return all
}

// failure is the policy; the API server's default is Fail.
func failure(p *admissionregistrationv1.FailurePolicyType) admissionregistrationv1.FailurePolicyType {
	if p == nil {
		return admissionregistrationv1.Fail
	}
	return *p
}

// configuration is a webhook configuration beside the one of the manifests.
type configuration struct {
	// object is what items name; namespace, if it is known, and service are those of the operator.
	object, namespace, service string
	// without says what does not happen where it is missing.
	without   string
	has, want []hook
}

// items are what is wrong with a configuration that is there, one for each kind of fault.
func (c configuration) items(now time.Time) (all []Item) {
	var missing, untrusted []string
	changed := map[string][]string{}
	var order []string
	for _, want := range c.want {
		n := slices.IndexFunc(c.has, func(h hook) bool { return h.name == want.name })
		if n < 0 {
			missing = append(missing, want.name)
			continue
		}
		if !TrustedUntil(c.has[n].client.CABundle).After(now) {
			untrusted = append(untrusted, want.name)
		}
		for _, text := range c.has[n].differences(want, c.namespace, c.service) {
			if changed[text] == nil {
				order = append(order, text)
			}
			changed[text] = append(changed[text], want.name)
		}
	}
	if len(missing) > 0 {
		all = append(all, Item{Check: "WebhooksMissing", Object: c.object, Message: fmt.Sprintf("It lacks %s. %s. %s", strings.Join(missing, ", "), c.without, again)})
	}
	if len(untrusted) > 0 {
		all = append(all, Item{Check: "WebhooksUntrusted", Object: c.object, Message: fmt.Sprintf("The caBundle of %s has no certificate that is valid now: the API server goes on "+
			"without the webhook. The operator enters its own within seconds, or cert-manager does: see whether it runs, and its log.", strings.Join(untrusted, ", "))})
	}
	for _, text := range order {
		all = append(all, Item{Check: "WebhooksChanged", Object: c.object, Message: strings.Join(changed[text], ", ") + ": " + text})
	}
	return all
}

// differences say in which ways a webhook is not as in the manifests, and what to do. Time-outs and
// match conditions are the admin's: they name the operator's namespace.
func (h hook) differences(want hook, namespace, service string) (all []string) {
	if h.failure != want.failure {
		all = append(all, fmt.Sprintf("failurePolicy is %s, and in the manifests %s, so that no client waits for the operator to come back. %s", h.failure, want.failure, back))
	}
	if text := h.wrongService(want, namespace, service); text != "" {
		all = append(all, text+" "+back)
	}
	if has, shipped := selector(h.namespaces), selector(want.namespaces); has != shipped && selector(unnamed(h.namespaces)) != selector(unnamed(want.namespaces)) {
		all = append(all, fmt.Sprintf("namespaceSelector is %s, and in the manifests %s: the API server does not ask about what the difference leaves out. %s", has, shipped, h.mend()))
	}
	if has, shipped := selector(h.objects), selector(want.objects); has != shipped {
		all = append(all, fmt.Sprintf("objectSelector is %s, and in the manifests %s: the API server does not ask about what the difference leaves out. %s", has, shipped, back))
	}
	if !equality.Semantic.DeepEqual(h.rules, want.rules) {
		all = append(all, "rules are not those of the manifests: the API server asks about other requests. "+back)
	}
	return all
}

// unnamed is a selector without the names of namespaces that it leaves out: those are the admin's,
// and the platform's (docs/platforms.md).
func unnamed(s *metav1.LabelSelector) *metav1.LabelSelector {
	s = s.DeepCopy()
	if s != nil {
		s.MatchExpressions = slices.DeleteFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn
		})
	}
	return s
}

// wrongService says that the API server calls another Service than the operator's. One that cannot
// reach Services is given a URL, which an admin knows better.
func (h hook) wrongService(want hook, namespace, service string) string {
	has := h.client.Service
	if has == nil {
		return ""
	}
	call := func(namespace, name string, path *string, port *int32) string {
		text := namespace + "/" + name
		if port != nil && *port != 443 {
			text += fmt.Sprintf(":%d", *port)
		}
		if path != nil {
			text += " " + *path
		}
		return text
	}
	is := call(has.Namespace, has.Name, has.Path, has.Port)
	should := call(cmp.Or(namespace, has.Namespace), service, want.client.Service.Path, want.client.Service.Port)
	if is == should {
		return ""
	}
	return fmt.Sprintf("the API server calls Service %s, and the operator is Service %s.", is, should)
}

// enforcer is by what labels the admissions enforcer of AKS leaves namespaces out.
var enforcer = []string{"control-plane", "kubernetes.azure.com/managedby"}

// mend says what to do about a namespaceSelector that another client has edited.
func (h hook) mend() string {
	if h.namespaces != nil && slices.ContainsFunc(h.namespaces.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return slices.Contains(enforcer, r.Key) }) {
		return `The admissions enforcer of AKS writes that: give the configuration the label admissions.enforcer/disabled: "true", which has it leave the configuration alone. ` + back
	}
	return back
}

// selector writes a selector as kubectl does; none selects all.
func selector(s *metav1.LabelSelector) string {
	if s == nil {
		s = &metav1.LabelSelector{}
	}
	return metav1.FormatLabelSelector(s)
}
