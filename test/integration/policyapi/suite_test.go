// Package policyapi_test asks a real API server what it shows, fills in, refuses and accepts of
// ServiceCIDRPolicies, with nothing of ours behind it but the definition in config/crd.
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestPolicyAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "policy API")
}

var (
	// c is a Kubernetes 1.37 that knows the kind.
	c *cluster.Cluster
	// admin reads and writes policies there.
	admin client.Client
)

var _ = BeforeSuite(func(ctx SpecContext) {
	c = start(ctx, framework.Options{})
	admin = c.Policies()
	// kubectl first asks for the API server's discovery, which follows extensions every second.
	Eventually(func() error {
		_, err := framework.Kubectl(ctx, c.Kubeconfig(), "explain", "scp")
		return err
	}).Should(Succeed())
}, NodeTimeout(3*time.Minute))

// start starts a control plane that knows the kind and ends with the calling node.
func start(ctx context.Context, options framework.Options) *cluster.Cluster {
	GinkgoHelper()
	c := cluster.Start(ctx, cluster.Options{Options: options, WithoutOperator: true})
	Expect(c.InstallCRDs(ctx)).To(Succeed())
	return c
}

// draft is a policy as a user writes it.
func draft(spec string) *unstructured.Unstructured { return cluster.PolicyText("draft", spec) }

// propose asks the API server what it would say to a draft.
func propose(ctx context.Context, admin client.Client, spec string) error {
	GinkgoHelper()
	return admin.Create(ctx, draft(spec), client.DryRunAll)
}

// complaints are what an API server names as wrong, one for each mistake that it found. After some
// mistakes it adds, without a field, that it has skipped the rules.
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
