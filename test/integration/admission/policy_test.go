package admission_test

import (
	"context"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// policies is the kind as users see it; no type of the operator's code is used, so that a name which changes by mistake is noticed.
var policies = schema.GroupVersionResource{Group: "clusterip-operator.io", Version: "v1alpha1", Resource: "servicecidrpolicies"}

// author writes objects as a user does, from text, and keeps the warnings of the API server.
type author struct {
	client dynamic.Interface

	mu       sync.Mutex
	warnings []string
}

// newAuthor makes an author who connects as config says.
func newAuthor(config *rest.Config) *author {
	GinkgoHelper()
	a := &author{}
	config = rest.CopyConfig(config)
	config.WarningHandler = a
	var err error
	a.client, err = dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return a
}

// HandleWarningHeader keeps a warning.
func (a *author) HandleWarningHeader(_ int, _, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warnings = append(a.warnings, text)
}

// Warnings returns what the API server has warned of since the last call.
func (a *author) Warnings() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { a.warnings = nil }()
	return slices.Clone(a.warnings)
}

// policyOf builds a policy with the given spec, in YAML.
func policyOf(name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	var fields map[string]any
	Expect(yaml.Unmarshal([]byte(spec), &fields)).To(Succeed(), spec)
	policy := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	policy.SetGroupVersionKind(policies.GroupVersion().WithKind("ServiceCIDRPolicy"))
	policy.SetName(name)
	return policy
}

// TryPolicy creates a policy and returns the API server's answer.
func (a *author) TryPolicy(ctx context.Context, name, spec string) error {
	GinkgoHelper()
	_, err := a.client.Resource(policies).Create(ctx, policyOf(name, spec), metav1.CreateOptions{FieldValidation: "Strict"})
	return err
}

// Policy creates a policy that goes with the calling node.
func (a *author) Policy(ctx context.Context, name, spec string) {
	GinkgoHelper()
	Expect(a.TryPolicy(ctx, name, spec)).To(Succeed(), spec)
	DeferCleanup(func(ctx SpecContext) { a.DeletePolicy(ctx, name) })
}

// TryChange merges a patch, in YAML, into the spec of a policy.
func (a *author) TryChange(ctx context.Context, name, spec string) error {
	GinkgoHelper()
	patch, err := yaml.YAMLToJSON([]byte("{spec: " + spec + "}"))
	Expect(err).NotTo(HaveOccurred(), spec)
	_, err = a.client.Resource(policies).Patch(ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{})
	return err
}

// DeletePolicy deletes a policy, if there is one.
func (a *author) DeletePolicy(ctx context.Context, name string) {
	GinkgoHelper()
	err := a.client.Resource(policies).Delete(ctx, name, metav1.DeleteOptions{})
	Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}

// Policies returns the names of all policies.
func (a *author) Policies(ctx context.Context) []string {
	GinkgoHelper()
	list, err := a.client.Resource(policies).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	names := []string{}
	for _, policy := range list.Items {
		names = append(names, policy.GetName())
	}
	slices.Sort(names)
	return names
}

// Condition returns a condition of a policy that speaks of its present spec, the zero Condition if there is none yet.
func (a *author) Condition(ctx context.Context, name, kind string) metav1.Condition {
	GinkgoHelper()
	policy, err := a.client.Resource(policies).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	fields, _, err := unstructured.NestedMap(policy.Object, "status")
	Expect(err).NotTo(HaveOccurred())
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status)).To(Succeed())
	condition := meta.FindStatusCondition(status.Conditions, kind)
	if condition == nil || condition.ObservedGeneration != policy.GetGeneration() {
		return metav1.Condition{}
	}
	return *condition
}

// Conditions of a policy, as users see them.
const (
	accepted    = "Accepted"
	conflicting = "Conflicting"
	programmed  = "Programmed"
)

// soon is within what time the operator says what it thinks of a change.
const soon = 15 * time.Second

// EventuallySays waits until a condition of a policy has a status, and a message with all of the words.
func (a *author) EventuallySays(ctx context.Context, name, kind string, status metav1.ConditionStatus, words ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		condition := a.Condition(ctx, name, kind)
		g.Expect(condition.Status).To(Equal(status), "%s of %s: %s", kind, name, condition.Message)
		for _, word := range words {
			g.Expect(condition.Message).To(ContainSubstring(word), "%s of %s", kind, name)
		}
		g.Expect(condition.Reason).NotTo(BeEmpty())
	}).WithTimeout(soon).WithPolling(100 * time.Millisecond).Should(Succeed())
}
