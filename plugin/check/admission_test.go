package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	webhookmanifest "github.com/clusterip-operator/clusterip-operator/config/webhook"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// authority makes a CA that is valid for a day.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: plugintest.Now, NotAfter: plugintest.Now.AddDate(0, 0, 1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// installed is what config/default leads to.
func installed(ca []byte) Admission {
	mutating := shipped[admissionregistrationv1.MutatingWebhookConfiguration](webhookmanifest.Mutating)
	validating := shipped[admissionregistrationv1.ValidatingWebhookConfiguration](webhookmanifest.Validating)
	for i := range mutating.Webhooks { // as the API server fills in what is not given
		w := &mutating.Webhooks[i]
		w.ClientConfig.CABundle, w.ObjectSelector = ca, &metav1.LabelSelector{}
	}
	for i := range validating.Webhooks {
		w := &validating.Webhooks[i]
		w.ClientConfig.CABundle, w.ObjectSelector, w.NamespaceSelector = ca, &metav1.LabelSelector{}, &metav1.LabelSelector{}
	}
	exclusive := shippedExclusive.DeepCopy()
	return Admission{
		Namespace: "clusterip-operator-system", Installed: true, Serves: true, Name: InstallationName, ServiceName: "clusterip-operator-webhook",
		Mutating:   Seen[admissionregistrationv1.MutatingWebhookConfiguration]{Object: &mutating, Known: true},
		Validating: Seen[admissionregistrationv1.ValidatingWebhookConfiguration]{Object: &validating, Known: true},
		Service:    Seen[corev1.Service]{Object: &corev1.Service{}, Known: true},
		Exclusive:  Seen[admissionregistrationv1.ValidatingAdmissionPolicy]{Object: exclusive, Known: true},
		Keeper:     Seen[admissionregistrationv1.ValidatingAdmissionPolicyBinding]{Object: &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, Known: true},
	}
}

// Each row is something that happens to an installation, with the first finding that follows.
func TestAdmission(t *testing.T) {
	ca, other := authority(t), authority(t)
	const mutating, validating = "mutatingwebhookconfiguration/clusterip-operator", "validatingwebhookconfiguration/clusterip-operator"
	// aks is how the admissions enforcer edits every webhook.
	aks := func(s *metav1.LabelSelector) *metav1.LabelSelector {
		if s == nil {
			s = &metav1.LabelSelector{}
		}
		s = s.DeepCopy()
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: "control-plane", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}})
		return s
	}
	for name, tc := range map[string]struct {
		happens func(a *Admission)
		checks  []string
		object  string
		words   string
	}{
		"nothing": {func(*Admission) {}, nil, "", ""},
		"not installed": {func(a *Admission) {
			*a = Admission{Name: InstallationName}
			a.Mutating.Known, a.Validating.Known, a.Exclusive.Known = true, true, true
		}, nil, "", ""},
		"no webhooks are served": {func(a *Admission) { a.Serves, a.Mutating.Object, a.Validating.Object = false, nil, nil }, nil, "", ""},
		"may not be read": {func(a *Admission) {
			a.Mutating, a.Validating, a.Service = Seen[admissionregistrationv1.MutatingWebhookConfiguration]{}, Seen[admissionregistrationv1.ValidatingWebhookConfiguration]{}, Seen[corev1.Service]{}
		}, nil, "", ""},
		"all are pruned":                   {func(a *Admission) { a.Mutating.Object, a.Validating.Object = nil, nil }, []string{"WebhooksMissing", "WebhooksMissing"}, mutating, "kubectl apply --server-side -k config/default"},
		"half restored":                    {func(a *Admission) { a.Validating.Object = nil }, []string{"WebhooksMissing"}, validating, "whether an IPAddress in use may be deleted"},
		"half restored, and no Deployment": {func(a *Admission) { a.Mutating.Object, a.Installed = nil, false }, []string{"WebhooksMissing"}, mutating, "policies steer none of them"},
		"one webhook is missing":           {func(a *Admission) { a.Mutating.Object.Webhooks = a.Mutating.Object.Webhooks[1:] }, []string{"WebhooksMissing"}, mutating, "It lacks service.clusterip-operator.io. "},
		"the Service is missing":           {func(a *Admission) { a.Service.Object = nil }, []string{"WebhooksMissing"}, "service/clusterip-operator-system/clusterip-operator-webhook", "goes on without them"},
		"failurePolicy":                    {func(a *Admission) { a.Validating.Object.Webhooks[1].FailurePolicy = new(admissionregistrationv1.Fail) }, []string{"WebhooksChanged"}, validating, "servicecidr.clusterip-operator.io: failurePolicy is Fail, and in the manifests Ignore"},
		"another Service":                  {func(a *Admission) { a.Mutating.Object.Webhooks[0].ClientConfig.Service.Name = "x" }, []string{"WebhooksChanged"}, mutating, "the API server calls Service clusterip-operator-system/x /mutate-service, and the operator is Service clusterip-operator-system/clusterip-operator-webhook /mutate-service."},
		"another port":                     {func(a *Admission) { a.Mutating.Object.Webhooks[0].ClientConfig.Service.Port = new(int32(8443)) }, []string{"WebhooksChanged"}, mutating, "clusterip-operator-webhook:8443"},
		"another path":                     {func(a *Admission) { a.Validating.Object.Webhooks[0].ClientConfig.Service.Path = new("/") }, []string{"WebhooksChanged"}, validating, "clusterip-operator-webhook /,"},
		"a URL": {func(a *Admission) {
			a.Mutating.Object.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new("https://10.0.0.1"), CABundle: ca}
		}, nil, "", ""},
		"another namespace":            {func(a *Admission) { a.Namespace = "operators" }, []string{"WebhooksChanged", "WebhooksChanged", "WebhooksChanged", "WebhooksChanged"}, mutating, "the operator is Service operators/"},
		"which namespace is not known": {func(a *Admission) { a.Namespace, a.Installed = "operators", false }, nil, "", ""},
		"AKS, each webhook": {func(a *Admission) {
			for i := range a.Validating.Object.Webhooks {
				w := &a.Validating.Object.Webhooks[i]
				w.NamespaceSelector = aks(w.NamespaceSelector)
			}
		}, []string{"WebhooksChanged"}, validating, `ipaddress.clusterip-operator.io, servicecidr.clusterip-operator.io, servicecidrpolicy.clusterip-operator.io: namespaceSelector is control-plane notin (true), and in the manifests <none>: the API server does not ask about what the difference leaves out. The admissions enforcer of AKS writes that: give the configuration the label admissions.enforcer/disabled: "true"`},
		"AKS, a webhook with a selector": {func(a *Admission) {
			w := &a.Mutating.Object.Webhooks[0]
			w.NamespaceSelector = aks(w.NamespaceSelector)
		}, []string{"WebhooksChanged"}, mutating, "namespaceSelector is control-plane notin (true),kubernetes.io/metadata.name notin (default), and in the manifests kubernetes.io/metadata.name notin (default)"},
		"namespaces are left out": {func(a *Admission) {
			a.Mutating.Object.Webhooks[2].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, []string{"WebhooksChanged"}, mutating, "update.service.clusterip-operator.io: namespaceSelector is a=b, and in the manifests <none>"},
		"Services are left out": {func(a *Admission) {
			a.Mutating.Object.Webhooks[0].ObjectSelector.MatchLabels = map[string]string{"a": "b"}
		}, []string{"WebhooksChanged"}, mutating, "objectSelector is a=b"},
		"other requests": {func(a *Admission) {
			a.Mutating.Object.Webhooks[0].Rules[0].Operations[0] = admissionregistrationv1.Delete
		}, []string{"WebhooksChanged"}, mutating, "rules are not those of the manifests"},
		"no authority":      {func(a *Admission) { a.Validating.Object.Webhooks[2].ClientConfig.CABundle = nil }, []string{"WebhooksUntrusted"}, validating, "The caBundle of servicecidrpolicy.clusterip-operator.io has no certificate that is valid now"},
		"another authority": {func(a *Admission) { a.Validating.Object.Webhooks[2].ClientConfig.CABundle = other }, []string{"WebhooksUntrusted"}, validating, "The caBundle of servicecidrpolicy.clusterip-operator.io has no authority in common"},
		"a change of the authority": {func(a *Admission) {
			a.Validating.Object.Webhooks[2].ClientConfig.CABundle = append(append([]byte{}, other...), ca...)
		}, nil, "", ""},
		"nothing enforces":         {func(a *Admission) { a.Exclusive.Object = nil }, []string{"EnforcementMissing"}, "validatingadmissionpolicy/clusterip-operator-exclusive", "the webhook alone keeps"},
		"another version enforces": {func(a *Admission) { a.Exclusive.Object.Spec.FailurePolicy = new(admissionregistrationv1.Ignore) }, []string{"EnforcementChanged"}, "validatingadmissionpolicy/clusterip-operator-exclusive", "--force-conflicts"},
		"nothing keeps it awake":   {func(a *Admission) { a.Keeper.Object = nil }, []string{"EnforcementMissing"}, "validatingadmissionpolicybinding/clusterip-operator-exclusive-keeper", "until it is started again"},
	} {
		t.Run(name, func(t *testing.T) {
			a := installed(ca)
			tc.happens(&a)
			got := a.Items(plugintest.Now.Add(time.Hour), nil)
			if diff := cmp.Diff(tc.checks, checksOf(got)); diff != "" {
				t.Fatalf("(-want +got):\n%s\n%+v", diff, got)
			}
			if len(got) > 0 && (got[0].Object != tc.object || !strings.Contains(got[0].Message, tc.words)) {
				t.Errorf("found of %s: %q\nwant of %s: %q", got[0].Object, got[0].Message, tc.object, tc.words)
			}
			for _, i := range got {
				if checks[i.Check] == "" {
					t.Errorf("--list does not have %s", i.Check)
				}
			}
		})
	}
}

// A policy's condition tells of the ValidatingAdmissionPolicy that it needs.
func TestAConditionTellsOfEnforcementAlready(t *testing.T) {
	a := installed(authority(t))
	a.Exclusive.Object = nil
	p := v1alpha1.ServiceCIDRPolicy{}
	p.Status.Conditions = []metav1.Condition{condition(v1alpha1.PolicyEnforced, metav1.ConditionFalse, "PolicyMissing", "")}
	if got := a.Items(plugintest.Now, []v1alpha1.ServiceCIDRPolicy{p}); len(got) > 0 {
		t.Errorf("told twice: %+v", got)
	}
}

// Flags win over the file, and a manager without either tells nothing.
func TestSettings(t *testing.T) {
	const file = "webhook: {bindAddress: \":9443\", configuration: mine}"
	for name, tc := range map[string]struct {
		file string
		args []string
		want webhookSettings
	}{
		"the file":           {file, nil, webhookSettings{bind: ":9443", configuration: "mine"}},
		"without webhooks":   {file, []string{"--config=x", "--webhook-bind-address=0"}, webhookSettings{bind: "0", configuration: "mine"}},
		"flags":              {"", []string{"--webhook-bind-address=:1", "--webhook-configuration=c", "--webhook-service=s"}, webhookSettings{":1", "c", "s"}},
		"nothing is known":   {"", nil, webhookSettings{}},
		"a file with faults": {"webhook: [", nil, webhookSettings{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := settings(tc.file, corev1.PodSpec{Containers: []corev1.Container{{Args: tc.args}}}); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}
