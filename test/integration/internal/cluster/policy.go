package cluster

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// followerDelay is how much later than the leader, who writes status, replicas may see a change.
const followerDelay = 300 * time.Millisecond

// newPolicy is a policy as far as it is needed to find one.
func newPolicy(name string) *v1alpha1.ServiceCIDRPolicy {
	return &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (c *Cluster) policyClient() client.Client {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	config := c.AdminConfig()
	config.WarningHandler = rest.NoWarnings{}
	made, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return made
}

// Policies returns the administrator's client for ServiceCIDRPolicies. It may be used concurrently.
func (c *Cluster) Policies() client.Client { return c.policies }

// PolicyText builds a policy as a user writes it: its spec in YAML, which may be nonsense. It uses
// no type of ours, so that a name which changes by mistake is noticed.
func PolicyText(name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	policy := &unstructured.Unstructured{Object: map[string]any{}}
	Expect(yaml.Unmarshal([]byte("{spec: "+spec+"}"), &policy.Object)).To(Succeed(), spec)
	policy.SetAPIVersion("clusterip-operator.io/v1alpha1")
	policy.SetKind("ServiceCIDRPolicy")
	policy.SetName(name)
	return policy
}

// TryPolicy asks for a policy with a spec in YAML, and returns the API server's answer.
func (c *Cluster) TryPolicy(ctx context.Context, name, spec string) error {
	GinkgoHelper()
	return c.policies.Create(ctx, PolicyText(name, spec), client.FieldValidation(metav1.FieldValidationStrict))
}

// AddPolicy creates a policy with a spec in YAML. It goes with the calling node.
func (c *Cluster) AddPolicy(ctx context.Context, name, spec string) {
	GinkgoHelper()
	Expect(c.TryPolicy(ctx, name, spec)).To(Succeed(), spec)
	DeferCleanup(func(ctx SpecContext) { c.DropPolicy(ctx, name) })
}

// AllowAdditional has a policy allow all Services additional addresses of ServiceCIDRs, until the
// spec ends. Their ClusterIPs come from the default range as long as that has some.
func (c *Cluster) AllowAdditional(ctx context.Context, name string, cidrs ...string) {
	GinkgoHelper()
	c.AddPolicy(ctx, name+"-first", "{serviceCIDRs: [kubernetes], priority: -10}")
	c.AddPolicy(ctx, name, "{serviceCIDRs: ["+strings.Join(cidrs, ", ")+"], additionalAddresses: true, priority: -20}")
	c.WaitProgrammed(ctx, name+"-first")
	Eventually(c.PolicyCondition).WithArguments(ctx, name, "Programmed").ShouldNot(BeZero())
}

// DropPolicy deletes a policy, if there is one, and waits for nothing.
func (c *Cluster) DropPolicy(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(c.policies.Delete(ctx, newPolicy(name)))).To(Succeed())
}

// TryPolicyChange merges a YAML patch into a policy's spec, and returns the API server's answer.
func (c *Cluster) TryPolicyChange(ctx context.Context, name, spec string) error {
	GinkgoHelper()
	patch, err := yaml.YAMLToJSON([]byte("{spec: " + spec + "}"))
	Expect(err).NotTo(HaveOccurred(), spec)
	return c.policies.Patch(ctx, newPolicy(name), client.RawPatch(types.MergePatchType, patch))
}

// ApplyPolicy creates a policy with a spec in YAML, or replaces the spec, and waits for nothing.
func (c *Cluster) ApplyPolicy(ctx context.Context, name, spec string) {
	GinkgoHelper()
	policy := client.ApplyConfigurationFromUnstructured(PolicyText(name, spec))
	Expect(c.policies.Apply(ctx, policy, client.FieldOwner("test"), client.ForceOwnership)).To(Succeed(), spec)
}

// Program is ApplyPolicy that waits until the policy is programmed.
func (c *Cluster) Program(ctx context.Context, name, spec string) {
	GinkgoHelper()
	c.ApplyPolicy(ctx, name, spec)
	c.WaitProgrammed(ctx, name)
}

// WaitProgrammed waits until policies are Programmed in their present generation, and all replicas
// have had time to learn of it.
func (c *Cluster) WaitProgrammed(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		c.WaitCondition(ctx, name, Programmed, metav1.ConditionTrue)
	}
}

// WaitCondition waits until a condition of a policy has a status, for its present generation, and a
// message with all of the words.
func (c *Cluster) WaitCondition(ctx context.Context, name, kind string, status metav1.ConditionStatus, words ...string) {
	GinkgoHelper()
	Eventually(c.PolicyCondition).WithArguments(ctx, name, kind).Should(And(
		HaveField("Status", status), HaveField("Reason", Not(BeEmpty())), HaveField("Message", ContainAll(words...))), name)
	time.Sleep(followerDelay)
}

// ContainAll succeeds for a text with all of the words.
func ContainAll(words ...string) OmegaMatcher {
	matchers := []OmegaMatcher{Not(BeNil())}
	for _, word := range words {
		matchers = append(matchers, ContainSubstring("%s", word))
	}
	return And(matchers...)
}

// Policy returns a policy, nil if there is none.
func (c *Cluster) Policy(ctx context.Context, name string) *v1alpha1.ServiceCIDRPolicy {
	GinkgoHelper()
	policy := &v1alpha1.ServiceCIDRPolicy{}
	err := c.policies.Get(ctx, client.ObjectKey{Name: name}, policy)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return policy
}

// AllPolicies returns all policies.
func (c *Cluster) AllPolicies(ctx context.Context) []v1alpha1.ServiceCIDRPolicy {
	GinkgoHelper()
	list := &v1alpha1.ServiceCIDRPolicyList{}
	Expect(c.policies.List(ctx, list)).To(Succeed())
	return list.Items
}

// PolicyCondition returns a condition of a policy's present generation, the zero Condition if none.
func (c *Cluster) PolicyCondition(ctx context.Context, name, kind string) metav1.Condition {
	GinkgoHelper()
	if policy := c.Policy(ctx, name); policy != nil {
		condition := meta.FindStatusCondition(policy.Status.Conditions, kind)
		if condition != nil && condition.ObservedGeneration == policy.Generation {
			return *condition
		}
	}
	return metav1.Condition{}
}

// DeletePolicies deletes policies and waits until what they kept is free and all replicas know.
func (c *Cluster) DeletePolicies(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(c.policies.Delete(ctx, newPolicy(name))).To(Succeed())
	}
	for _, name := range names {
		Eventually(c.KeptBy).WithArguments(ctx, name).Should(BeEmpty(), name)
	}
	time.Sleep(followerDelay)
}
