package allocations_test

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/plugin/renumber"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// What `kubectl clusterip renumber run` does for a Service. That loses nothing for many of them,
// which change as it goes, is for test/e2e/renumber.
var _ = Describe("A Service that is given other ClusterIPs", func() {
	for _, mode := range []string{"nft", environment.Native} {
		It("loses no connection, with "+mode, Label("long"), func(ctx SpecContext) {
			env := &fixture{Environment: environment.Open(ctx, environment.Cluster, mode)}
			env.pod2 = environment.Endpoint{Of: env.Pod2}
			env.StartAgent(ctx)
			before := env.serve(ctx, "moving", env.pod2, framework.WithType(corev1.ServiceTypeNodePort))
			env.answers(before, env.pod2)
			traffic, kept := env.Traffic(before), env.connect(before)

			DeferCleanup(env.release, before)
			name := before.Namespace + "/" + before.Name
			after := env.renumber(ctx, before, func() {
				Eventually(env.dump).WithArguments(ctx, name).WithTimeout(environment.Soon).Should(ContainSubstring("held as it was before"))
				env.Endpoints(ctx, before, env.pod2, environment.Endpoint{Of: env.Pod2, Extra: 1})
				Consistently(env.dump).WithArguments(ctx, name).WithTimeout(time.Second).Should(ContainSubstring("held as it was before"))
			})
			Expect(after.Spec.Ports).To(Equal(before.Spec.Ports))

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

// renumber gives a Service other ClusterIPs, and calls between when it is an ExternalName for now.
func (env *fixture) renumber(ctx context.Context, s *corev1.Service, between func()) *corev1.Service {
	GinkgoHelper()
	api := suite.Must(client.NewWithWatch(env.Cluster.AdminConfig(), client.Options{}))
	item := renumber.Item{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Type: s.Spec.Type}
	for _, address := range s.Spec.ClusterIPs {
		old := netip.MustParseAddr(address)
		item.Old, item.New = append(item.Old, old), append(item.New, free(model.FamilyOf(old), 21))
	}
	var once sync.Once
	mover := renumber.Mover{Keep: renumber.KeepAgent, Clock: clock.RealClock{}, Client: interceptor.NewClient(api, interceptor.Funcs{
		Update: func(ctx context.Context, api client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if now, is := o.(*corev1.Service); is && now.Spec.Type != corev1.ServiceTypeExternalName {
				once.Do(between)
			}
			return api.Update(ctx, o, options...)
		},
	})}
	Expect(mover.Move(ctx, item)).To(HaveLen(len(item.Old)), "the former addresses that are kept")
	return env.Get(ctx, s.Name)
}

// release lets the IPAddresses go that are left of a Service's former ClusterIPs.
func (env *fixture) release(ctx context.Context, s *corev1.Service) {
	GinkgoHelper()
	for _, address := range s.Spec.ClusterIPs {
		_, err := env.Cluster.Networking().IPAddresses().Patch(ctx, address, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
	}
}

// connect opens a connection to each ClusterIP of a Service.
func (env *fixture) connect(s *corev1.Service) (all []net.Conn) {
	GinkgoHelper()
	for _, f := range network.Families {
		c := suite.Must(env.Pod1.DialContext(context.Background(), "tcp", environment.VIP(s, f).String()))
		DeferCleanup(func() { _ = c.Close() })
		stillThere(c)
		all = append(all, c)
	}
	return all
}

// stillThere wants an answer: the server greets once, and then says what it is told.
func stillThere(c net.Conn) {
	GinkgoHelper()
	suite.Must(c.Write([]byte("?")))
	suite.Must(c.Read(make([]byte, 1000)))
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
