package deployment_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

// ours writes the IPAddresses that the manager restores.
const ours = "clusterip-operator-ipaddress"

// asDeployed runs the manager as the cluster's Operator, with the token, arguments and ConfigMap of
// its Deployment, until the calling node ends. It watches namespaces through the gate.
func asDeployed(ctx context.Context, c *cluster.Cluster, kustomization string) (namespaces *gate) {
	GinkgoHelper()
	m := manifests.Render(ctx, kustomization)
	container := manifests.Only[appsv1.Deployment](m, "Deployment").Spec.Template.Spec.Containers[0]
	file := filepath.Join(GinkgoT().TempDir(), "config.yaml")
	Expect(os.WriteFile(file, []byte(manifests.Only[corev1.ConfigMap](m, "ConfigMap").Data["config.yaml"]), 0o600)).To(Succeed())

	// A pod has an address of its own to listen on.
	var args []string
	for _, arg := range container.Args {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case "--config":
			Expect(arg).To(Equal("--config=" + container.VolumeMounts[0].MountPath + "/config.yaml"))
			args = append(args, "--config="+file)
		case "--metrics-bind-address", "--health-probe-bind-address":
		default:
			args = append(args, arg)
		}
	}
	Expect(args).To(ContainElement(HavePrefix("--leader-elect")))
	config := suite.Must(c.ConfigForServiceAccount(ctx, cluster.OperatorNamespace, cluster.OperatorAccount))
	namespaces = openGate(config, "namespaces")
	c.Operator = suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{
		Kubeconfig: cluster.KubeconfigOf(namespaces.config(config)), Args: args, Env: environment(container), Race: true, SecureMetrics: true, Webhooks: true,
	})
	if !slices.ContainsFunc(m, cluster.IsWebhooks) {
		return namespaces
	}
	c.LeadWebhooks(ctx, m, int(netip.MustParseAddrPort(c.Operator.WebhookAddress()).Port()))
	DeferCleanup(func(ctx SpecContext) { c.Kustomize(ctx, kustomization) })
	Eventually(c.Authorities).WithArguments(ctx).ShouldNot(ContainElement(BeEmpty()))
	return namespaces
}

// environment is what a kubelet tells the container, which has no file with its namespace here.
func environment(container corev1.Container) (env []string) {
	GinkgoHelper()
	fields := map[string]string{"metadata.name": "manager-0", "metadata.namespace": cluster.OperatorNamespace, "status.podIP": "127.0.0.1"}
	for _, variable := range container.Env {
		if from := variable.ValueFrom; from != nil {
			Expect(fields).To(HaveKey(from.FieldRef.FieldPath))
			env = append(env, variable.Name+"="+fields[from.FieldRef.FieldPath])
		} else {
			env = append(env, variable.Name+"="+variable.Value)
		}
	}
	return env
}

// scraper returns the token of a new ServiceAccount, bound to the ClusterRole role if there is one.
func scraper(ctx context.Context, name, role string) string {
	GinkgoHelper()
	c.Kubectl(ctx, "create", "serviceaccount", name)
	if role != "" {
		c.Kubectl(ctx, "create", "clusterrolebinding", name, "--clusterrole="+role, "--serviceaccount=default:"+name)
	}
	return suite.Must(c.TokenFor(ctx, "default", name))
}

// The manager does its whole work once, with the permissions of config/rbac and the arguments of
// config/manager. What it asked for is then compared with what it may ask for, both ways.
var _ = Describe("The manager as it is deployed", Ordered, func() {
	const static = "10.110.0.5"   // of the range "served"
	const elsewhere = "10.96.0.9" // of the default range
	var (
		token      string // of a reader of metrics
		scraped    framework.Metrics
		used       []string // in other clusters
		namespaces *gate    // of c
	)

	BeforeAll(func(ctx SpecContext) { namespaces = asDeployed(ctx, c, defaults) })

	It("takes ranges into its care", func(ctx SpecContext) {
		c.CreateServiceCIDR(ctx, "served", "10.110.0.0/24")
		c.WaitLookedAfter(ctx, "kubernetes", "served")
		Eventually(c.Condition).WithArguments(ctx, "served", cluster.NearlyFull).Should(HaveField("Status", metav1.ConditionFalse))
	})

	It("labels addresses with their band", func(ctx SpecContext) {
		c.HoldAddress(ctx, "fixed", static)
		Eventually(c.IPAddress).WithArguments(ctx, static).Should(HaveField("Labels", HaveKeyWithValue(cluster.BandLabel, "static")))
	})

	It("guards an IPAddress whose Service lives", func(ctx SpecContext) {
		err := c.Networking().IPAddresses().Delete(ctx, static, metav1.DeleteOptions{})
		Expect(err).To(MatchError(And(ContainSubstring("denied the request"), ContainSubstring("default/fixed"))))
	})

	// Ranges, reservations, cool-down, and an additional address: all that a policy may ask for.
	It("follows a policy", func(ctx SpecContext) {
		c.CreateServiceCIDR(ctx, "tenant", "10.118.0.0/24")
		c.WaitLookedAfter(ctx, "tenant")
		Expect(c.TryPolicy(ctx, "tenant", `{serviceCIDRs: [tenant], serviceSelector: {matchLabels: {tenant: a}}, exclusive: true,
			onFull: Fail, coolDown: 1h, additionalAddresses: true, reservations: [{name: dns, address: 10.118.0.10}]}`)).To(Succeed())
		Eventually(c.IPAddress).WithArguments(ctx, "10.118.0.10").ShouldNot(BeNil(), "the reservation")
		c.WaitProgrammed(ctx, "tenant")
		Eventually(func() string {
			service := c.CreateService(ctx, "steered", framework.WithLabel("tenant", "a"))
			defer c.DeleteServices(ctx, service)
			return service.Spec.ClusterIP
		}).WithPolling(time.Second).Should(HavePrefix("10.118.0."))
		c.ExpectRefused(ctx, "tenant", cluster.Asking(cluster.Namespace, "stranger", "10.118.0.77"))
		c.WaitCondition(ctx, "tenant", cluster.Enforced, "True")
		Expect(c.TryPolicyChange(ctx, "tenant", "{enforcement: Webhook}")).To(Succeed())
		Eventually(c.PolicyCondition).WithArguments(ctx, "tenant", cluster.Enforced).Should(BeZero())
		Eventually(func() string {
			return c.Kubectl(ctx, "get", "validatingadmissionpolicybindings,configmaps", "-n", cluster.OperatorNamespace, "-o", "name")
		}).ShouldNot(ContainSubstring("clusterip-operator-exclusive\n"))
	})

	// Helm, kubectl apply -f and restored backups create both at once, before the watch has told of
	// the namespace: the manager then reads it.
	It("steers Services that come with their namespaces", func(ctx SpecContext) {
		namespaces.held(func() {
			c.CreateNamespace(ctx, "young", nil)
			service := c.Create(ctx, framework.NewService("young", "web", framework.WithLabel("tenant", "a")))
			Expect(service.Spec.ClusterIP).To(HavePrefix("10.118.0."))
			c.DeleteServices(ctx, service)
		})
		Expect(witness.Used(cluster.OperatorAccount, "")).To(ContainElement("get namespaces"))
		Expect(witness.Refused(cluster.OperatorAccount)).To(BeEmpty())
	})

	It("gives additional addresses", func(ctx SpecContext) {
		more := c.CreateService(ctx, "more", framework.WithLabel("tenant", "a"))
		c.Kubectl(ctx, "annotate", "service", "more", cluster.AdditionalFrom+"=tenant")
		Eventually(c.Kept).WithArguments(ctx, cluster.Additional).Should(ConsistOf(HavePrefix("10.118.0.")))
		c.DeleteServices(ctx, more)
		c.DeletePolicies(ctx, "tenant")
		c.DeleteServiceCIDRs(ctx, "tenant") // which takes its time, and meanwhile there is more to do
	})

	// The event of the second time is a change of the first one. Each time the loss has to last
	// before the manager believes in it.
	It("restores a lost IPAddress, and reports it each time", func(ctx SpecContext) {
		reported := func() cluster.Events { return c.Events(ctx).Ours().OnService("fixed").For("ClusterIPNotAllocated") }
		for n := range 2 {
			deleteAsController(ctx, c, static)
			Eventually(c.Owner).WithArguments(ctx, static).Should(Equal("default/fixed"))
			Expect(c.IPAddress(ctx, static).ManagedFields).To(ContainElement(HaveField("Manager", ours)))
			Eventually(func() int { return reported().Count() }).Should(Equal(n + 1))
		}
		Expect(reported()).To(ConsistOf(HaveField("Series", Not(BeNil()))))
	})

	It("mends the labels of an IPAddress", func(ctx SpecContext) {
		c.PatchIPAddress(ctx, static, `{"metadata":{"labels":{"ipaddress.kubernetes.io/ip-family":null}}}`)
		Eventually(c.IPAddress).WithArguments(ctx, static).Should(HaveField("Labels", HaveKeyWithValue("ipaddress.kubernetes.io/ip-family", "IPv4")))
	})

	// The API server may delete it first, and stops there. The manager is frozen, so that it does not
	// restore the address in between.
	It("replaces an IPAddress that names another Service", func(ctx SpecContext) {
		c.CreateService(ctx, "other", framework.WithClusterIPs(elsewhere)) // left to itself it may get an address of "served", and hold it too
		c.Paused(func() {
			deleteAsController(ctx, c, static)
			c.CreateIPAddress(ctx, framework.NewIPAddress(static, cluster.Namespace, "other"))
		})
		Eventually(c.Owner).WithArguments(ctx, static).Should(Equal("default/fixed"))
	})

	It("cordons a range", func(ctx SpecContext) {
		suite.Must(c.Networking().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("cordoned", "10.119.0.0/28"), metav1.CreateOptions{}))
		c.Program(ctx, "cordoned", "{serviceCIDRs: [cordoned], allocation: Cordoned}")
	})

	It("holds a range that is deleted too early", func(ctx SpecContext) {
		c.DeleteServiceCIDRs(ctx, "served")
		Eventually(c.Warning(ctx, "served", cluster.DeletionBlocked)).Should(ContainSubstring("Service default/fixed"))
		Eventually(func() cluster.Events {
			return c.Events(ctx).Ours().OnServiceCIDR("served").For("ServiceCIDRDeletionBlocked")
		}).Should(HaveLen(1))
	})

	It("shows its metrics to readers of metrics alone", func(ctx SpecContext) {
		_, err := c.Operator.MetricsAs(ctx, "")
		Expect(err).To(MatchError(ContainSubstring("answered 401")))
		_, err = c.Operator.MetricsAs(ctx, "somebody.who.lies")
		Expect(err).To(MatchError(ContainSubstring("Authentication failed")))
		_, err = c.Operator.MetricsAs(ctx, scraper(ctx, "passer-by", ""))
		Expect(err).To(MatchError(ContainSubstring("answered 403")))
		token = scraper(ctx, "prometheus", "clusterip-operator-metrics-reader")
		// The API server watches for the binding, and the manager remembers a refusal for half a minute.
		Eventually(func() (err error) {
			scraped, err = c.Operator.MetricsAs(ctx, token)
			return err
		}).WithPolling(time.Second).Should(Succeed())
		blocked, _ := scraped.Value("clusterip_operator_blocked_deletions", "servicecidr", "served")
		Expect(blocked).To(BeEquivalentTo(1))
	})

	It("tells of a webhook configuration that is gone, and of its return", func(ctx SpecContext) {
		configured := func() (n float64) {
			GinkgoHelper()
			metrics := suite.Must(c.Operator.MetricsAs(ctx, token))
			n, _ = metrics.Value("clusterip_operator_webhooks_configured", "kind", "ValidatingWebhookConfiguration")
			return n
		}
		Expect(configured()).To(BeEquivalentTo(3))
		c.Kubectl(ctx, "delete", "validatingwebhookconfiguration", cluster.WebhookConfiguration)
		Eventually(configured).Should(BeZero())
		c.Kustomize(ctx, defaults)
		Eventually(configured).Should(BeEquivalentTo(3))
	})

	// A rule about a metric that does not exist is silent for ever. This scrapes while all metrics
	// that are served only at times are there.
	It("serves each metric, with each label, on which config/prometheus has an alert", func(ctx SpecContext) {
		for _, alert := range alerts(ctx) {
			Expect(alert.metrics()).NotTo(BeEmpty(), alert.Alert)
			for _, name := range alert.metrics() {
				if !strings.HasPrefix(name, "clusterip_operator_") {
					continue // the agent's, or the API server's
				}
				_, found := scraped.Value(name)
				Expect(found).To(BeTrue(), "%s looks at %s, which nobody serves", alert.Alert, name)
				wanted := alert.labels()
				if name == "clusterip_operator_cordoned" { // it takes ranges out, by these
					wanted = []string{"servicecidr", "cidr"}
				}
				for _, label := range wanted {
					Expect(labelsOf(scraped, name)).To(ContainElement(label), "%s, %s", alert.Alert, name)
				}
			}
		}
	})

	// No range goes within ten seconds of the request. One that stays cordoned would refuse Services
	// of other specs, whenever the API server takes their addresses from it.
	It("lets a range go without Services, or with its last one", Label("all"), func(ctx SpecContext) {
		c.DeletePolicies(ctx, "cordoned")
		c.DeleteServiceCIDRs(ctx, "cordoned")
		c.DeleteServices(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "fixed"}})
		Eventually(c.Remaining).WithArguments(ctx, "tenant", "cordoned", "served").Should(BeEmpty())
	})

	It("replaces a certificate without a key", func(ctx SpecContext) {
		secrets := c.Client().CoreV1().Secrets(cluster.OperatorNamespace)
		c.Kubectl(ctx, "patch", "secret", cluster.CertificateSecret, "-n", cluster.OperatorNamespace, "--type=merge", "-p", `{"data":{"tls.key":null}}`)
		Eventually(secrets.Get).WithArguments(ctx, cluster.CertificateSecret, metav1.GetOptions{}).Should(HaveField("Data", HaveKey("tls.key")))
	})

	It("gives its Lease back at the end", func(ctx SpecContext) {
		Expect(c.Operator.Stop()).To(Succeed())
		Expect(c.Operator.ExitCode()).To(BeZero())
		lease := suite.Must(c.Client().CoordinationV1().Leases(cluster.OperatorNamespace).Get(ctx, "clusterip-operator", metav1.GetOptions{}))
		Expect(*lease.Spec.HolderIdentity).To(BeEmpty())
	})

	// There the manager creates the default ServiceCIDR, and writes and deletes the Services'
	// IPAddresses. An API server that cannot stream the state into a watch, as 1.31, is listed.
	It("does the API server's part on Kubernetes 1.32", Label("all", "1.32"), func(ctx SpecContext) {
		component := overlay("", folder+"/components/service-cluster-ip-range")
		bitmap, log := audited(ctx, framework.Options{
			Version: framework.V132, ServiceClusterIPRange: "10.96.0.0/16", FeatureGates: map[string]bool{"WatchList": false},
		})
		bitmap.Kustomize(ctx, component)
		asDeployed(ctx, bitmap, component)
		bitmap.WaitLookedAfter(ctx, "kubernetes")
		daily := bitmap.CreateService(ctx, "daily")
		Eventually(bitmap.Owner).WithArguments(ctx, daily.Spec.ClusterIP).Should(Equal("default/daily"))
		bitmap.DeleteServices(ctx, daily)
		Eventually(bitmap.IPAddress).WithArguments(ctx, daily.Spec.ClusterIP).Should(BeNil())
		Expect(bitmap.Operator.Stop()).To(Succeed())
		Expect(log.Refused(cluster.OperatorAccount)).To(BeEmpty())
		used = append(used, log.Used(cluster.OperatorAccount, "")...)
	})

	// Informers that cannot stream begin with a list: on 1.33, or where the feature is switched off.
	It("lists what an API server cannot stream", Label("all"), func(ctx SpecContext) {
		listed, log := audited(ctx, framework.Options{FeatureGates: map[string]bool{"WatchList": false}})
		listed.Kustomize(ctx, defaults)
		asDeployed(ctx, listed, defaults)
		listed.WaitLookedAfter(ctx, "kubernetes")
		Expect(listed.Operator.Stop()).To(Succeed())
		Expect(log.Refused(cluster.OperatorAccount)).To(BeEmpty())
		used = append(used, log.Used(cluster.OperatorAccount, "")...)
	})

	It("was refused nothing", func() {
		Expect(witness.Refused(cluster.OperatorAccount)).To(BeEmpty())
		log := suite.Must(os.ReadFile(c.Operator.LogFile()))
		Expect(strings.ToLower(string(log))).NotTo(ContainSubstring("forbidden"))
	})

	It("has used what it may do, and may do no more", Label("all"), func(ctx SpecContext) {
		granted := manifests.Granted(manifests.Render(ctx, defaults), cluster.OperatorNamespace, cluster.OperatorAccount)
		all := append(used, witness.Used(cluster.OperatorAccount, "")...)
		expectExact(append(manifests.Beyond(all, basicUser), inPassing...), granted)
	})
})

// inPassing are permissions that the API server checks while it serves another request: an apply
// that creates an object, and the binding of a ValidatingAdmissionPolicy to an object.
var inPassing = []string{
	"create configmaps", "create validatingadmissionpolicybindings.admissionregistration.k8s.io", "get configmaps",
}

// basicUser is what system:basic-user lets each account do: ask who it is and what it may do.
var basicUser = []string{"create selfsubjectaccessreviews.authorization.k8s.io", "create selfsubjectreviews.authentication.k8s.io"}

// labelsOf returns the names of the labels that samples of a metric have.
func labelsOf(metrics framework.Metrics, name string) (all []string) {
	for _, sample := range metrics {
		if string(sample.Metric[model.MetricNameLabel]) != name {
			continue
		}
		for label := range sample.Metric {
			if !slices.Contains(all, string(label)) {
				all = append(all, string(label))
			}
		}
	}
	return all
}
