// Package policyapi_test asks a real API server what it makes of ServiceCIDRPolicies: what it shows, fills in, refuses and accepts,
// with nothing of ours behind it but the CustomResourceDefinition in config/crd.
//
// Start with "What the API server refuses".
package policyapi_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

func TestPolicyAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "policy API")
}

var (
	// cp is a Kubernetes 1.36 that knows the kind.
	cp *framework.ControlPlane
	// admin reads and writes policies there.
	admin client.Client
)

var _ = BeforeSuite(func(ctx SpecContext) {
	cp, admin = start(ctx, framework.Options{})
	// An API server looks once a second for what its own extensions say of themselves, which is what kubectl asks for first.
	Eventually(func() error {
		_, err := framework.Kubectl(ctx, cp.Kubeconfig(), "explain", "scp")
		return err
	}).WithTimeout(30 * time.Second).Should(Succeed())
}, NodeTimeout(time.Minute))

// start starts a control plane that knows the kind and ends with the calling node.
func start(ctx context.Context, options framework.Options) (*framework.ControlPlane, client.Client) {
	GinkgoHelper()
	cp := suite.ControlPlane(ctx, options)
	Expect(cp.InstallCRDs(ctx)).To(Succeed())
	scheme := runtime.NewScheme()
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	admin, err := client.New(cp.AdminConfig(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return cp, admin
}

// draft is a policy as a user writes it: its spec in YAML, which may be nonsense.
func draft(spec string) *unstructured.Unstructured {
	GinkgoHelper()
	policy := &unstructured.Unstructured{Object: map[string]any{}}
	policy.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ServiceCIDRPolicy"))
	policy.SetName("draft")
	var fields map[string]any
	Expect(yaml.Unmarshal([]byte(spec), &fields)).To(Succeed())
	policy.Object["spec"] = fields
	return policy
}

// propose asks the API server what it would say to a draft.
func propose(ctx context.Context, admin client.Client, spec string) error {
	GinkgoHelper()
	return admin.Create(ctx, draft(spec), client.DryRunAll)
}

// complaints are what an API server names as wrong, one for each mistake that it found. After some mistakes it adds, without a field,
// that it has not gone through the rules any more.
func complaints(err error) []metav1.StatusCause {
	GinkgoHelper()
	var status *apierrors.StatusError
	Expect(errors.As(err, &status)).To(BeTrue(), "not refused, or not by the API server: %v", err)
	Expect(apierrors.IsInvalid(err)).To(BeTrue(), "refused for another reason: %v", err)
	return slices.DeleteFunc(status.ErrStatus.Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "<nil>" })
}

// created creates a policy that goes when the spec ends.
func created(ctx context.Context, name string, spec v1alpha1.ServiceCIDRPolicySpec) *v1alpha1.ServiceCIDRPolicy {
	GinkgoHelper()
	policy := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	Expect(admin.Create(ctx, policy)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, policy))).To(Succeed()) })
	return policy
}

// stored reads a policy.
func stored(ctx context.Context, name string) *v1alpha1.ServiceCIDRPolicy {
	GinkgoHelper()
	policy := &v1alpha1.ServiceCIDRPolicy{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: name}, policy)).To(Succeed())
	return policy
}

// kubectl runs kubectl as an administrator.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	output, err := framework.Kubectl(ctx, cp.Kubeconfig(), args...)
	Expect(err).NotTo(HaveOccurred())
	return output
}
