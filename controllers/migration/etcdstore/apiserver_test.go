package etcdstore

import (
	"context"
	"fmt"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// likeAPI wants a value to be the object that the API server shows.
func likeAPI(v migration.Value, shown runtime.Object) {
	GinkgoHelper()
	Expect(v.Err).NotTo(HaveOccurred())
	Expect(cmp.Diff(shown, v.Object, cmpopts.IgnoreTypes(metav1.TypeMeta{}))).To(BeEmpty())
}

// populate makes objects of all kinds that matter through the API, and compares them with etcd.
func populate(ctx context.Context, cp *framework.ControlPlane, store *Store, version string) {
	GinkgoHelper()
	service := framework.NewService("default", "web", framework.RequireDualStack(), framework.WithLabel("b", "2"), framework.WithLabel("a", "1"))
	networking := "networking.k8s.io/" + version
	for key, shown := range map[string]metav1.Object{
		"services/specs/default/web": must(cp.Client().CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})),
		"namespaces/kube-system":     must(cp.Client().CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})),
		"ipaddresses/10.96.0.88":     must(cp.Networking().IPAddresses().Create(ctx, framework.NewIPAddress("10.96.0.88", "default", "nobody"), metav1.CreateOptions{})),
		"servicecidrs/more": must(cp.Networking().ServiceCIDRs().Create(ctx,
			framework.NewServiceCIDR("more", "10.200.0.0/16", "fd00:200::/112"), metav1.CreateOptions{})),
	} {
		v := get(ctx, store, key)
		likeAPI(v, shown.(runtime.Object))
		Expect(v.APIVersion).To(BeElementOf("v1", networking))
		Expect(shown.GetResourceVersion()).To(Equal(formatted(v.ModRevision)))
	}
}

// roundTrip wants all that the API server stores to have the same bytes when encoded again. It
// returns the kinds, with their numbers, and what could not be decoded.
func roundTrip(ctx context.Context, store *Store) (kinds map[string]int, unreadable map[string]error) {
	GinkgoHelper()
	kinds, unreadable = map[string]int{}, map[string]error{}
	suite.Must(store.List(ctx, "", 0, func(v migration.Value) error {
		if v.Err != nil {
			unreadable[v.Key] = v.Err
			return nil
		}
		kinds[fmt.Sprintf("%T %s", v.Object, v.APIVersion)]++
		again := suite.Must(encode(v.Object, v.APIVersion))
		Expect(again).To(Equal(v.Raw), "%s is encoded otherwise", v.Key)
		return nil
	}))
	return kinds, unreadable
}

var _ = DescribeTable("what a real API server stores", func(ctx SpecContext, version framework.Version, legacy bool) {
	cp := suite.ControlPlane(ctx, framework.Options{Version: version})
	store := openAt(ctx, cp.Etcd.URL())
	populate(ctx, cp, store, version.NetworkingVersion)

	kinds, unreadable := roundTrip(ctx, store)
	Expect(kinds).To(And(
		HaveKeyWithValue("*v1.Service v1", BeNumerically(">=", 2)),
		HaveKeyWithValue("*v1.Namespace v1", BeNumerically(">=", 4)),
		HaveKeyWithValue("*v1.IPAddress networking.k8s.io/"+version.NetworkingVersion, BeNumerically(">=", 1)),
		HaveKeyWithValue("*v1.ServiceCIDR networking.k8s.io/"+version.NetworkingVersion, BeNumerically(">=", 1)),
		HaveKeyWithValue("*v1.RangeAllocation v1", BeNumerically(">=", 1)),
	))
	for key, err := range unreadable {
		Expect(err).To(MatchError(ContainSubstring("no kind")), key)
	}
	Expect(unreadable).To(HaveKey(HavePrefix("apiregistration.k8s.io/")))

	for _, key := range []string{"ranges/serviceips", "ranges/secondaryserviceips"} {
		v := get(ctx, store, key)
		Expect(v.Exists()).To(Equal(legacy), key)
		if legacy {
			Expect(v.Object.(*corev1.RangeAllocation).Data).NotTo(BeEmpty(), key)
		}
	}
	Expect(get(ctx, store, "ranges/servicenodeports").Object.(*corev1.RangeAllocation).Range).To(Equal("30000-32767"))
},
	Entry("1.32", framework.V132, true),
	Entry("1.37", framework.V137, false),
)

var _ = Describe("an API server beside us", func() {
	It("may keep its objects elsewhere, and as JSON", func(ctx SpecContext) {
		args := []string{"--etcd-prefix=/other/place", "--storage-media-type=application/json"}
		cp := suite.ControlPlane(ctx, framework.Options{Args: args})
		store := open(ctx, Config{Endpoints: []string{cp.Etcd.URL()}, Prefix: "/other/place"})
		service := suite.Must(cp.Client().CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
		v := get(ctx, store, "services/specs/default/kubernetes")
		Expect(string(v.Raw)).To(HavePrefix("{"))
		likeAPI(v, service)
		ip := get(ctx, store, "ipaddresses/"+service.Spec.ClusterIP)
		Expect(string(ip.Raw)).To(HavePrefix("{"))
		Expect(ip.Object.(*networkingv1.IPAddress).Spec.ParentRef.Name).To(Equal("kubernetes"))
		Expect(ip.APIVersion).To(Equal("networking.k8s.io/v1"))
		Expect(listed(ctx, openAt(ctx, cp.Etcd.URL()), "", 0)).To(BeEmpty())
	})
})
