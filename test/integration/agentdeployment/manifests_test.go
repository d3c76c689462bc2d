package agentdeployment_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/config"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

var _ = Describe("The kustomizations of the agent", Ordered, func() {
	variants := []string{base, beside, replace, uninstall}

	It("are taken by the API server with all their fields", func(ctx SpecContext) {
		for _, path := range variants {
			c.Kubectl(ctx, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", path)
		}
	})

	// An admin switches variants without deleting anything, so each must replace the one before.
	It("take the place of one another", Label("long"), func(ctx SpecContext) {
		fresh := map[string]string{}
		spec := func() string {
			return c.Kubectl(ctx, "-n", namespace, "get", "daemonset", account, "-o", "jsonpath={.spec.template}")
		}
		for _, path := range variants {
			c.Kubectl(ctx, "-n", namespace, "delete", "daemonset", account)
			c.Kustomize(ctx, path)
			fresh[path] = spec()
		}
		for _, path := range []string{beside, replace, uninstall, replace, base} {
			c.Kustomize(ctx, path)
			Expect(spec()).To(Equal(fresh[path]), path)
		}
	})

	It("have a configuration that the agent takes without a warning, and that fits the pod", func(ctx SpecContext) {
		for _, path := range []string{base, beside} {
			m := manifests.Render(ctx, path)
			c, warnings, err := config.Parse([]byte(configMap(m, "clusterip-operator-proxyagent-config")["config.yaml"]), "")
			Expect(err).NotTo(HaveOccurred())
			Expect(warnings).To(BeEmpty())
			Expect(c.Health.BindAddress).To(HaveSuffix(":" + strconv.Itoa(agentOf(m).ReadinessProbe.HTTPGet.Port.IntValue())))
			Expect(agentOf(m).LivenessProbe).To(BeNil(), "an agent that cannot program one family must go on with the other")
			Expect(agentOf(m).StartupProbe).To(BeNil())
		}
	})

	// Prometheus drops a target that it does not reach, or none of whose rules match, without a word.
	DescribeTable("are found by Prometheus where they serve their metrics", func(ctx SpecContext, path string) {
		m := manifests.Render(ctx, with("proxyagent-prometheus", path))
		pod, port := podOf(m), podOf(m).Annotations["clusterip-operator.io/metrics-port"]
		if file := configMap(m, "clusterip-operator-proxyagent-config")["config.yaml"]; file != "" { // else kube-proxy's, in the cluster
			c, _, err := config.Parse([]byte(file), "")
			Expect(err).NotTo(HaveOccurred())
			Expect(c.Metrics.BindAddress).To(HaveSuffix(":" + port))
		}
		Expect(agentOf(m).Args).To(ContainElement("--metrics-bind-address=0.0.0.0:$(METRICS_PORT)"))
		Expect(agentOf(m).Env).To(ContainElement(And(HaveField("Name", "METRICS_PORT"),
			HaveField("ValueFrom.FieldRef.FieldPath", "metadata.annotations['clusterip-operator.io/metrics-port']"))))

		monitor := podMonitorOf(m)
		Expect(monitor.Namespace).To(Equal(namespace))
		Expect(labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels).Matches(labels.Set(pod.Labels))).To(BeTrue())
		Expect(monitor.target("192.0.2.7;" + port)).To(Equal("192.0.2.7:" + port))
		Expect(monitor.target("2001:db8::7;" + port)).To(Equal("[2001:db8::7]:" + port))
	},
		Entry("alone", base),
		Entry("beside kube-proxy", beside),
		Entry("in the place of kube-proxy", replace),
	)

	It("keep out of kube-proxy's way beside it", func(ctx SpecContext) {
		c, _, err := config.Parse([]byte(configMap(manifests.Render(ctx, beside), "clusterip-operator-proxyagent-config")["config.yaml"]), "")
		Expect(err).NotTo(HaveOccurred())
		Expect(c.ServiceProxyName).To(Equal("clusterip-operator"))
		Expect(c.DropsUnallocated()).To(BeFalse())
		Expect([]string{c.Health.BindAddress, c.Metrics.BindAddress}).NotTo(ContainElement(Or(HaveSuffix(":10256"), HaveSuffix(":10249"))))
		Expect(c.Conntrack.MaxPerCore).To(BeZero())
		Expect(c.Conntrack.TCPEstablishedTimeout.Duration + c.Conntrack.TCPCloseWaitTimeout.Duration).To(BeZero())
	})

	// kubeadm's ConfigMap kube-proxy has two keys, and config.conf names the other by this path.
	It("read kube-proxy's ConfigMap where kube-proxy has it", func(ctx SpecContext) {
		m := manifests.Render(ctx, replace)
		Expect(manifests.Every[corev1.ConfigMap](m, "ConfigMap")).To(BeEmpty())
		Expect(agentOf(m).EnvFrom).To(BeEmpty())
		Expect(agentOf(m).Args).To(ContainElement("--config=/var/lib/kube-proxy/config.conf"))
		Expect(agentOf(m).VolumeMounts).To(ContainElement(corev1.VolumeMount{Name: "config", MountPath: "/var/lib/kube-proxy", ReadOnly: true}))
		Expect(podOf(m).Spec.Volumes).To(ContainElement(
			HaveField("VolumeSource.ConfigMap", HaveField("Name", "kube-proxy"))))
		c, _, err := config.Load("../../../proxyagent/config/testdata/kubeadm.yaml", "")
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Client.Kubeconfig).To(Equal("/var/lib/kube-proxy/kubeconfig.conf"))
	})

	// These are the lines that an admin is told to fill in.
	It("let the address of the API server be named", func(ctx SpecContext) {
		Expect(configMap(manifests.Render(ctx, base), "clusterip-operator-proxyagent-apiserver")).To(BeEmpty())
		text := suite.Must(os.ReadFile(filepath.Join(base, "apiserver.env")))
		filled := regexp.MustCompile(`(?m)^# (KUBERNETES_[A-Z_]+=)`).ReplaceAllString(string(text), "$1")
		m := manifests.Render(ctx, changed("apiserver.env", filled))
		Expect(configMap(m, "clusterip-operator-proxyagent-apiserver")).To(Equal(map[string]string{
			"KUBERNETES_SERVICE_HOST": "192.0.2.10", "KUBERNETES_SERVICE_PORT": "6443",
		}))
	})

	// Comments show settings to admins who will remove the #.
	It("show settings in comments that exist", func() {
		for _, path := range []string{base, beside} {
			text := suite.Must(os.ReadFile(filepath.Join(path, "config.yaml")))
			shown := regexp.MustCompile(`(?m)^# (( *)[a-zA-Z]+:( \S+| \[.*\])?$)`).ReplaceAllString(string(text), "$1")
			Expect(shown).NotTo(Equal(string(text)))
			var fields map[string]any
			Expect(yaml.UnmarshalStrict([]byte(shown), &fields)).To(Succeed(), shown)
			_, _, err := config.Parse([]byte(shown), "")
			Expect(err).NotTo(HaveOccurred(), shown)
		}
	})
})

// podMonitor is what of a PodMonitor says where to scrape.
type podMonitor struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector            metav1.LabelSelector
		PodMetricsEndpoints []struct {
			Relabelings []struct{ Regex, Replacement, TargetLabel string }
		}
	}
}

func podMonitorOf(m manifests.Manifests) (p podMonitor) {
	GinkgoHelper()
	text := suite.Must(json.Marshal(manifests.Only[map[string]any](m, "PodMonitor")))
	Expect(json.Unmarshal(text, &p)).To(Succeed())
	return p
}

// target is the address that the rules make of a pod's address and port.
func (p podMonitor) target(source string) (address string) {
	for _, rule := range p.Spec.PodMetricsEndpoints[0].Relabelings {
		whole := regexp.MustCompile("^(?:" + rule.Regex + ")$")
		if match := whole.FindStringSubmatchIndex(source); rule.TargetLabel == "__address__" && match != nil {
			address = string(whole.ExpandString(nil, rule.Replacement, source, match))
		}
	}
	return address
}

// with is a variant with a component on top.
func with(component, path string) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	content := "resources: [%s]\ncomponents: [%s]\n"
	for _, path := range []string{path, folder + "/components/" + component} {
		absolute := suite.Must(filepath.Abs(path))
		relative := suite.Must(filepath.Rel(dir, absolute))
		content = strings.Replace(content, "%s", relative, 1)
	}
	Expect(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600)).To(Succeed())
	return dir
}

// changed copies config/proxyagent with another content of one file.
func changed(name, content string) string {
	GinkgoHelper()
	dir := filepath.Join(GinkgoT().TempDir(), "proxyagent")
	Expect(os.CopyFS(dir, os.DirFS(base))).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	return dir
}
