package renumber_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// theirs are another network's addresses, which clusters keep tenants from using as external IPs.
const theirs = "203.0.113.7,2001:db8::7"

// annotated is a merge patch of annotations.
func annotated(annotations map[string]string) string {
	GinkgoHelper()
	text := suite.Must(json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}}))
	return string(text)
}

// The command writes under the name of an administrator. What a tenant writes into a Service of its
// own must not come out of that as more than the tenant could have written.
var _ = Describe("kubectl clusterip renumber, of a Service whose owner lies", func() {
	It("keeps the addresses whose IPAddresses name the Service, and no others", func(ctx SpecContext) {
		was, file := one(ctx, func(s *corev1.Service) { s.Annotations = map[string]string{v1alpha1.AnnotationFormerIPs: theirs} })
		_, printed := stopBetween(ctx, was.Name, func() {
			now := get(ctx, was.Namespace, was.Name)
			Expect(now.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationFormerIPs, was.Spec.ClusterIPs[0]+","+was.Spec.ClusterIPs[1]))
			edit(ctx, was.Namespace, was.Name, annotated(map[string]string{v1alpha1.AnnotationFormerIPs: theirs + "," + was.Spec.ClusterIPs[0] + "," + was.Spec.ClusterIPs[1]}))
		}, "run", "--from", file, "--wait=false")
		now := get(ctx, was.Namespace, was.Name)
		Expect(now.Spec.ClusterIPs).To(Equal(planned(file)), printed)
		Expect(now.Spec.ExternalIPs).To(Equal(was.Spec.ClusterIPs), printed)
		Expect(now.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationFormerIPs, was.Spec.ClusterIPs[0]+","+was.Spec.ClusterIPs[1]))
		succeed(ctx, runOf(file)...)
		Expect(get(ctx, was.Namespace, was.Name).Spec.ExternalIPs).To(BeEmpty())
		expectNothingLeaked(ctx)
	})

	// forged is a record of a load balancer with an address of another network.
	forged := func(was *corev1.Service) string {
		GinkgoHelper()
		spec := was.Spec.DeepCopy()
		spec.Type, spec.LoadBalancerIP, spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, "203.0.113.7", []string{"203.0.113.7"}
		record := suite.Must(json.Marshal(map[string]any{"nonce": "x", "type": spec.Type, "clusterIPs": spec.ClusterIPs, "spec": spec}))
		return string(record)
	}

	It("restores nothing that the owner has written itself", func(ctx SpecContext) {
		was, file := one(ctx, nil)
		record := forged(was)
		alias := suite.Must(json.Marshal(map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{v1alpha1.AnnotationRenumbering: record, v1alpha1.AnnotationFormerIPs: theirs}},
			"spec":     map[string]any{"type": "ExternalName", "externalName": v1alpha1.ExternalNameRenumbering},
			// The API server does not take the status with the Service.
			"status": map[string]any{"conditions": []metav1.Condition{{
				Type: v1alpha1.ConditionRenumbering, Status: metav1.ConditionTrue, Reason: "BeingMoved", LastTransitionTime: metav1.Now(),
				Message: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(record))),
			}}},
		}))
		edit(ctx, was.Namespace, was.Name, string(alias))
		lies := get(ctx, was.Namespace, was.Name)
		Expect(lies.Status.Conditions).To(BeEmpty())
		for _, verb := range []string{"run", "rollback"} {
			result := suite.Exits(1, renumber(ctx, append([]string{verb, "--from", file}, quick...)...))
			Expect(result.Stdout + result.Stderr).To(ContainSubstring("its status does not prove that the annotation"))
			Expect(get(ctx, was.Namespace, was.Name).Spec).To(Equal(lies.Spec))
		}
		expectNothingLeaked(ctx)
	})

	It("restores nothing that the owner has written between the two updates, until it takes its type back", func(ctx SpecContext) {
		was, file := one(ctx, nil)
		code, printed := stopBetween(ctx, was.Name, func() {
			edit(ctx, was.Namespace, was.Name, annotated(map[string]string{v1alpha1.AnnotationRenumbering: forged(was)}))
		}, runOf(file)...)
		Expect(code).To(Equal(1), printed)
		Expect(printed).To(ContainSubstring("its status does not prove that the annotation"))
		now := get(ctx, was.Namespace, was.Name)
		Expect(now.Spec.Type).To(Equal(corev1.ServiceTypeExternalName))
		Expect(now.Spec.ExternalIPs).To(BeEmpty())
		Expect(now.Status.Conditions).To(BeEmpty())
		edit(ctx, was.Namespace, was.Name, `{"spec":{"type":"ClusterIP","externalName":null}}`)
		Expect(get(ctx, was.Namespace, was.Name).Spec.ClusterIPs).NotTo(BeEmpty())
		expectNothingLeaked(ctx)
	})

	It("takes back what the owner of a NodePort Service has changed in between", func(ctx SpecContext) {
		was, file := one(ctx, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort })
		code, printed := stopBetween(ctx, was.Name, func() {
			edit(ctx, was.Namespace, was.Name, `{"metadata":{"annotations":{"internet-facing":"yes"}},"spec":{"ports":[{"name":"http","port":22}],"selector":{"app":"theirs"}}}`)
		}, runOf(file)...)
		Expect(code).To(BeZero(), printed)
		now := get(ctx, was.Namespace, was.Name)
		Expect(now.Spec.ClusterIPs).To(Equal(planned(file)))
		Expect(comparable(now)).To(Equal(comparable(was)))
		expectNothingLeaked(ctx)
	})

	It("gives a load balancer no status that it does not have", func(ctx SpecContext) {
		was, _ := one(ctx, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }, "--include-load-balancers")
		was.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.78"}}
		was = suite.Must(c.Client().CoreV1().Services(was.Namespace).UpdateStatus(ctx, was, metav1.UpdateOptions{}))
		file, result := plan(ctx, was.Namespace, "--include-load-balancers")
		Expect(result.ExitCode).To(BeZero(), result.String())
		// Then the address is free for another tenant.
		edit(ctx, was.Namespace, was.Name, `{"spec":{"type":"ClusterIP"}}`)
		edit(ctx, was.Namespace, was.Name, `{"spec":{"type":"LoadBalancer"},"metadata":{"annotations":{"`+v1alpha1.AnnotationRenumbering+`":"{}"}}}`)
		again := suite.Exits(1, renumber(ctx, runOf(file)...))
		Expect(again.Stdout + again.Stderr).To(ContainSubstring("another status than when the plan was made"))
		Expect(get(ctx, was.Namespace, was.Name).Status.LoadBalancer.Ingress).To(BeEmpty())
		expectNothingLeaked(ctx)
	})
})
