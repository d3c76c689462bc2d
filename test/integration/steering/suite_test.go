// Package steering_test holds what ServiceCIDRPolicies promise to users against a real API server that asks two replicas of our manager
// over TLS: which Service gets which address, which addresses stay reserved or rest, and what leaves everything as it is.
//
// One bed lives as long as the suite. Each container clears it when it is through, so that it can rely on an empty cluster with a
// small default range. What is said of IPv4 holds of IPv6: mostly the Services have both families.
//
// Start with tenants_test.go; each file is one topic.
package steering_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

func TestSteering(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "steering")
}

// The default range of the bed, small enough to be filled: 110 dynamic addresses of IPv4 and 111 of IPv6, 16 static ones of each.
const (
	default4 = "10.96.0.0/25"
	default6 = "fd00:10:96::/121"
)

// bed is where all specs play.
var bed *steering.Bed

var _ = BeforeSuite(func(ctx SpecContext) {
	bed = steering.Start(ctx, steering.Options{
		Options: framework.Options{ServiceClusterIPRange: default4 + "," + default6}, Replicas: 2,
	})
	for _, tenant := range []string{"blue", "red", "green"} {
		bed.CreateNamespace(ctx, tenant, map[string]string{"tenant": tenant})
	}
	bed.CreateNamespace(ctx, "plain", nil)
})

// inOrder is a container whose specs build on each other. It finds and leaves an empty cluster, and wants to have been steered all the
// time: a webhook that does not answer in time would make the API server decide by itself.
func inOrder(text string, body func(), labels ...string) bool {
	return Describe(text, Label(labels...), Ordered, ContinueOnFailure, func() {
		BeforeAll(func(ctx SpecContext) {
			DeferCleanup(func(ctx SpecContext) { bed.Clear(ctx) }) // whatever has failed, or the next container fails too
			before = unsteered(ctx)
		})
		body()
		AfterAll(func(ctx SpecContext) {
			bed.ExpectNothingLeaked(ctx)
			Expect(unsteered(ctx)).To(Equal(before), "left to the API server")
		})
	})
}

// unsteered counts the requests that were left to the API server: those that nobody answered, and those that a replica could not decide.
func unsteered(ctx context.Context) float64 {
	GinkgoHelper()
	return bed.FailedOpen(ctx, "") + bed.Decisions(ctx, steering.Failed)
}

// before is what was unsteered when the container began, or when the replicas were started.
var before float64

// expectEach wants something of each, of which there may be none.
func expectEach(each []string, matcher OmegaMatcher, why string) {
	GinkgoHelper()
	for _, one := range each {
		Expect(one).To(matcher, why)
	}
}

// whileDown stops all replicas, does something, and starts them again whatever comes of it.
func whileDown(ctx context.Context, do func()) {
	GinkgoHelper()
	bed.StopReplicas()
	defer func() {
		bed.StartReplicas(ctx)
		before = unsteered(ctx)
	}()
	do()
}

// fill creates Services from a few clients. Ranges that are filled to the last address make replicas ask each other for each.
func fill(ctx context.Context, n int, build func(i int) *corev1.Service) []*corev1.Service {
	GinkgoHelper()
	const clients = 4
	services, err := framework.CreateServices(ctx, bed.Client(), n, clients, build)
	Expect(err).NotTo(HaveOccurred())
	return services
}

// dual is a Service with addresses of both families.
func dual(namespace, name string, options ...framework.ServiceOption) *corev1.Service {
	return framework.NewService(namespace, name, append([]framework.ServiceOption{framework.RequireDualStack()}, options...)...)
}

// single is a Service with an address of one family.
func single(namespace, name string, family corev1.IPFamily, options ...framework.ServiceOption) *corev1.Service {
	return framework.NewService(namespace, name, append([]framework.ServiceOption{framework.WithFamilies(family)}, options...)...)
}

// asking is a Service that asks for fixed addresses, of one family or both.
func asking(namespace, name string, addresses ...string) *corev1.Service {
	if len(addresses) > 1 {
		return dual(namespace, name, framework.WithClusterIPs(addresses...))
	}
	return single(namespace, name, familyOf(addresses[0]), framework.WithClusterIPs(addresses...))
}

// recreate deletes a Service and creates it anew, as soon as a client can.
func recreate(ctx context.Context, service *corev1.Service, as *corev1.Service) *corev1.Service {
	GinkgoHelper()
	bed.DeleteServices(ctx, service)
	return bed.Create(ctx, as)
}

// patient is how much later than the status a change of labels may be known to all replicas.
const patient = 300 * time.Millisecond

// soon is how long the operator may take for what it does at once: more than the 15 s for which an address stays taken that was handed out, or
// lent to another replica, in vain.
const soon = 20 * time.Second
