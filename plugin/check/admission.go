package check

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	enforcementmanifest "github.com/clusterip-operator/clusterip-operator/config/enforcement"
	webhookmanifest "github.com/clusterip-operator/clusterip-operator/config/webhook"
)

// Admission is what an API server has of the operator's admission: whom it is to call, and by which
// policy it keeps Services out of ranges by itself. LookAtAdmission reads it. The zero value is
// that of a cluster without the operator.
type Admission struct {
	// Namespace is the operator's.
	Namespace string
	// Other is the operator's version where it is known to be another one than the plugin's, whose
	// manifests are then no measure.
	Other string
	// Installed: the Deployment of the manager is there. Serves: webhooks belong to the installation.
	Installed, Serves bool
	// Name is that of both webhook configurations, ServiceName that of the Service that they name.
	Name, ServiceName string
	Mutating          Seen[admissionregistrationv1.MutatingWebhookConfiguration]
	Validating        Seen[admissionregistrationv1.ValidatingWebhookConfiguration]
	// Service is the one by which the webhooks are called; unknown where they have URLs.
	Service   Seen[corev1.Service]
	Exclusive Seen[admissionregistrationv1.ValidatingAdmissionPolicy]
	Keeper    Seen[admissionregistrationv1.ValidatingAdmissionPolicyBinding]
	// Unknown is what the user may not read.
	Unknown []Unknown
	// freePercent is the operator's nearlyFull, which stands beside what tells of webhooks.
	freePercent int
}

// Untold says what the user may not read, empty if nothing.
func (a Admission) Untold() string {
	all := make([]string, 0, len(a.Unknown))
	for _, u := range a.Unknown {
		all = append(all, u.Why)
	}
	return strings.Join(all, ", ")
}

// unsteered reports whether no webhook draws addresses, as far as that is known.
func (a Admission) unsteered() bool { return !a.Serves && a.Mutating.missing() }

// Seen is an object that was looked for. The zero value was not, so that nothing is known of it.
type Seen[T any] struct {
	// Object is nil if there is none.
	Object *T
	Known  bool
}

// missing reports whether it is known that there is no such object.
func (s Seen[T]) missing() bool { return s.Known && s.Object == nil }

// again is what to do about all that is not as the manifests have it.
const (
	again = "Apply the manifests again: kubectl apply --server-side -k config/default, or -f install.yaml of the operator's version."
	back  = "Put it back: kubectl apply --server-side --force-conflicts -k config/default, or -f install.yaml of the operator's version."
)

// shipped reads one of the texts that are compiled in.
func shipped[T any](text []byte) (out T) {
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		panic(err) // the text is constant
	}
	return out
}

var (
	shippedMutating   = mutatingHooks(shipped[admissionregistrationv1.MutatingWebhookConfiguration](webhookmanifest.Mutating))
	shippedValidating = validatingHooks(shipped[admissionregistrationv1.ValidatingWebhookConfiguration](webhookmanifest.Validating))
	shippedExclusive  = shipped[admissionregistrationv1.ValidatingAdmissionPolicy](enforcementmanifest.Policy)
)

// Bundle are the authorities that the API server trusts for one webhook, in PEM.
type Bundle struct {
	Webhook string
	Bundle  []byte
}

// Bundles are those of all webhooks of both configurations.
func (a Admission) Bundles() (all []Bundle) {
	for _, h := range a.hooks() {
		all = append(all, Bundle{h.name, h.client.CABundle})
	}
	return all
}

// hooks are those of both configurations.
func (a Admission) hooks() (all []hook) {
	if a.Mutating.Object != nil {
		all = append(all, mutatingHooks(*a.Mutating.Object)...)
	}
	if a.Validating.Object != nil {
		all = append(all, validatingHooks(*a.Validating.Object)...)
	}
	return all
}

// Items are what is wrong with it. What conditions of policies tell already is left out.
func (a Admission) Items(now time.Time, policies []v1alpha1.ServiceCIDRPolicy) []Item {
	var all []Item
	if a.Serves {
		all = append(all, a.webhooks(now)...)
	}
	if a.Installed {
		all = append(all, a.enforcement(policies)...)
	}
	return all
}

// webhooks judges both configurations, and the Service by which they are called.
func (a Admission) webhooks(now time.Time) (all []Item) {
	namespace := a.Namespace
	if !a.Installed {
		namespace = "" // it may be installed in another one
	}
	mutating := configuration{object: "mutatingwebhookconfiguration/" + a.Name, namespace: namespace, service: a.ServiceName,
		without: "Without it the API server does not ask the operator about new Services: policies steer none of them"}
	validating := configuration{object: "validatingwebhookconfiguration/" + a.Name, namespace: namespace, service: a.ServiceName,
		without: "Without it the API server does not ask the operator whether an IPAddress in use may be deleted, a ServiceCIDR overlaps a network, a policy makes sense"}
	if a.Mutating.Object != nil {
		mutating.has = mutatingHooks(*a.Mutating.Object)
	}
	if a.Validating.Object != nil {
		validating.has = validatingHooks(*a.Validating.Object)
	}
	mutating.want, validating.want = a.expected(mutating.has, shippedMutating), a.expected(validating.has, shippedValidating)
	for _, c := range []struct {
		configuration
		known, missing bool
	}{{mutating, a.Mutating.Known, a.Mutating.missing()}, {validating, a.Validating.Known, a.Validating.missing()}} {
		switch {
		case c.missing:
			all = append(all, Item{Check: "WebhooksMissing", Object: c.object, Message: "It is not in the cluster. " + c.without + ". " + again + " Have no other program prune it."})
		case c.known:
			all = append(all, c.items(now)...)
		}
	}
	if a.Service.missing() {
		all = append(all, Item{Check: "WebhooksMissing", Object: "service/" + a.Namespace + "/" + a.ServiceName,
			Message: "The Service by which the API server calls the webhooks is not in the cluster: it goes on without them. " + again})
	}
	return append(all, unlike(mutating, validating)...)
}

// expected are the webhooks that a configuration should have: those of the plugin's manifests. Of
// another version it is known only that there are some.
func (a Admission) expected(has, shipped []hook) []hook {
	if a.Other != "" && len(has) > 0 {
		return has
	}
	return shipped
}

// enforcement judges what keeps Services out of exclusive ranges without a webhook.
func (a Admission) enforcement(policies []v1alpha1.ServiceCIDRPolicy) (all []Item) {
	const policy, keeper = "validatingadmissionpolicy/" + v1alpha1.ExclusiveName, "validatingadmissionpolicybinding/" + v1alpha1.ExclusiveName + "-keeper"
	switch {
	case slices.ContainsFunc(policies, tellsOfEnforcement):
	case a.Exclusive.missing():
		all = append(all, Item{Check: "EnforcementMissing", Object: policy, Message: "It is not in the cluster: the webhook alone keeps other Services out of exclusive ranges. " + again})
	case a.Exclusive.Object != nil && a.Other == "" && !equality.Semantic.DeepEqual(a.Exclusive.Object.Spec, shippedExclusive.Spec):
		all = append(all, Item{Check: "EnforcementChanged", Object: policy, Message: "It is not the one of this version: whether the API server keeps other Services out of exclusive ranges cannot be told. " + back})
	}
	if a.Keeper.missing() {
		all = append(all, Item{Check: "EnforcementMissing", Object: keeper,
			Message: "It is not in the cluster: once no policy is exclusive, the API server stops to follow the ConfigMap of exclusive ranges until it is started again. " + again})
	}
	return all
}

// tellsOfEnforcement reports whether a policy's condition says that the ValidatingAdmissionPolicy
// is missing or another one.
func tellsOfEnforcement(p v1alpha1.ServiceCIDRPolicy) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.PolicyEnforced)
	return c != nil && slices.Contains([]string{"PolicyMissing", "PolicyDiffers"}, c.Reason)
}

// unlike finds webhooks that trust no authority which all others trust: another client has written
// that. The operator enters its own into all of them, and so does cert-manager.
func unlike(all ...configuration) []Item {
	var first []*x509.Certificate
	for _, c := range all {
		for _, h := range c.has {
			has := certificates(h.client.CABundle)
			if first == nil {
				first = has
			}
			if len(has) > 0 && !slices.ContainsFunc(has, func(one *x509.Certificate) bool {
				return slices.ContainsFunc(first, func(other *x509.Certificate) bool { return bytes.Equal(one.Raw, other.Raw) })
			}) {
				return []Item{{Check: "WebhooksUntrusted", Object: c.object, Message: fmt.Sprintf("The caBundle of %s has no authority in common with that of the first webhook: "+
					"another client has written one of them, or cert-manager is renewing it at this moment, and the API server goes on without the webhook. Look again; if it is "+
					"the same then, find out which client does that.", h.name)}}
			}
		}
	}
	return nil
}

// certificates are those of a bundle that can be read.
func certificates(bundle []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
	return all
}

// TrustedUntil is when the last certificate of a bundle runs out; zero without any.
func TrustedUntil(bundle []byte) (last time.Time) {
	for _, c := range certificates(bundle) {
		if c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	return last
}
