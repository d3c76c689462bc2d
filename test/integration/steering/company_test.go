package steering_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// answerAsCompany is another mutating webhook, which API servers call after ours. The name of a
// Service decides which JSON patch it gets.
func answerAsCompany(_ *http.Request, question *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) {
	var service metav1.PartialObjectMetadata
	response.Allowed = json.Unmarshal(question.Object.Raw, &service) == nil
	for prefix, patch := range map[string]string{
		"labelled-": `[{"op": "add", "path": "/metadata/labels", "value": {"of": "company"}}]`,
		"doubled-":  `[{"op": "add", "path": "/spec/ipFamilyPolicy", "value": "RequireDualStack"}]`,
	} {
		if strings.HasPrefix(service.Name+service.GenerateName, prefix) {
			response.Patch, response.PatchType = []byte(patch), new(admissionv1.PatchTypeJSONPatch)
		}
	}
}

// A change by the company makes API servers call our webhook again, maybe on the other replica.
var _ = inOrder("A webhook that is asked after ours", func() {
	BeforeAll(func(ctx SpecContext) {
		c.Consult(ctx, "Mutating", "zz-company", cluster.StartWebhook(answerAsCompany),
			`rules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [services]}]`)
		Eventually(func() map[string]string {
			probe := c.Create(ctx, cluster.Dual("plain", "labelled-probe"))
			defer c.DeleteServices(ctx, probe)
			return probe.Labels
		}).Should(HaveKeyWithValue("of", "company"))
	})

	// allDynamic wants each Service to have dynamic addresses of both families, in the open ranges.
	allDynamic := func(services []*corev1.Service) {
		GinkgoHelper()
		for _, cidr := range []string{default4, default6} {
			Expect(cluster.In(cidr, services...)).To(And(HaveLen(len(services)), HaveEach(dynamic(cidr))))
		}
	}

	It("makes no Service lose the addresses that it was given, nor take others", func(ctx SpecContext) {
		services := fill(ctx, 40, func(i int) *corev1.Service {
			service := cluster.Dual("plain", fmt.Sprintf("labelled-%d", i))
			if i%2 == 0 {
				service.Name, service.GenerateName = "", "labelled-"
			}
			return service
		})
		allDynamic(services)
		Expect(services).To(HaveEach(HaveField("Labels", HaveKeyWithValue("of", "company"))))
		c.ExpectConsistent(ctx)
		c.ExpectNothingLeaked(ctx)
		c.DeleteServices(ctx, services...)
	})

	It("can make a Service need one more address", func(ctx SpecContext) {
		filled := c.Decisions(ctx, cluster.Filled)
		families := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		services := fill(ctx, 20, func(i int) *corev1.Service {
			return cluster.Single("plain", fmt.Sprintf("doubled-%d", i), families[i%2])
		})
		for i, service := range services {
			Expect(service.Spec.IPFamilies[0]).To(Equal(families[i%2]), service.Name)
		}
		allDynamic(services)
		Expect(c.Decisions(ctx, cluster.Filled)-filled).To(BeEquivalentTo(2*len(services)), "once for each address")
		c.ExpectConsistent(ctx)
		c.DeleteServices(ctx, services...)
	})

	It("does not come between a user and the address that he asks for", func(ctx SpecContext) {
		service := c.Create(ctx, cluster.Dual("plain", "labelled-chosen", framework.WithClusterIPs("10.96.0.9", "fd00:10:96::9")))
		Expect(service.Spec.ClusterIPs).To(ConsistOf("10.96.0.9", "fd00:10:96::9"))
		c.ExpectConsistent(ctx)
		c.DeleteServices(ctx, service)
	})
})
