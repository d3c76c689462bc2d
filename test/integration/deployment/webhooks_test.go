package deployment_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

// deleteAsController deletes an IPAddress as an account that the webhooks let pass.
func deleteAsController(ctx context.Context, c *cluster.Cluster, address string) {
	GinkgoHelper()
	controller := cluster.ClientAs(c.Access, "system:serviceaccount:kube-system:generic-garbage-collector")
	Expect(controller.NetworkingV1().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})).To(Succeed())
}

// configurationsOf are the two webhook configurations among manifests.
func configurationsOf(m manifests.Manifests) (admissionregistrationv1.MutatingWebhookConfiguration, admissionregistrationv1.ValidatingWebhookConfiguration) {
	GinkgoHelper()
	return manifests.Only[admissionregistrationv1.MutatingWebhookConfiguration](m, "MutatingWebhookConfiguration"),
		manifests.Only[admissionregistrationv1.ValidatingWebhookConfiguration](m, "ValidatingWebhookConfiguration")
}

// The API server finds the pods by a Service, the manager the configurations by name: a mismatch is
// no error anywhere, as all of it fails open.
var _ = Describe("The webhook configurations", func() {
	It("lead to the port on which every manager serves", func(ctx SpecContext) {
		m := manifests.Render(ctx, defaults)
		pod := manifests.Only[appsv1.Deployment](m, "Deployment").Spec.Template
		service := manifests.Named[corev1.Service](m, "Service", "clusterip-operator-webhook")
		Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))).To(BeTrue())
		port := service.Spec.Ports[0]
		container := pod.Spec.Containers[0]
		Expect(container.Ports).To(ContainElement(And(HaveField("Name", port.TargetPort.StrVal), HaveField("ContainerPort", BeEquivalentTo(9443)))))
		Expect(manifests.Only[corev1.ConfigMap](m, "ConfigMap").Data["config.yaml"]).To(ContainSubstring(`bindAddress: ":9443"`))
		here := HaveField("ClientConfig.Service", HaveValue(And(
			HaveField("Namespace", service.Namespace), HaveField("Name", service.Name), HaveField("Port", HaveValue(Equal(port.Port))))))
		mutating, validating := configurationsOf(m)
		Expect(mutating.Webhooks).To(HaveEach(here))
		Expect(validating.Webhooks).To(HaveEach(here))
	})

	// This binds new webhooks too: none of ours may stand between the API server and its own objects.
	It("fail open, soon, and leave the API server, controllers and ourselves alone", func(ctx SpecContext) {
		mutating, validating := configurationsOf(manifests.Render(ctx, defaults))
		harmless := And(HaveField("FailurePolicy", HaveValue(Equal(admissionregistrationv1.Ignore))), HaveField("TimeoutSeconds", HaveValue(BeEquivalentTo(2))))
		notByTheAPIServer := HaveField("MatchConditions", ContainElement(HaveField("Expression", Or(ContainSubstring(`!= "system:apiserver"`), ContainSubstring(`in [ "system:apiserver",`)))))
		notByUs := HaveField("MatchConditions", ContainElement(HaveField("Expression", ContainSubstring(`"system:serviceaccount:`+cluster.OperatorNamespace+`:"`))))
		Expect(mutating.Webhooks).To(And(HaveLen(3), HaveEach(And(harmless, Or(notByTheAPIServer, HaveField("NamespaceSelector.MatchExpressions", ContainElement(And(
			HaveField("Key", corev1.LabelMetadataName), HaveField("Operator", metav1.LabelSelectorOpNotIn), HaveField("Values", ConsistOf("default")))))),
			HaveField("SideEffects", HaveValue(Equal(admissionregistrationv1.SideEffectClassNoneOnDryRun))),
			HaveField("ReinvocationPolicy", HaveValue(Equal(admissionregistrationv1.IfNeededReinvocationPolicy)))))))
		Expect(validating.Webhooks).To(And(HaveLen(3), HaveEach(And(harmless, notByTheAPIServer, notByUs,
			HaveField("SideEffects", HaveValue(Equal(admissionregistrationv1.SideEffectClassNone)))))))
	})

	// AKS writes selectors into webhooks without this label, as "admissionsenforcer", and owns them:
	// an apply of the next version ends in a conflict.
	It("are left alone by the admissions enforcer of AKS", func(ctx SpecContext) {
		mutating, validating := configurationsOf(manifests.Render(ctx, defaults))
		Expect([]map[string]string{mutating.Labels, validating.Labels}).To(HaveEach(HaveKeyWithValue("admissions.enforcer/disabled", "true")))
	})

	// No program listens: the Service has no pods behind it.
	It("let everything pass while there is no manager", func(ctx SpecContext) {
		began := time.Now()
		service := c.CreateService(ctx, "unattended")
		c.DeleteServices(ctx, service)
		c.CreateServiceCIDR(ctx, "unattended", "10.119.0.0/24")
		c.DeleteServiceCIDRs(ctx, "unattended")
		Expect(time.Since(began)).To(BeNumerically("<", 15*time.Second))
	})
})

// Which requests the API server asks about. It counts the calls, though no webhook answers here.
var _ = Describe("The match conditions", Ordered, func() {
	var m *cluster.Cluster

	BeforeAll(func(ctx SpecContext) {
		m = cluster.Start(ctx, cluster.Options{WithoutOperator: true})
		Expect(m.InstallCRDs(ctx)).To(Succeed())
		m.LeadWebhooks(ctx, manifests.Render(ctx, folder+"/webhook"), 9) // discard: no program listens
	})

	// asked counts the calls that do leads to; no other request leads to any. The API server goes on
	// without an answer, and matching never fails.
	sofar := map[string]float64{}
	asked := func(ctx context.Context, webhook string, do func()) float64 {
		GinkgoHelper()
		do()
		before, metrics := sofar[webhook], cluster.ScrapeAPIServer(ctx, m.Access)
		failures, _ := metrics.Value("apiserver_admission_match_condition_evaluation_errors_total")
		Expect(failures).To(BeZero(), "conditions that cannot be evaluated")
		sofar[webhook], _ = metrics.Value("apiserver_admission_webhook_fail_open_count", "name", webhook+".clusterip-operator.io")
		return sofar[webhook] - before
	}

	// The API server follows each of the two configurations by a watch.
	BeforeAll(func(ctx SpecContext) {
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		for webhook, do := range map[string]func(){
			"default.service": func() {
				suite.Must(m.Client().CoreV1().Services(cluster.Namespace).Create(ctx, framework.NewService(cluster.Namespace, "probe"), dryRun))
			},
			"servicecidr": func() {
				suite.Must(m.Networking().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("probe", "10.117.1.0/24"), dryRun))
			},
		} {
			Eventually(asked).WithArguments(ctx, webhook, do).Should(BeEquivalentTo(1), webhook)
		}
	})

	apply := func(ctx context.Context, text string) func() {
		return func() {
			GinkgoHelper()
			text = "apiVersion: v1\nkind: Service\n" + text
			var service corev1.Service
			Expect(yaml.Unmarshal([]byte(text), &service)).To(Succeed())
			services := m.Client().CoreV1().Services(cmp.Or(service.Namespace, cluster.Namespace))
			Expect(services.Patch(ctx, service.Name, types.ApplyYAMLPatchType, []byte(text), metav1.PatchOptions{FieldManager: "test", Force: new(true)})).
				Error().NotTo(HaveOccurred(), text)
		}
	}
	const ports = "spec: {ports: [{port: 80}]"

	It("ask about every new Service", func(ctx SpecContext) {
		for name, spec := range map[string]string{
			"headless": ports + ", clusterIP: None}", "named": "spec: {type: ExternalName, externalName: a.example}",
			"plain": ports + "}", "typed": ports + ", type: ClusterIP}", "node": ports + ", type: NodePort}", "load": ports + ", type: LoadBalancer}",
			"fixed": ports + ", clusterIP: 10.96.0.33}", "dual": ports + ", ipFamilyPolicy: PreferDualStack}", "empty": ports + ", clusterIP: \"\"}",
		} {
			Expect(asked(ctx, "default.service", apply(ctx, "metadata: {name: "+name+"}\n"+spec))).To(BeEquivalentTo(1), name)
			Expect(asked(ctx, "service", apply(ctx, "metadata: {name: "+name+", namespace: kube-public}\n"+strings.Replace(spec, ".33", ".34", 1)))).To(BeEquivalentTo(1), name)
		}
	})

	It("ask about an update only if it is about addresses", func(ctx SpecContext) {
		const annotated = "annotations: {clusterip-operator.io/additional-ips-from: other}"
		for _, step := range []struct {
			what, text string
			want       int
		}{
			{"a new one", "metadata: {name: u}\n" + ports + "}", 0},
			{"a label", "metadata: {name: u, labels: {a: b}}\n" + ports + "}", 0},
			{"an annotation of others", "metadata: {name: u, annotations: {a: b}}\n" + ports + "}", 0},
			{"a selector", "metadata: {name: u}\n" + ports + ", selector: {a: b}}", 0},
			{"a second family", "metadata: {name: u}\n" + ports + ", ipFamilyPolicy: RequireDualStack}", 1},
			{"the same again", "metadata: {name: u}\n" + ports + ", ipFamilyPolicy: RequireDualStack}", 0},
			{"one family less", "metadata: {name: u}\n" + ports + ", ipFamilyPolicy: SingleStack}", 1},
			{"another type with addresses", "metadata: {name: u}\n" + ports + ", ipFamilyPolicy: SingleStack, type: NodePort}", 1},
			{"our annotation", "metadata: {name: u, " + annotated + "}\n" + ports + ", ipFamilyPolicy: SingleStack}", 1},
			{"the same again", "metadata: {name: u, " + annotated + "}\n" + ports + ", ipFamilyPolicy: SingleStack}", 0},
			{"without it", "metadata: {name: u}\n" + ports + ", ipFamilyPolicy: SingleStack}", 1},
			{"no address any more", "metadata: {name: u}\nspec: {type: ExternalName, externalName: a.example}", 0},
			{"an address again", "metadata: {name: u}\n" + ports + ", type: ClusterIP}", 1},
		} {
			Expect(asked(ctx, "update.service", apply(ctx, step.text))).To(BeEquivalentTo(step.want), step.what)
		}
		replaced := framework.NewService(cluster.Namespace, "u", framework.WithLabel("c", "d"))
		Expect(asked(ctx, "update.service", func() {
			Expect(m.Client().CoreV1().Services(cluster.Namespace).Update(ctx, replaced, metav1.UpdateOptions{})).Error().NotTo(HaveOccurred())
		})).To(BeZero(), "a replacement that leaves the addresses out")
	})

	It("ask about deleted IPAddresses, unless a controller deletes them", func(ctx SpecContext) {
		for user, want := range map[string]int{
			"admin": 1, "system:serviceaccount:default:mine": 1, "system:kube-controller-manager": 0,
			"system:serviceaccount:kube-system:namespace-controller": 0, "system:serviceaccount:kube-system:default": 1, "system:serviceaccount:" + cluster.OperatorNamespace + ":" + cluster.OperatorAccount: 0,
		} {
			const address = "10.118.0.1"
			m.CreateIPAddress(ctx, framework.NewIPAddress(address, "default", "gone"))
			Expect(asked(ctx, "ipaddress", func() {
				Expect(cluster.ClientAs(m.Access, user).NetworkingV1().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})).To(Succeed())
			})).To(BeEquivalentTo(want), user)
		}
	})

	It("ask about ServiceCIDRs and policies when their specs change", func(ctx SpecContext) {
		Expect(asked(ctx, "servicecidr", func() { m.CreateServiceCIDR(ctx, "asked", "10.117.0.0/24") })).To(BeEquivalentTo(1))
		Expect(asked(ctx, "servicecidr", func() { m.Kubectl(ctx, "label", "servicecidr", "asked", "a=b") })).To(BeZero())
		change := func(patch string) func() {
			return func() { m.Kubectl(ctx, "patch", "servicecidrpolicy", "asked", "--type=merge", "-p", patch) }
		}
		Expect(asked(ctx, "servicecidrpolicy", func() { m.AddPolicy(ctx, "asked", "{serviceCIDRs: [asked]}") })).To(BeEquivalentTo(1))
		Expect(asked(ctx, "servicecidrpolicy", change(`{"metadata":{"labels":{"a":"c"}}}`))).To(BeZero())
		Expect(asked(ctx, "servicecidrpolicy", change(`{"spec":{"serviceCIDRs":["other"]}}`))).To(BeEquivalentTo(1))
	})
})

// Two ways to replace what config/default brings for the webhooks. Neither may leave anything
// useless behind, least of all permissions.
var _ = Describe("Instead of certificates of our own", func() {
	expectNotGranted := func(m manifests.Manifests, words ...string) {
		GinkgoHelper()
		granted := strings.Join(manifests.Granted(m, cluster.OperatorNamespace, cluster.OperatorAccount), ", ")
		for _, word := range words {
			Expect(granted).NotTo(ContainSubstring(word))
		}
	}

	It("cert-manager issues them, and the manager may not", func(ctx SpecContext) {
		m := manifests.Render(ctx, overlay("", folder+"/components/cert-manager"))
		pod := manifests.Only[appsv1.Deployment](m, "Deployment").Spec.Template.Spec
		mount := pod.Containers[0].VolumeMounts[len(pod.Containers[0].VolumeMounts)-1]
		Expect(pod.Containers[0].Args).To(ContainElement("--webhook-cert-dir=" + mount.MountPath))
		volume := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })]
		certificate := manifests.Only[map[string]any](m, "Certificate")
		Expect(certificate).To(HaveKeyWithValue("spec", HaveKeyWithValue("secretName", volume.Secret.SecretName)))
		service := manifests.Named[corev1.Service](m, "Service", "clusterip-operator-webhook")
		Expect(certificate).To(HaveKeyWithValue("spec", HaveKeyWithValue("dnsNames", ConsistOf(service.Name+"."+service.Namespace+".svc"))))
		meta := certificate["metadata"].(map[string]any)
		mutating, validating := configurationsOf(m)
		injected := HaveKeyWithValue("cert-manager.io/inject-ca-from", fmt.Sprintf("%s/%s", meta["namespace"], meta["name"]))
		Expect([]map[string]string{mutating.Annotations, validating.Annotations}).To(HaveEach(injected))
		expectNotGranted(m, "secrets", "webhookconfigurations")
	})

	It("there may be no webhooks at all", func(ctx SpecContext) {
		m := manifests.Render(ctx, overlay("", folder+"/components/without-webhook"))
		Expect(manifests.Only[appsv1.Deployment](m, "Deployment").Spec.Template.Spec.Containers[0].Args).To(ContainElement("--webhook-bind-address=0"))
		Expect(slices.ContainsFunc(m, cluster.IsWebhooks)).To(BeFalse())
		Expect(manifests.Every[corev1.Service](m, "Service")).To(HaveLen(1))
		expectNotGranted(m, "secrets", "webhookconfigurations", "delete leases")
	})
})
