package allocations_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// The steps are those of `kubectl clusterip renumber run`; that its own stories show.
var _ = Describe("A Service that is given other ClusterIPs", func() {
	for _, mode := range []string{"nft", environment.Native} {
		It("loses no connection, with "+mode, Label("all"), func(ctx SpecContext) {
			env := &fixture{Environment: environment.Open(ctx, environment.Cluster, mode)}
			env.pod2 = environment.Endpoint{Of: env.Pod2}
			env.StartAgent(ctx)
			before := env.serve(ctx, "moving", env.pod2, framework.WithType(corev1.ServiceTypeNodePort))
			env.answers(before, env.pod2)
			traffic, kept := env.Traffic(before), env.connect(before)

			DeferCleanup(env.release, before)
			env.patchFormer(ctx, before, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, v1alpha1.FinalizerFormer))
			env.Update(ctx, before.Name, alias)
			name := before.Namespace + "/" + before.Name
			Eventually(env.dump).WithArguments(ctx, name).WithTimeout(environment.Soon).Should(ContainSubstring("held as it was before"))
			env.Endpoints(ctx, before, env.pod2, environment.Endpoint{Of: env.Pod2, Extra: 1})
			Consistently(env.dump).WithArguments(ctx, name).WithTimeout(time.Second).Should(ContainSubstring("held as it was before"))
			after := env.Update(ctx, before.Name, func(s *corev1.Service) { restore(s, before) })
			Expect(after.Spec.Ports).To(Equal(before.Spec.Ports))
			env.patchFormer(ctx, before, fmt.Sprintf(`{"metadata":{"labels":{%q:%q,%q:%q},"annotations":{%q:%q}}}`, networkingv1.LabelManagedBy, operator,
				v1alpha1.LabelPurpose, v1alpha1.PurposeAdditional, v1alpha1.AnnotationServiceUID, before.UID))

			env.Served(after)
			both := env.Traffic(after)
			env.Endpoints(ctx, after, env.pod2)
			both.LostNothing()
			traffic.LostNothing()
			Expect(env.dump(ctx, name)).To(ContainSubstring("former address " + environment.VIP(before, model.IPv4).String() + ": served"))
			env.connections(before, 1)
			Expect(env.Metric(ctx, "former_addresses")).To(Equal(2.0))
			Expect(env.Metric(ctx, "former_address_connections")).To(Equal(2.0))
			for _, c := range kept {
				stillThere(c)
				Expect(c.Close()).To(Succeed())
			}
			env.connections(before, 0)

			env.release(ctx, before)
			env.end(before, 80, network.Dropped)
			env.answers(after, env.pod2)
		})
	}
})

// alias makes a Service an ExternalName for now: so the API server lets go of its ClusterIPs.
func alias(s *corev1.Service) {
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AnnotationRenumbering, "{}")
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AnnotationFormerIPs, strings.Join(s.Spec.ClusterIPs, ","))
	s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: v1alpha1.ExternalNameRenumbering, Ports: s.Spec.Ports}
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = 0
	}
}

// restore gives a Service back what it was, but for its ClusterIPs.
func restore(s, before *corev1.Service) {
	delete(s.Annotations, v1alpha1.AnnotationRenumbering)
	s.Spec = *before.Spec.DeepCopy()
	for i, f := range s.Spec.IPFamilies {
		s.Spec.ClusterIPs[i] = free(map[corev1.IPFamily]model.Family{corev1.IPv4Protocol: model.IPv4, corev1.IPv6Protocol: model.IPv6}[f], 21).String()
	}
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
}

// patchFormer changes the IPAddresses that are left of a Service's former ClusterIPs.
func (env *fixture) patchFormer(ctx context.Context, s *corev1.Service, patch string) {
	GinkgoHelper()
	for _, address := range s.Spec.ClusterIPs {
		_, err := env.Cluster.Networking().IPAddresses().Patch(ctx, address, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		Expect(err).To(Or(Not(HaveOccurred()), Satisfy(apierrors.IsNotFound)))
	}
}

// release lets the IPAddresses go.
func (env *fixture) release(ctx context.Context, s *corev1.Service) {
	GinkgoHelper()
	env.patchFormer(ctx, s, `{"metadata":{"finalizers":null}}`)
}

// connect opens a connection to each ClusterIP of a Service.
func (env *fixture) connect(s *corev1.Service) (all []net.Conn) {
	GinkgoHelper()
	for _, f := range network.Families {
		c, err := env.Pod1.DialContext(context.Background(), "tcp", environment.VIP(s, f).String())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = c.Close() })
		stillThere(c)
		all = append(all, c)
	}
	return all
}

// stillThere wants an answer: the server greets once, and then says what it is told.
func stillThere(c net.Conn) {
	GinkgoHelper()
	_, err := c.Write([]byte("?"))
	Expect(err).NotTo(HaveOccurred())
	_, err = c.Read(make([]byte, 1000))
	Expect(err).NotTo(HaveOccurred())
}

// dump is what the agent says about a Service.
func (env *fixture) dump(ctx context.Context, service string) (string, error) {
	return env.Agent.Get(ctx, "/debug/dump?of="+service)
}

// connections waits until the agent counts as many to each of the ClusterIPs that a Service had.
func (env *fixture) connections(s *corev1.Service, n int) {
	GinkgoHelper()
	want := map[netip.Addr]int{}
	for _, address := range s.Spec.ClusterIPs {
		want[netip.MustParseAddr(address)] = n
	}
	Eventually(func(g Gomega) {
		response, err := env.Node.HTTPClient().Get("http://127.0.0.1:10256/former")
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		var got struct{ Addresses map[netip.Addr]int }
		g.Expect(json.NewDecoder(response.Body).Decode(&got)).To(Succeed())
		g.Expect(got.Addresses).To(Equal(want))
	}).WithTimeout(environment.Soon).Should(Succeed())
}
