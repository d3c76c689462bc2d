// Package policyapi_test asks a real API server what it makes of ServiceCIDRPolicies: what it shows, fills in, refuses and accepts,
// with nothing of ours behind it but the CustomResourceDefinition in config/crd.
//
// Start with "A ServiceCIDRPolicy".
package policyapi_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	// admin reads and writes policies.
	admin client.Client
)

var _ = BeforeSuite(func(ctx SpecContext) {
	cp = suite.ControlPlane(ctx, framework.Options{})
	Expect(cp.InstallCRDs(ctx)).To(Succeed())
	scheme := runtime.NewScheme()
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	var err error
	admin, err = client.New(cp.AdminConfig(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(time.Minute))

var _ = Describe("x", func() {
	It("y", func(ctx SpecContext) {
		var l v1alpha1.ServiceCIDRPolicyList
		Expect(admin.List(ctx, &l)).To(Succeed())
		_, _ = l, ctx
	})
})
