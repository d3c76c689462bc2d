package policyapi_test

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// table asks for the policies as kubectl does: the API server lays out the columns.
func table(ctx context.Context) metav1.Table {
	GinkgoHelper()
	client, err := rest.HTTPClientFor(cp.AdminConfig())
	Expect(err).NotTo(HaveOccurred())
	url := cp.URL() + "/apis/" + v1alpha1.GroupVersion.String() + "/" + v1alpha1.Resource
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(response.Body.Close()).To(Succeed()) }()
	var answer metav1.Table
	Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
	return answer
}

// columns are the heads of a table, those of the given importance.
func columns(t metav1.Table, important bool) (heads []string) {
	for _, column := range t.ColumnDefinitions {
		if (column.Priority == 0) == important {
			heads = append(heads, strings.ToUpper(column.Name))
		}
	}
	return heads
}

var _ = Describe("What kubectl get shows", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		created(ctx, "fresh", v1alpha1.ServiceCIDRPolicySpec{})
		busy := created(ctx, "busy", v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"tenant-a"}, Exclusive: true, OnFull: v1alpha1.OnFullFail, Priority: 7,
			CoolDown: &metav1.Duration{Duration: time.Hour},
		})
		busy.Status = v1alpha1.ServiceCIDRPolicyStatus{
			Summary: v1alpha1.PolicySummary{Ranges: 2, BandStatus: v1alpha1.BandStatus{
				Size: math.MaxInt64, Used: 40, Free: math.MaxInt64 - 50, Cooling: 3, Reserved: 7,
			}},
			Conditions: []metav1.Condition{
				condition(v1alpha1.PolicyAccepted, metav1.ConditionTrue),
				condition(v1alpha1.PolicyConflicting, metav1.ConditionTrue),
				condition(v1alpha1.PolicyProgrammed, metav1.ConditionFalse),
			},
		}
		Expect(admin.Status().Update(ctx, busy)).To(Succeed())
	})

	It("has a column for each question that an admin has at first", func(ctx SpecContext) {
		Expect(columns(table(ctx), true)).To(Equal(
			[]string{"NAME", "RANGES", "SIZE", "USED", "FREE", "COOLING", "RESERVED", "READY", "AGE"}))
	})

	It("has the rest for those who want it wide", func(ctx SpecContext) {
		Expect(columns(table(ctx), false)).To(Equal([]string{"PRIORITY", "EXCLUSIVE", "ONFULL", "COOLDOWN"}))
	})

	It("says what each column means", func(ctx SpecContext) {
		Expect(table(ctx).ColumnDefinitions).To(HaveEach(HaveField("Description", Not(BeEmpty()))))
	})

	It("counts, and calls a policy ready when it is programmed", func(ctx SpecContext) {
		lines := strings.Split(strings.TrimSpace(kubectl(ctx, "get", "servicecidrpolicies", "-o", "wide", "--sort-by", ".metadata.name")), "\n")
		Expect(lines).To(HaveLen(3))
		Expect(lines[1]).To(MatchRegexp(`^busy +2 +9223372036854775807 +40 +9223372036854775757 +3 +7 +False +\d+s +7 +true +Fail +1h0m0s$`))
		Expect(lines[2]).To(MatchRegexp(`^fresh +\d+s +0 +false +Fallback *$`), "a policy that nobody has looked at yet")
	})

	It("goes by a short name and in a category", func(ctx SpecContext) {
		want := "servicecidrpolicy.clusterip-operator.io/busy\nservicecidrpolicy.clusterip-operator.io/fresh\n"
		Expect(kubectl(ctx, "get", "scp", "-o", "name")).To(Equal(want))
		Expect(kubectl(ctx, "get", "clusterip", "-o", "name")).To(Equal(want))
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
		crd := kubectl(ctx, "get", "crd", schema.GroupResource{Group: v1alpha1.Prefix, Resource: v1alpha1.Resource}.String(),
			"-o", "jsonpath={.spec.versions[0].schema.openAPIV3Schema}")
		var root openAPI
		Expect(json.Unmarshal([]byte(crd), &root)).To(Succeed())
		Expect(root.Properties).To(HaveKey("spec"))
		Expect(root.undescribed("")).To(BeEmpty())
	})

	// explain drops the line breaks, which depend on how wide kubectl writes.
	explain := func(ctx context.Context, path string) string {
		GinkgoHelper()
		return strings.Join(strings.Fields(kubectl(ctx, "explain", path)), " ")
	}

	It("is what the types say", func(ctx SpecContext) {
		Expect(explain(ctx, "scp")).To(ContainSubstring("says which Services get their addresses from which ServiceCIDRs"))
		Expect(explain(ctx, "scp.spec.onFull")).To(And(ContainSubstring("Fail refuses it"), ContainSubstring("ENUM: Fail Fallback")))
		Expect(explain(ctx, "scp.spec.reservations.address")).To(ContainSubstring("a CIDR (10.96.0.16/28)"))
		Expect(explain(ctx, "scp.status.ranges.dynamic.cooling")).To(ContainSubstring("cool down after their Service is gone"))
	})

	It("tells nobody of how the rules were written", func(ctx SpecContext) {
		Expect(kubectl(ctx, "explain", "scp", "--recursive")).NotTo(ContainSubstring("kubebuilder"))
		Expect(kubectl(ctx, "explain", "scp.spec.reservations.address")).NotTo(ContainSubstring("CEL"))
	})
})
