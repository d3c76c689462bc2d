package upgrade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// The bitmaps are deleted when nobody can need them any more:
//
//  1. Not while nobody knows the API servers, one of them does not answer, or one of them is old.
//  2. With an archive. Node ports keep their bitmap: they have nothing else.
//  3. The archive brings back what was deleted, and never writes over what is there.
//  4. Without bitmaps and without the archive, the way back is still open.
var _ = Describe("A cluster that has left the bitmap", Ordered, func() {
	var (
		s       *stage
		before  photo
		archive string
	)

	const primary, secondary = rangeKeys + "serviceips", rangeKeys + "secondaryserviceips"

	BeforeAll(func(ctx SpecContext) {
		s = fewFlipped.open(ctx, newer)
		archive = filepath.Join(GinkgoT().TempDir(), "archive.yaml")
	})

	refuses := func(ctx SpecContext, words string) {
		GinkgoHelper()
		before := s.photo(ctx)
		told := s.migrate(ctx, refused, "finalize", "--yes", "--archive="+archive)
		Expect(told.Stderr).To(ContainSubstring(words))
		Expect(before.changes(s.photo(ctx))).To(BeEmpty())
		Expect(archive).NotTo(BeAnExistingFile())
	}

	It("keeps them while nobody knows the API servers", func(ctx SpecContext) {
		refuses(ctx, "endpoint")
	})

	It("keeps them while an API server does not answer", func(ctx SpecContext) {
		port, err := framework.FreePort()
		Expect(err).NotTo(HaveOccurred())
		s.publish(ctx, portOf(s.Access), port)
		refuses(ctx, strconv.Itoa(port))
	})

	It("keeps them while one of the API servers is old", func(ctx SpecContext) {
		server := oldest
		server.ServiceClusterIPRange = s.ranges
		other := suite.APIServer(ctx, s.ControlPlane, server)
		s.publish(ctx, portOf(s.Access), portOf(other.Access))
		refuses(ctx, "1.32")
	})

	It("loses them into the archive", func(ctx SpecContext) {
		s.publish(ctx, portOf(s.Access))
		before = s.photo(ctx)
		Expect(before.bitmaps).To(And(HaveKey(primary), HaveKey(secondary), HaveLen(3)))
		s.preview(ctx, "finalize")
		s.migrate(ctx, done, "finalize", "--yes", "--archive="+archive)
		Expect(before.bitmaps.writes(s.photo(ctx).bitmaps)).To(ConsistOf(primary+" is gone", secondary+" is gone"))
		Expect(s.Condition(ctx, "kubernetes", migrated)).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", "Finalized")))
		s.expectCalm(ctx, s.photo(ctx))
		s.expectNew(ctx, "free", 20)
	})

	It("has nothing left to lose", func(ctx SpecContext) {
		before := s.photo(ctx)
		s.migrate(ctx, done, "finalize", "--yes", "--archive="+archive+"-2")
		Expect(before.changes(s.photo(ctx))).To(BeEmpty())
		Expect(archive).To(BeARegularFile())
	})

	It("gets them back from the archive", func(ctx SpecContext) {
		s.preview(ctx, "finalize", "--restore="+archive)
		s.migrate(ctx, done, "finalize", "--restore="+archive, "--yes")
		restored := s.photo(ctx)
		for _, key := range []string{primary, secondary} {
			Expect(restored.bitmaps[key].raw).To(Equal(before.bitmaps[key].raw), key)
		}
	})

	It("does not get them back twice", func(ctx SpecContext) {
		other := decode[*corev1.RangeAllocation](before.bitmaps[primary])
		other.Data = append(other.Data, 1)
		text, err := json.Marshal(other)
		Expect(err).NotTo(HaveOccurred())
		s.put(ctx, primary, text)
		before := s.photo(ctx)
		result, err := s.RunPlugin(ctx, framework.PluginOptions{Args: append([]string{"migrate", "finalize", "--restore=" + archive, "--yes"}, s.EtcdArgs()...)})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.ExitCode).To(BeElementOf(findings, refused), result.String())
		Expect(before.changes(s.photo(ctx))).To(BeEmpty())
	})

	It("can go back without them", func(ctx SpecContext) {
		s.migrate(ctx, done, "finalize", "--yes", "--archive="+archive+"-3")
		Expect(s.photo(ctx).bitmaps).To(HaveLen(1))
		Expect(s.API.Stop()).To(Succeed())
		s.offline(ctx, findings, "rollback")
		s.offline(ctx, done, "rollback", "--yes", "--archive="+archive+"-4")
		before := s.photo(ctx)
		Expect(before.bitmaps).To(HaveLen(3))
		s.restart(ctx, oldest)
		s.expectCalm(ctx, before)
		Expect(before.bitmaps.writes(s.photo(ctx).bitmaps)).To(BeEmpty(), "the old API server would have built other bitmaps")
		s.expectNew(ctx, "back", 50)
	})
})

func portOf(access *framework.Access) int {
	GinkgoHelper()
	parsed, err := url.Parse(access.URL())
	Expect(err).NotTo(HaveOccurred())
	port, err := strconv.Atoi(parsed.Port())
	Expect(err).NotTo(HaveOccurred())
	return port
}

// sliceKeys is where the EndpointSlices of the Service kubernetes are.
const sliceKeys = "/registry/endpointslices/default/kubernetes-"

// publish names the API servers that the Service kubernetes leads to, as their reconciler does where they have addresses of their own.
// On loopback it would be refused, so it is written past the API server.
func (s *stage) publish(ctx context.Context, ports ...int) {
	GinkgoHelper()
	endpoints := corev1.Endpoints{ //nolint:staticcheck // deprecated, and still what API servers write
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", UID: "1"},
	}
	_, err := s.etcd.Delete(ctx, sliceKeys, clientv3.WithPrefix())
	Expect(err).NotTo(HaveOccurred())
	for i, port := range ports {
		s.put(ctx, fmt.Sprint(sliceKeys, i), asJSON(endpointSlice(i, int32(port))))
		endpoints.Subsets = append(endpoints.Subsets, corev1.EndpointSubset{ //nolint:staticcheck // as above
			Addresses: []corev1.EndpointAddress{{IP: "127.0.0.1"}},
			Ports:     []corev1.EndpointPort{{Name: "https", Port: int32(port), Protocol: corev1.ProtocolTCP}},
		})
	}
	s.put(ctx, "/registry/services/endpoints/default/kubernetes", asJSON(endpoints))
}

func endpointSlice(i int, port int32) discoveryv1.EndpointSlice {
	name, protocol, ready := "https", corev1.ProtocolTCP, true
	return discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("kubernetes-%d", i), UID: "1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
}

func asJSON(object any) []byte {
	GinkgoHelper()
	text, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	return text
}
