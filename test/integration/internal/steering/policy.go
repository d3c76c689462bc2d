package steering

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// heard is how much longer than the leader, who writes the status, the other replicas may take to learn of a change.
const heard = 300 * time.Millisecond

// PolicyOption changes a policy under construction.
type PolicyOption func(*v1alpha1.ServiceCIDRPolicySpec)

// NewPolicy builds a policy of all namespaces and no ranges.
func NewPolicy(name string, options ...PolicyOption) *v1alpha1.ServiceCIDRPolicy {
	policy := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, option := range options {
		option(&policy.Spec)
	}
	return policy
}

// From names the ServiceCIDRs.
func From(serviceCIDRs ...string) PolicyOption {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceCIDRs = serviceCIDRs }
}

// FromLabelled selects the ServiceCIDRs with a label.
func FromLabelled(key, value string) PolicyOption {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceCIDRSelector = labelled(key, value) }
}

// ForNamespaces selects the namespaces with a label.
func ForNamespaces(key, value string) PolicyOption {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.NamespaceSelector = labelled(key, value) }
}

// ForServices selects the Services with a label.
func ForServices(key, value string) PolicyOption {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceSelector = labelled(key, value) }
}

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// Exclusive keeps others out.
func Exclusive() PolicyOption {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.Exclusive = true }
}

// OrFail refuses Services when the ranges are full.
func OrFail() PolicyOption {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.OnFull = v1alpha1.OnFullFail }
}

// OrFallBack goes elsewhere when the ranges are full.
func OrFallBack() PolicyOption {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.OnFull = v1alpha1.OnFullFallback }
}

// WithPriority sets the priority.
func WithPriority(priority int32) PolicyOption {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.Priority = priority }
}

// CoolsDown lets freed addresses rest.
func CoolsDown(d time.Duration) PolicyOption {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.CoolDown = &metav1.Duration{Duration: d} }
}

// Reserves adds a reservation. owner is namespace/name of the Service that it is for, or empty.
func Reserves(name, address, owner string) PolicyOption {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) {
		s.Reservations = append(s.Reservations, v1alpha1.Reservation{Name: name, Address: address, For: owner})
	}
}

func policyClient(config *rest.Config) client.Client {
	GinkgoHelper()
	config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	c, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// Policies returns the administrator's client for ServiceCIDRPolicies. It may be used concurrently.
func (b *Bed) Policies() client.Client { return b.policies }

// TryPolicy asks for a policy and returns the API server's answer.
func (b *Bed) TryPolicy(ctx context.Context, name string, options ...PolicyOption) error {
	return b.policies.Create(ctx, NewPolicy(name, options...))
}

// CreatePolicy creates a policy without waiting for anybody to look at it.
func (b *Bed) CreatePolicy(ctx context.Context, name string, options ...PolicyOption) {
	GinkgoHelper()
	Expect(b.TryPolicy(ctx, name, options...)).To(Succeed())
}

// Program creates a policy, or replaces its spec, and waits until it is programmed.
func (b *Bed) Program(ctx context.Context, name string, options ...PolicyOption) {
	GinkgoHelper()
	if b.Policy(ctx, name) == nil {
		b.CreatePolicy(ctx, name, options...)
	} else {
		b.ChangePolicy(ctx, name, func(p *v1alpha1.ServiceCIDRPolicy) { p.Spec = NewPolicy(name, options...).Spec })
	}
	b.WaitProgrammed(ctx, name)
}

// ChangePolicy changes a policy without waiting for anybody to look at it.
func (b *Bed) ChangePolicy(ctx context.Context, name string, change func(*v1alpha1.ServiceCIDRPolicy)) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		policy := b.Policy(ctx, name)
		Expect(policy).NotTo(BeNil(), name)
		change(policy)
		return b.policies.Update(ctx, policy)
	})).To(Succeed())
}

// WaitProgrammed waits until policies are Programmed in their present generation, and all replicas have had time to learn of it.
func (b *Bed) WaitProgrammed(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		b.WaitCondition(ctx, name, v1alpha1.PolicyProgrammed, metav1.ConditionTrue)
	}
}

// WaitCondition waits until a condition of a policy has a status, for its present generation, and returns its message.
func (b *Bed) WaitCondition(ctx context.Context, name, kind string, status metav1.ConditionStatus) (message string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		policy := b.Policy(ctx, name)
		g.Expect(policy).NotTo(BeNil())
		g.Expect(policy.Status.ObservedGeneration).To(Equal(policy.Generation))
		condition := meta.FindStatusCondition(policy.Status.Conditions, kind)
		g.Expect(condition).To(HaveField("Status", status), "%s of %+v", kind, policy.Status)
		message = condition.Message
	}).WithTimeout(cluster.Patience).Should(Succeed(), name)
	time.Sleep(heard)
	return message
}

// Policy returns a policy, nil if there is none.
func (b *Bed) Policy(ctx context.Context, name string) *v1alpha1.ServiceCIDRPolicy {
	GinkgoHelper()
	policy := &v1alpha1.ServiceCIDRPolicy{}
	err := b.policies.Get(ctx, client.ObjectKey{Name: name}, policy)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return policy
}

// AllPolicies returns all policies.
func (b *Bed) AllPolicies(ctx context.Context) []v1alpha1.ServiceCIDRPolicy {
	GinkgoHelper()
	list := &v1alpha1.ServiceCIDRPolicyList{}
	Expect(b.policies.List(ctx, list)).To(Succeed())
	return list.Items
}

// PolicyCondition returns a condition of a policy, the zero Condition if there is none.
func (b *Bed) PolicyCondition(ctx context.Context, name, kind string) metav1.Condition {
	GinkgoHelper()
	if policy := b.Policy(ctx, name); policy != nil {
		if condition := meta.FindStatusCondition(policy.Status.Conditions, kind); condition != nil {
			return *condition
		}
	}
	return metav1.Condition{}
}

// DeletePolicies deletes policies and waits until what they kept is free, and all replicas have had time to learn of it.
func (b *Bed) DeletePolicies(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(b.policies.Delete(ctx, NewPolicy(name))).To(Succeed())
	}
	for _, name := range names {
		Eventually(func() []string { return b.KeptBy(ctx, name) }).WithTimeout(cluster.Patience).Should(BeEmpty(), name)
	}
	time.Sleep(heard)
}
