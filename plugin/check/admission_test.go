package check

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	webhookmanifest "github.com/clusterip-operator/clusterip-operator/config/webhook"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
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
	named := func(how metav1.LabelSelectorOperator, names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: how, Values: names}}}
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
		"GKE, or an admin, leaves namespaces out by name": {func(a *Admission) {
			a.Mutating.Object.Webhooks[0].NamespaceSelector.MatchExpressions[0].Values = []string{"default", "kube-system", "kube-node-lease"}
			a.Mutating.Object.Webhooks[2].NamespaceSelector = named(metav1.LabelSelectorOpNotIn, "kube-system", "kube-node-lease")
			a.Validating.Object.Webhooks[0].NamespaceSelector = named(metav1.LabelSelectorOpNotIn, "kube-system")
		}, nil, "", ""},
		"all namespaces but some are left out": {func(a *Admission) {
			a.Mutating.Object.Webhooks[2].NamespaceSelector = named(metav1.LabelSelectorOpIn, "shop")
		}, []string{"WebhooksChanged"}, mutating, "update.service.clusterip-operator.io: namespaceSelector is kubernetes.io/metadata.name in (shop), and in the manifests <none>"},
		"namespaces are left out by name, and others by label": {func(a *Admission) {
			a.Mutating.Object.Webhooks[0].NamespaceSelector = named(metav1.LabelSelectorOpNotIn, "default", "kube-system")
			a.Mutating.Object.Webhooks[0].NamespaceSelector.MatchLabels = map[string]string{"a": "b"}
		}, []string{"WebhooksChanged"}, mutating, "namespaceSelector is a=b,kubernetes.io/metadata.name notin (default,kube-system), and in the manifests kubernetes.io/metadata.name notin (default)"},
		"namespaces are left out by name, in a selector of Services": {func(a *Admission) {
			a.Mutating.Object.Webhooks[0].ObjectSelector = named(metav1.LabelSelectorOpNotIn, "kube-system")
		}, []string{"WebhooksChanged"}, mutating, "objectSelector is kubernetes.io/metadata.name notin (kube-system)"},
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
		"another version has other webhooks": {func(a *Admission) {
			a.Other, a.Exclusive.Object.Spec.FailurePolicy = "v1.3.0", new(admissionregistrationv1.Ignore)
			a.Mutating.Object.Webhooks, a.Validating.Object.Webhooks[1].FailurePolicy = a.Mutating.Object.Webhooks[1:], new(admissionregistrationv1.Fail)
		}, nil, "", ""},
		"another version, pruned":    {func(a *Admission) { a.Other, a.Mutating.Object.Webhooks = "v1.3.0", nil }, []string{"WebhooksMissing"}, mutating, "It lacks service.clusterip-operator.io, "},
		"another version, untrusted": {func(a *Admission) { a.Other, a.Validating.Object.Webhooks[2].ClientConfig.CABundle = "v1.3.0", nil }, []string{"WebhooksUntrusted"}, validating, "servicecidrpolicy"},
		"another version, elsewhere": {func(a *Admission) { a.Other, a.Mutating.Object.Webhooks[0].ClientConfig.Service.Name = "v1.3.0", "x" }, []string{"WebhooksChanged"}, mutating, "calls Service clusterip-operator-system/x"},
		"nothing keeps it awake":     {func(a *Admission) { a.Keeper.Object = nil }, []string{"EnforcementMissing"}, "validatingadmissionpolicybinding/clusterip-operator-exclusive-keeper", "until it is started again"},
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

// What is not compared is told, also where the API server alone enforces.
func TestUncompared(t *testing.T) {
	enforced := Admission{Other: "v1.3.0"}
	enforced.Exclusive.Object = &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if got := enforced.uncompared("v1.2.3"); len(got) != 1 || !strings.Contains(got[0].Why, "manifests of v1.3.0") || !strings.Contains(got[0].Why, "this plugin is v1.2.3") {
		t.Errorf("without webhooks: %+v", got)
	}
	if got := (Admission{Other: "v1.3.0"}).uncompared("v1.2.3"); got != nil {
		t.Errorf("of nothing: %q", got)
	}
	enforced.Other = ""
	if got := enforced.uncompared("v1.2.3"); got != nil {
		t.Errorf("of one version: %q", got)
	}
}

// Neighbouring versions of the operator and the plugin may run: see docs/versions.md.
func TestOtherVersion(t *testing.T) {
	for image, want := range map[string]string{
		"ghcr.io/x/manager:v1.3.0@sha256:0123": "v1.3.0", "localhost:5000/manager:v1.1.0": "v1.1.0", "manager:v1.3.0-rc.1": "v1.3.0-rc.1",
		"ghcr.io/x/manager:v1.2.3": "", "clusterip-operator/manager:dev": "", "localhost:5000/manager": "", "manager@sha256:0123": "", "manager:latest": "", "": "",
	} {
		pod := corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}
		if got := otherVersion(pod, "v1.2.3"); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
		if got := otherVersion(pod, "v0.0.0-20261127231151-254dbbb0e0d7"); got != "" {
			t.Errorf("%s beside a build without a release: %q", image, got)
		}
	}
	if got := otherVersion(corev1.PodSpec{}, "v1.2.3"); got != "" {
		t.Errorf("of no container: %q", got)
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
		"flags in two words": {file, []string{"--webhook-bind-address", "0", "--webhook-service", "s"}, webhookSettings{"0", "mine", "s"}},
		"a flag cut short":   {"", []string{"--webhook-bind-address"}, webhookSettings{}},
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

// seenBy is a cluster that has these objects alone.
func seenBy(all ...client.Object) *cli.Cluster {
	return &cli.Cluster{WithWatch: interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			for _, o := range all {
				if client.ObjectKeyFromObject(o) == key && reflect.TypeOf(o) == reflect.TypeOf(into) {
					reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o).Elem())
					return nil
				}
			}
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		},
	})}
}

// mounting is a pod that mounts ConfigMaps, with arguments.
func mounting(names []string, args ...string) (pod corev1.PodSpec) {
	pod.Containers = []corev1.Container{{Image: "manager:v0.1.0", Args: args}}
	for _, name := range names {
		source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: source}})
	}
	return pod
}

// A pod may mount other ConfigMaps beside that of its configuration: authorities, for instance.
func TestConfigFile(t *testing.T) {
	file := func(name, key, text string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "op", Name: name}, Data: map[string]string{key: text}}
	}
	s := seenBy(file("authorities", "ca.crt", "x"), file("config", "config.yaml", "webhook: {}"), file("empty", "config.yaml", ""))
	for want, names := range map[string][]string{"webhook: {}": {"gone", "authorities", "empty", "config"}, "": {"authorities", "empty"}} {
		if got, err := ConfigFile(t.Context(), s, "op", mounting(names)); got != want || err != nil {
			t.Errorf("%v: %q, error %v; want %q", names, got, err, want)
		}
	}
}

// Without webhooks nothing is wrong only where the configuration says that there are to be none.
func TestAdmissionThatIsNotKnown(t *testing.T) {
	configured := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: InstallationName}}
	deployment := func(args ...string) *appsv1.Deployment {
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: mounting(nil, args...)}}}
	}
	for name, tc := range map[string]struct {
		manager *appsv1.Deployment
		has     []client.Object
		told    bool
	}{
		"no manager":                            {nil, nil, true},
		"a manager without a configuration":     {deployment(), nil, true},
		"a manager that serves none":            {deployment("--webhook-bind-address=0"), nil, false},
		"a manager whose webhooks are gone":     {deployment("--webhook-bind-address", ":9443"), nil, false},
		"webhooks of a manager that is nowhere": {nil, []client.Object{configured}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := LookAtAdmission(t.Context(), seenBy(tc.has...), "op", tc.manager)
			if err != nil {
				t.Fatal(err)
			}
			if told := strings.Contains(a.Untold(), "namespace op has no manager whose configuration tells"); told != tc.told || len(a.Unknown) > 1 {
				t.Errorf("unknown is %q, want one: %t", a.Unknown, tc.told)
			}
		})
	}
}
