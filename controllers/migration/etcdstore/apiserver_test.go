package etcdstore

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

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

// populate makes objects of all kinds that matter through the API and holds what is in etcd against what the API shows.
func populate(ctx context.Context, cp *framework.ControlPlane, store *Store, version string) {
	GinkgoHelper()
	services := cp.Client().CoreV1().Services("default")
	service, err := services.Create(ctx, framework.NewService("default", "web", framework.RequireDualStack(), framework.WithLabel("b", "2"), framework.WithLabel("a", "1")), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	v := get(ctx, store, "services/specs/default/web")
	likeAPI(v, service)
	Expect(v.APIVersion).To(Equal("v1"))
	Expect(service.ResourceVersion).To(Equal(formatted(v.ModRevision)))

	namespace, err := cp.Client().CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	likeAPI(get(ctx, store, "namespaces/kube-system"), namespace)

	ip, err := cp.Networking().IPAddresses().Create(ctx, framework.NewIPAddress("10.96.0.88", "default", "nobody"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	v = get(ctx, store, "ipaddresses/10.96.0.88")
	likeAPI(v, ip)
	Expect(v.APIVersion).To(Equal("networking.k8s.io/" + version))

	cidr, err := cp.Networking().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("more", "10.200.0.0/16", "fd00:200::/112"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	v = get(ctx, store, "servicecidrs/more")
	likeAPI(v, cidr)
	Expect(v.APIVersion).To(Equal("networking.k8s.io/" + version))
}

// roundTrip reads everything that the API server stores, and wants the same bytes when it is encoded again. It returns the kinds, with how
// often they were there, and what could not be decoded.
func roundTrip(ctx context.Context, store *Store) (kinds map[string]int, unreadable map[string]error) {
	GinkgoHelper()
	kinds, unreadable = map[string]int{}, map[string]error{}
	_, err := store.List(ctx, "", 0, func(v migration.Value) error {
		if v.Err != nil {
			unreadable[v.Key] = v.Err
			return nil
		}
		kinds[fmt.Sprintf("%T %s", v.Object, v.APIVersion)]++
		again, err := encode(v.Object, v.APIVersion)
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(Equal(v.Raw), "%s is encoded otherwise", v.Key)
		return nil
	})
	Expect(err).NotTo(HaveOccurred())
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
		Expect(err).To(MatchError(ContainSubstring("the value is of an unknown kind")), key)
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
	Entry("1.36", framework.V136, false),
)

var _ = Describe("an API server beside us", func() {
	It("takes what we write for its own, in both versions", func(ctx SpecContext) {
		cp := suite.ControlPlane(ctx, framework.Options{Version: framework.V132})
		store := openAt(ctx, cp.Etcd.URL())
		ip := framework.NewIPAddress("10.96.3.4", "default", "nobody")
		ip.UID, ip.Generation, ip.CreationTimestamp = types.UID(uuid.NewUUID()), 1, metav1.NewTime(time.Now().Truncate(time.Second))
		revision := commit(ctx, store, migration.Write{Key: "ipaddresses/10.96.3.4", Object: ip, APIVersion: "networking.k8s.io/v1beta1"})
		want := ip.DeepCopy()
		want.ResourceVersion = formatted(revision)
		shown, err := cp.Networking().IPAddresses().Get(ctx, ip.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cmp.Diff(want, shown)).To(BeEmpty())

		By("1.36 reads it, and writes it as v1 when it changes it")
		Expect(cp.Restart(ctx, framework.Options{Version: framework.V136})).To(Succeed())
		shown, err = cp.Networking().IPAddresses().Get(ctx, ip.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cmp.Diff(want, shown)).To(BeEmpty())
		shown.Labels["touched"] = "yes"
		_, err = cp.Networking().IPAddresses().Update(ctx, shown, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		v := get(ctx, store, "ipaddresses/10.96.3.4")
		Expect(v.APIVersion).To(Equal("networking.k8s.io/v1"))

		By("written back as v1beta1, it is the same object to 1.32")
		commit(ctx, store, migration.Write{Key: v.Key, Guard: v.ModRevision, Object: v.Object, APIVersion: "networking.k8s.io/v1beta1"})
		Expect(cp.Restart(ctx, framework.Options{Version: framework.V132})).To(Succeed())
		shown, err = cp.Networking().IPAddresses().Get(ctx, ip.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(shown.Labels).To(HaveKeyWithValue("touched", "yes"))
		Expect(shown.UID).To(Equal(ip.UID))

		By("a deletion of ours is one")
		v = get(ctx, store, "ipaddresses/10.96.3.4")
		commit(ctx, store, migration.Write{Key: v.Key, Guard: v.ModRevision, Delete: true})
		_, err = cp.Networking().IPAddresses().Get(ctx, ip.Name, metav1.GetOptions{})
		Expect(err).To(MatchError(ContainSubstring("not found")))
	})

	It("lets us watch what it writes", func(ctx SpecContext) {
		cp := suite.ControlPlane(ctx, framework.Options{})
		store := openAt(ctx, cp.Etcd.URL())
		now, err := store.Revision(ctx)
		Expect(err).NotTo(HaveOccurred())
		w := follow(ctx, store, "ipaddresses", now)
		_, err = cp.Client().CoreV1().Services("default").Create(ctx, framework.NewService("default", "web", framework.WithClusterIPs("10.96.0.77")), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cp.Client().CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		var seen []migration.Value // more than these, if the API server's own repair was at work between them
		Eventually(func() int { seen = w.values(); return len(seen) }).Should(BeNumerically(">=", 2))
		Expect(seen[0].Object.(*networkingv1.IPAddress).Spec.ParentRef.Name).To(Equal("web"))
		Expect(seen[1]).To(And(HaveField("Key", "ipaddresses/10.96.0.77"), HaveField("Raw", BeNil())))
	})

	It("may keep its objects elsewhere, and as JSON", func(ctx SpecContext) {
		args := []string{"--etcd-prefix=/other/place", "--storage-media-type=application/json"}
		cp := suite.ControlPlane(ctx, framework.Options{Args: args})
		store := open(ctx, Config{Endpoints: []string{cp.Etcd.URL()}, Prefix: "/other/place"})
		service, err := cp.Client().CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		v := get(ctx, store, "services/specs/default/kubernetes")
		Expect(string(v.Raw)).To(HavePrefix("{"))
		likeAPI(v, service)
		ip := get(ctx, store, "ipaddresses/"+service.Spec.ClusterIP)
		Expect(string(ip.Raw)).To(HavePrefix("{"))
		Expect(ip.Object.(*networkingv1.IPAddress).Spec.ParentRef.Name).To(Equal("kubernetes"))
		Expect(ip.APIVersion).To(Equal("networking.k8s.io/v1"))
		Expect(listed(ctx, openAt(ctx, cp.Etcd.URL()), "", 0)).To(BeEmpty())
	})

	It("may encrypt, which is said and not shown", func(ctx SpecContext) {
		cp := suite.ControlPlane(ctx, framework.Options{Args: []string{"--encryption-provider-config=" + encryption("aescbc", "key1")}})
		store := openAt(ctx, cp.Etcd.URL())
		v := get(ctx, store, "services/specs/default/kubernetes")
		Expect(v.Exists()).To(BeTrue())
		Expect(v.Object).To(BeNil())
		Expect(errors.Is(v.Err, migration.ErrEncrypted)).To(BeTrue())
		Expect(v.Err).To(MatchError("the value is encrypted at rest (by aescbc:v1:key1)"))
		Expect(get(ctx, store, "namespaces/default").Err).NotTo(HaveOccurred()) // that kind is not
	})
})

// encryption writes a configuration that encrypts Services with a key.
func encryption(provider, key string) (file string) {
	GinkgoHelper()
	file = filepath.Join(GinkgoT().TempDir(), "encryption.yaml")
	secret := base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	config := fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [services]
  providers:
  - %s: {keys: [{name: %s, secret: %s}]}
`, provider, key, secret)
	Expect(os.WriteFile(file, []byte(config), 0o600)).To(Succeed())
	return file
}
