package deployment_test

import (
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// webhookKinds are the kinds of the webhook configurations, both of the name in webhookName.
var webhookKinds = []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

const webhookName = "clusterip-operator"

func isWebhooks(o unstructured.Unstructured) bool { return slices.Contains(webhookKinds, o.GetKind()) }

// webhookTimeout is how many seconds the API server waits for a webhook here: with the two that are shipped, a busy machine would let requests
// pass unanswered.
const webhookTimeout int64 = 10

// redirect leads the API server to a manager on loopback, for want of pods behind the Service.
func redirect(ctx context.Context, c *cluster.Cluster, m manifests, address string) {
	GinkgoHelper()
	_, port, _ := strings.Cut(address, ":")
	var text strings.Builder
	for _, object := range m {
		if !isWebhooks(object) {
			continue
		}
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		Expect(err).NotTo(HaveOccurred())
		for _, webhook := range webhooks {
			config := webhook.(map[string]any)["clientConfig"].(map[string]any)
			path, _, _ := unstructured.NestedString(config, "service", "path")
			delete(config, "service")
			webhook.(map[string]any)["timeoutSeconds"] = webhookTimeout
			config["url"] = "https://localhost:" + port + path
		}
		Expect(unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")).To(Succeed())
		document, err := yaml.Marshal(object.Object)
		Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(&text, "---\n%s", document)
	}
	_, err := framework.KubectlWithInput(ctx, c.Kubeconfig(), text.String(), "apply", "--server-side", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

// deleteAsController deletes an IPAddress as an account that the webhooks let pass.
func deleteAsController(ctx context.Context, c *cluster.Cluster, address string) {
	GinkgoHelper()
	config, err := c.ConfigForUser("system:serviceaccount:kube-system:generic-garbage-collector", "system:masters")
	Expect(err).NotTo(HaveOccurred())
	networking, err := framework.NetworkingFor(config, "v1")
	Expect(err).NotTo(HaveOccurred())
	Expect(networking.IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})).To(Succeed())
}

// failedOpen counts the calls of a webhook that the API server has gone on without an answer of. Matching what is to be called never fails.
func failedOpen(ctx context.Context, c *cluster.Cluster, webhook string) float64 {
	GinkgoHelper()
	text, err := c.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	metrics, err := framework.ParseMetrics(string(text))
	Expect(err).NotTo(HaveOccurred())
	failures, _ := metrics.Value("apiserver_admission_match_condition_evaluation_errors_total")
	Expect(failures).To(BeZero(), "conditions that cannot be evaluated")
	value, _ := metrics.Value("apiserver_admission_webhook_fail_open_count", "name", webhook+".clusterip-operator.io")
	return value
}

// The API server finds the pods through a Service, and the manager finds the configurations by their names: what does not match is no error
// anywhere, for all of it fails open.
var _ = Describe("The webhook configurations", func() {
	It("lead to the port on which every manager serves", func(ctx SpecContext) {
		m := render(ctx, defaults)
		pod := only[appsv1.Deployment](m, "Deployment").Spec.Template
		service := named[corev1.Service](m, "Service", "clusterip-operator-webhook")
		Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))).To(BeTrue())
		port := service.Spec.Ports[0]
		container := pod.Spec.Containers[0]
		Expect(container.Ports).To(ContainElement(And(HaveField("Name", port.TargetPort.StrVal), HaveField("ContainerPort", BeEquivalentTo(9443)))))
		Expect(only[corev1.ConfigMap](m, "ConfigMap").Data["config.yaml"]).To(ContainSubstring(`bindAddress: ":9443"`))
		for _, config := range clientConfigs(m) {
			Expect(config.Service).NotTo(BeNil())
			Expect(config.Service.Namespace + "/" + config.Service.Name).To(Equal(service.Namespace + "/" + service.Name))
			Expect(*config.Service.Port).To(Equal(port.Port))
		}
	})

	// Whoever adds a webhook has to think of these: no webhook of ours may ever stand between the API server and its own objects.
	It("fail open, soon, and leave the API server, controllers and ourselves alone", func(ctx SpecContext) {
		m := render(ctx, defaults)
		mutating := named[admissionregistrationv1.MutatingWebhookConfiguration](m, webhookKinds[0], webhookName)
		validating := named[admissionregistrationv1.ValidatingWebhookConfiguration](m, webhookKinds[1], webhookName)
		Expect(mutating.Webhooks).To(HaveLen(1))
		Expect(validating.Webhooks).To(HaveLen(3))
		for _, w := range mutating.Webhooks {
			expectHarmless(w.FailurePolicy, w.TimeoutSeconds, w.MatchConditions)
			Expect(*w.SideEffects).To(Equal(admissionregistrationv1.SideEffectClassNoneOnDryRun))
			Expect(*w.ReinvocationPolicy).To(Equal(admissionregistrationv1.IfNeededReinvocationPolicy))
		}
		for _, w := range validating.Webhooks {
			expectHarmless(w.FailurePolicy, w.TimeoutSeconds, w.MatchConditions)
			Expect(*w.SideEffects).To(Equal(admissionregistrationv1.SideEffectClassNone))
		}
	})

	// Nobody listens: the Service has no pods behind it.
	It("let everything pass while there is no manager", func(ctx SpecContext) {
		began := time.Now()
		service := c.CreateService(ctx, "unattended")
		c.DeleteServices(ctx, service)
		c.CreateServiceCIDR(ctx, "unattended", "10.119.0.0/24")
		c.DeleteServiceCIDRs(ctx, "unattended")
		Expect(time.Since(began)).To(BeNumerically("<", 15*time.Second))
	})
})

func expectHarmless(policy *admissionregistrationv1.FailurePolicyType, seconds *int32, conditions []admissionregistrationv1.MatchCondition) {
	GinkgoHelper()
	Expect(*policy).To(Equal(admissionregistrationv1.Ignore))
	Expect(*seconds).To(BeEquivalentTo(2))
	Expect(conditions).To(ContainElements(
		HaveField("Expression", ContainSubstring(`!= "system:apiserver"`)),
		HaveField("Expression", ContainSubstring(`"system:serviceaccount:`+namespace+`:"`))))
}

func clientConfigs(m manifests) (all []admissionregistrationv1.WebhookClientConfig) {
	GinkgoHelper()
	for _, w := range named[admissionregistrationv1.MutatingWebhookConfiguration](m, webhookKinds[0], webhookName).Webhooks {
		all = append(all, w.ClientConfig)
	}
	for _, w := range named[admissionregistrationv1.ValidatingWebhookConfiguration](m, webhookKinds[1], webhookName).Webhooks {
		all = append(all, w.ClientConfig)
	}
	return all
}

// Which requests the API server asks about. It counts them, whether anybody answers or not: here nobody does.
var _ = Describe("The match conditions", Ordered, func() {
	var m *cluster.Cluster

	BeforeAll(func(ctx SpecContext) {
		m = cluster.Start(ctx, cluster.Options{WithoutOperator: true})
		Expect(m.InstallCRDs(ctx)).To(Succeed())
		redirect(ctx, m, render(ctx, folder+"/webhook"), "127.0.0.1:9") // discard: nobody listens
	})

	// asked counts the calls that a request leads to. Nobody else leads to any.
	sofar := map[string]float64{}
	asked := func(ctx context.Context, webhook string, do func()) (calls float64) {
		GinkgoHelper()
		do()
		before := sofar[webhook]
		sofar[webhook] = failedOpen(ctx, m, webhook)
		return sofar[webhook] - before
	}
	// send sends the text of a Service with a request of a verb.
	send := func(ctx context.Context, request *rest.Request, text string) func() {
		return func() {
			GinkgoHelper()
			request = request.Namespace(cluster.Namespace).Resource("services").Body([]byte("apiVersion: v1\nkind: Service\n" + text))
			Expect(request.Do(ctx).Error()).To(Succeed())
		}
	}
	create := func(ctx context.Context, text string) func() {
		return send(ctx, m.Client().CoreV1().RESTClient().Post().SetHeader("Content-Type", "application/yaml"), text)
	}
	apply := func(ctx context.Context, name, text string) func() {
		return send(ctx, m.Client().CoreV1().RESTClient().Patch(types.ApplyYAMLPatchType).Name(name).Param("fieldManager", "test").Param("force", "true"), text)
	}
	replace := func(ctx context.Context, name, text string) func() {
		return send(ctx, m.Client().CoreV1().RESTClient().Put().Name(name).SetHeader("Content-Type", "application/yaml"), text)
	}
	const ports = "spec: {ports: [{port: 80}]"

	It("ask about a Service that needs addresses, however it says so", func(ctx SpecContext) {
		for name, spec := range map[string]string{
			"plain": ports + "}", "typed": ports + ", type: ClusterIP}", "node": ports + ", type: NodePort}", "load": ports + ", type: LoadBalancer}",
			"fixed": ports + ", clusterIP: 10.96.0.33}", "dual": ports + ", ipFamilyPolicy: PreferDualStack}", "empty": ports + ", clusterIP: \"\"}",
		} {
			Expect(asked(ctx, "service", create(ctx, "metadata: {name: "+name+"}\n"+spec))).To(BeEquivalentTo(1), name)
		}
	})

	It("do not ask about a Service that needs none", func(ctx SpecContext) {
		for name, spec := range map[string]string{
			"headless": ports + ", clusterIP: None}", "named": "spec: {type: ExternalName, externalName: a.example}",
		} {
			Expect(asked(ctx, "service", create(ctx, "metadata: {name: "+name+"}\n"+spec))).To(BeZero(), name)
		}
	})

	It("ask about an update only if it is about addresses", func(ctx SpecContext) {
		const wish = "annotations: {clusterip-operator.io/additional-ips-from: other}"
		for _, step := range []struct {
			what, text string
			want       int
		}{
			{"a new one", "metadata: {name: u}\n" + ports + "}", 1},
			{"a label", "metadata: {name: u, labels: {a: b}}\n" + ports + "}", 0},
			{"an annotation of others", "metadata: {name: u, annotations: {a: b}}\n" + ports + "}", 0},
			{"a selector", "metadata: {name: u}\n" + ports + ", selector: {a: b}}", 0},
			{"a second family", "metadata: {name: u}\n" + ports + ", ipFamilyPolicy: RequireDualStack}", 1},
			{"the same again", "metadata: {name: u}\n" + ports + ", ipFamilyPolicy: RequireDualStack}", 0},
			{"one family less", "metadata: {name: u}\n" + ports + ", ipFamilyPolicy: SingleStack}", 1},
			{"another type with addresses", "metadata: {name: u}\n" + ports + ", ipFamilyPolicy: SingleStack, type: NodePort}", 1},
			{"our annotation", "metadata: {name: u, " + wish + "}\n" + ports + ", ipFamilyPolicy: SingleStack}", 1},
			{"the same again", "metadata: {name: u, " + wish + "}\n" + ports + ", ipFamilyPolicy: SingleStack}", 0},
			{"without it", "metadata: {name: u}\n" + ports + ", ipFamilyPolicy: SingleStack}", 1},
			{"no address any more", "metadata: {name: u}\nspec: {type: ExternalName, externalName: a.example}", 0},
			{"an address again", "metadata: {name: u}\n" + ports + ", type: ClusterIP}", 1},
		} {
			Expect(asked(ctx, "service", apply(ctx, "u", step.text))).To(BeEquivalentTo(step.want), step.what)
		}
		Expect(asked(ctx, "service", replace(ctx, "u", "metadata: {name: u, labels: {c: d}}\n"+ports+"}"))).To(BeZero(), "a replacement that leaves the addresses out")
	})

	It("ask about deleted IPAddresses, unless a controller deletes them", func(ctx SpecContext) {
		for i, user := range []string{"admin", "system:serviceaccount:default:mine", "system:kube-controller-manager", "system:serviceaccount:kube-system:namespace-controller", "system:serviceaccount:" + namespace + ":" + managerAccount} {
			address := fmt.Sprintf("10.118.0.%d", i+1)
			m.CreateIPAddress(ctx, framework.NewIPAddress(address, "default", "gone"))
			config, err := m.ConfigForUser(user, "system:masters")
			Expect(err).NotTo(HaveOccurred())
			networking, err := framework.NetworkingFor(config, "v1")
			Expect(err).NotTo(HaveOccurred())
			want := 0
			if i < 2 {
				want = 1
			}
			Expect(asked(ctx, "ipaddress", func() {
				Expect(networking.IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})).To(Succeed())
			})).To(BeEquivalentTo(want), user)
		}
	})

	It("ask about ServiceCIDRs and policies when their specs change", func(ctx SpecContext) {
		Expect(asked(ctx, "servicecidr", func() { m.CreateServiceCIDR(ctx, "asked", "10.117.0.0/24") })).To(BeEquivalentTo(1))
		Expect(asked(ctx, "servicecidr", func() { kubectl(ctx, m, "label", "servicecidr", "asked", "a=b") })).To(BeZero())
		const policy = "apiVersion: clusterip-operator.io/v1alpha1\nkind: ServiceCIDRPolicy\nmetadata: {name: asked, labels: {a: %s}}\nspec: {serviceCIDRs: [%s]}"
		apply := func(label, cidr string) func() {
			return func() {
				GinkgoHelper()
				_, err := framework.KubectlWithInput(ctx, m.Kubeconfig(), fmt.Sprintf(policy, label, cidr), "apply", "--server-side", "-f", "-")
				Expect(err).NotTo(HaveOccurred())
			}
		}
		Expect(asked(ctx, "servicecidrpolicy", apply("b", "asked"))).To(BeEquivalentTo(1))
		Expect(asked(ctx, "servicecidrpolicy", apply("c", "asked"))).To(BeZero())
		Expect(asked(ctx, "servicecidrpolicy", apply("c", "other"))).To(BeEquivalentTo(1))
	})
})

// Two ways to do without what config/default brings for the webhooks. Neither may leave something behind that is of no use, permissions first of
// all.
var _ = Describe("Instead of certificates of our own", func() {
	grants := func(m manifests) []string { return granted(m, managerAccount) }

	It("cert-manager issues them, and the manager may not", func(ctx SpecContext) {
		m := render(ctx, overlay(folder+"/components/cert-manager"))
		pod := only[appsv1.Deployment](m, "Deployment").Spec.Template.Spec
		mount := pod.Containers[0].VolumeMounts[len(pod.Containers[0].VolumeMounts)-1]
		Expect(pod.Containers[0].Args).To(ContainElement("--webhook-cert-dir=" + mount.MountPath))
		volume := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })]
		certificate := only[map[string]any](m, "Certificate")
		Expect(certificate).To(HaveKeyWithValue("spec", HaveKeyWithValue("secretName", volume.Secret.SecretName)))
		service := named[corev1.Service](m, "Service", "clusterip-operator-webhook")
		Expect(certificate).To(HaveKeyWithValue("spec", HaveKeyWithValue("dnsNames", ConsistOf(service.Name+"."+service.Namespace+".svc"))))
		meta := certificate["metadata"].(map[string]any)
		for _, kind := range webhookKinds {
			configuration := only[map[string]any](m, kind)
			Expect(configuration).To(HaveKeyWithValue("metadata", HaveKeyWithValue("annotations",
				HaveKeyWithValue("cert-manager.io/inject-ca-from", fmt.Sprintf("%s/%s", meta["namespace"], meta["name"])))))
		}
		Expect(grants(m)).NotTo(ContainElement(Or(ContainSubstring("secrets"), ContainSubstring("webhookconfigurations"))))
	})

	It("there may be no webhooks at all", func(ctx SpecContext) {
		m := render(ctx, overlay(folder+"/components/without-webhook"))
		Expect(only[appsv1.Deployment](m, "Deployment").Spec.Template.Spec.Containers[0].Args).To(ContainElement("--webhook-bind-address=0"))
		Expect(m).NotTo(ContainElement(HaveField("GetKind()", BeElementOf(webhookKinds))))
		Expect(every[corev1.Service](m, "Service")).To(HaveLen(1))
		Expect(grants(m)).NotTo(ContainElement(Or(ContainSubstring("secrets"), ContainSubstring("webhookconfigurations"), ContainSubstring("delete leases"))))
	})
})
