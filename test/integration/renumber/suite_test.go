// Package renumber_test moves Services by `kubectl clusterip renumber` on a real API server: alone,
// and beside the operator. For what proxies make of it see test/e2e.
//
// Start with move_test.go. By the proxy of between_test.go specs stop or kill the command at will.
package renumber_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestRenumber(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	RunSpecs(t, "renumber", Label("all")) // kube-controller-manager is built for it
}

var c *cluster.Cluster

var _ = BeforeSuite(func(ctx SpecContext) {
	c = cluster.Start(ctx, cluster.Options{Options: framework.Options{
		ServiceClusterIPRange: "10.96.0.0/24,fd00:10:96::/120", FeatureGates: framework.WithoutDualWrite, // two Services have one address for a moment (--keep=service)
	}, WithoutOperator: true, BesideUpstream: true, Upstream: []string{"endpointslice-controller"}})
})

// offer creates ServiceCIDR new, which ends with the spec, as all Services do. Existing ones have
// their addresses from the default range.
func offer(ctx context.Context) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) {
		c.DeleteAllServices(ctx)
		c.WithdrawRanges(ctx, "new")
	})
	c.OfferRange(ctx, "new", nil, "10.200.0.0/22", "fd00:10:200::/118")
}

// newNamespace creates a namespace of its own for a spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	ns := suite.Must(c.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}, metav1.CreateOptions{}))
	return ns.Name
}

// create creates a Service and returns it as the API server has it.
func create(ctx context.Context, s *corev1.Service) *corev1.Service {
	GinkgoHelper()
	return suite.Must(c.Client().CoreV1().Services(s.Namespace).Create(ctx, s, metav1.CreateOptions{}))
}

func get(ctx context.Context, namespace, name string) *corev1.Service {
	GinkgoHelper()
	return suite.Must(c.Client().CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}))
}

// renumber runs the command to its end.
func renumber(ctx context.Context, args ...string) framework.PluginResult {
	GinkgoHelper()
	return suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Race: true, Args: append([]string{"renumber"}, args...)}))
}

// plan writes a file with the plan to move a namespace's Services from the default range to new.
func plan(ctx context.Context, namespace string, args ...string) (file string, result framework.PluginResult) {
	GinkgoHelper()
	file = filepath.Join(GinkgoT().TempDir(), "plan.yaml")
	return file, renumber(ctx, append([]string{"plan", "-n", namespace, "--to=new", "--keep=externalIPs", "-o", file}, withRange(args)...)...)
}

// succeed runs the command and expects that nothing is left to be done.
func succeed(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return suite.Exits(0, renumber(ctx, args...)).Stdout
}

// quick are flags that give old addresses up at once.
var quick = []string{"--dns-ttl=0s", "--quiet=0s", "--drain=1ms"}

// withRange has Services leave the default range, if the arguments name none.
func withRange(args []string) []string {
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--range=") }) {
		return args
	}
	return append(args, "--range=kubernetes")
}
