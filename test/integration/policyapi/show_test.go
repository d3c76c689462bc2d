package policyapi_test

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

var _ = Describe("What kubectl get shows", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		created(ctx, "fresh", v1alpha1.ServiceCIDRPolicySpec{})
		busy := created(ctx, "busy", v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"tenant-a"}, Exclusive: true, Allocation: v1alpha1.AllocationCordoned, OnFull: v1alpha1.OnFullFail, Priority: 7,
			CoolDown: &metav1.Duration{Duration: time.Hour},
		})
		busy.Status = v1alpha1.ServiceCIDRPolicyStatus{
			Summary: v1alpha1.PolicySummary{Ranges: 2, BandStatus: v1alpha1.BandStatus{
				Size: math.MaxInt64, Used: 40, Free: math.MaxInt64 - 50, Cooling: 3, Reserved: 7,
			}},
			Conditions: []metav1.Condition{
				condition(v1alpha1.PolicyAccepted, metav1.ConditionTrue),
				condition(v1alpha1.PolicyConflicting, metav1.ConditionTrue),
				condition(v1alpha1.PolicyProgrammed, metav1.ConditionTrue),
				condition(v1alpha1.PolicyReady, metav1.ConditionFalse),
			},
		}
		Expect(admin.Status().Update(ctx, busy)).To(Succeed())
	})

	It("has a column for each question that an admin has at first, and the rest for those who want it wide", func(ctx SpecContext) {
		columns := func(flags ...string) []string {
			head, _, _ := strings.Cut(c.Kubectl(ctx, append([]string{"get", "scp"}, flags...)...), "\n")
			return strings.Fields(head)
		}
		narrow := []string{"NAME", "RANGES", "SIZE", "USED", "FREE", "COOLING", "RESERVED", "READY", "AGE"}
		Expect(columns()).To(Equal(narrow))
		Expect(columns("-o", "wide")).To(Equal(append(narrow, "PRIORITY", "EXCLUSIVE", "ALLOCATION", "ONFULL", "COOLDOWN")))
	})

	It("counts, and calls a policy ready when its condition Ready does", func(ctx SpecContext) {
		lines := strings.Split(strings.TrimSpace(c.Kubectl(ctx, "get", "servicecidrpolicies", "-o", "wide", "--sort-by", ".metadata.name")), "\n")
		Expect(lines).To(HaveLen(3))
		Expect(lines[1]).To(MatchRegexp(`^busy +2 +9223372036854775807 +40 +9223372036854775757 +3 +7 +False +\d+s +7 +true +Cordoned +Fail +1h0m0s$`))
		Expect(lines[2]).To(MatchRegexp(`^fresh +\d+s +0 +false +Automatic +Fallback *$`), "a policy that nobody has looked at yet")
	})

	It("goes by a short name and in a category", func(ctx SpecContext) {
		want := "servicecidrpolicy.clusterip-operator.io/busy\nservicecidrpolicy.clusterip-operator.io/fresh\n"
		Expect(c.Kubectl(ctx, "get", "scp", "-o", "name")).To(Equal(want))
		Expect(c.Kubectl(ctx, "get", "clusterip", "-o", "name")).To(Equal(want))
	})
})

// condition is a condition that says no more than it has to.
func condition(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "Because", LastTransitionTime: metav1.Now()}
}

// openAPI is as much as this file needs of what an API server says about its types.
type openAPI struct {
	Description string
	Properties  map[string]openAPI
	Items       *openAPI
}

// undescribed are the paths of all fields without a description.
func (s openAPI) undescribed(path string) (fields []string) {
	if s.Items != nil {
		return s.Items.undescribed(path + "[]")
	}
	for name, field := range s.Properties {
		if field.Description == "" && path+"."+name != ".metadata" {
			fields = append(fields, path+"."+name)
		}
		fields = append(fields, field.undescribed(path+"."+name)...)
	}
	return fields
}

var _ = Describe("What kubectl explain says", func() {
	It("has a description of every field", func(ctx SpecContext) {
		crd := c.Kubectl(ctx, "get", "crd", schema.GroupResource{Group: v1alpha1.Prefix, Resource: v1alpha1.Resource}.String(),
			"-o", "jsonpath={.spec.versions[0].schema.openAPIV3Schema}")
		var root openAPI
		Expect(json.Unmarshal([]byte(crd), &root)).To(Succeed())
		Expect(root.Properties).To(HaveKey("spec"))
		Expect(root.undescribed("")).To(BeEmpty())
		Expect(crd).NotTo(ContainSubstring("kubebuilder"), "nobody is told how the rules were written")
	})
})
