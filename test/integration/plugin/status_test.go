package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/healthz"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// told is what `status -o json` says.
type told struct {
	Well     bool
	Webhooks struct {
		Configured int
		Reached    *struct {
			Replica, Version string
			Since            time.Time
		}
		Unknown string
	}
	Agents []struct {
		Node, Mode, Problem, Unknown string
		Ready, Told                  bool
		LastSync                     *time.Time
	}
}

var _ = Describe("status", Ordered, func() {
	admin := func(ctx context.Context, args ...string) framework.PluginResult {
		GinkgoHelper()
		return suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Args: append([]string{"status"}, args...)}))
	}
	read := func(result framework.PluginResult) (t told) {
		GinkgoHelper()
		Expect(json.Unmarshal([]byte(result.Stdout), &t)).To(Succeed(), result.String())
		return t
	}

	It("says who of the manager there is, and who leads", func(ctx SpecContext) {
		Expect(run(ctx, "status").Stdout).To(MatchRegexp(`manager +false +there is no Deployment`)) // the manager is a process of this machine
		Expect(run(ctx, "status", "--wait=1s").Stdout).To(MatchRegexp(`leader +true`), "what was seen last, not what the end of the time cut short")
		c.Apply(ctx, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: status, namespace: clusterip-operator-system,
			labels: {app.kubernetes.io/name: clusterip-operator, app.kubernetes.io/component: manager}},
			spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: manager, image: "manager:v1"}]}}}}`)
		DeferCleanup(func(ctx SpecContext) {
			c.Kubectl(ctx, "delete", "deployment", "status", "-n", cluster.OperatorNamespace)
		})
		result := run(ctx, "status") // no kubelet runs its pods
		Expect(result.ExitCode).To(Equal(1), result.String())
		Expect(result.Stdout).To(cluster.ContainAll("0 of 2 replicas are ready, image manager:v1", "trusts its CA until", "ServiceCIDRs, "))
		Expect(result.Stdout).To(MatchRegexp(`leader +true`))
		Expect(run(ctx, "status", "--operator-namespace=default").Stdout).To(ContainSubstring("not installed in this namespace"))
		refuses(ctx, `--output "name" is none of wide, json, yaml`, "status", "-o", "name")
	})

	It("tries whether the API server reaches the webhooks, and leaves nothing behind", func(ctx SpecContext) {
		host := suite.Must(os.Hostname())
		before := c.Kubectl(ctx, "get", "services,ipaddresses", "-A", "-o", "name")
		reached := read(admin(ctx, "-o", "json")).Webhooks
		Expect(reached.Reached).To(HaveField("Replica", strings.ToLower(host)))
		Expect(reached.Reached.Version).NotTo(BeEmpty())
		Expect(reached.Reached.Since).To(BeTemporally("~", time.Now(), 10*time.Minute))
		Expect(c.Kubectl(ctx, "get", "services,ipaddresses", "-A", "-o", "name")).To(Equal(before))
		Expect(read(run(ctx, "status", "-o", "json")).Webhooks.Unknown).To(Equal("the user may not create services in namespace default"))

		c.Balancer.Inflict(framework.Trouble{Refuse: true})
		c.Balancer.Cut()
		DeferCleanup(func() { c.Balancer.Inflict(framework.Trouble{}) })
		Expect(admin(ctx).Stdout).To(MatchRegexp(`webhooks +false +6 are configured; the API server does not reach them`))
		Expect(run(ctx, "status").Stdout).To(MatchRegexp(`webhooks +true +6 are configured; whether the API server reaches them is not known`))
	})

	It("finds webhook configurations that were deleted or edited, as check does", func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { // an apply would be in conflict with the edit, as on AKS
			c.Kubectl(ctx, "delete", "mutatingwebhookconfiguration", cluster.WebhookConfiguration)
			c.AddWebhooks(ctx)
		})
		Expect(run(ctx, "check").Stdout).NotTo(ContainSubstring("Webhooks"))
		c.Kubectl(ctx, "patch", "mutatingwebhookconfiguration", cluster.WebhookConfiguration, "--type=json", "-p",
			`[{"op": "add", "path": "/webhooks/0/namespaceSelector/matchExpressions/-", "value": {"key": "control-plane", "operator": "NotIn", "values": ["true"]}}]`)
		c.Kubectl(ctx, "delete", "validatingwebhookconfiguration", cluster.WebhookConfiguration)
		for _, command := range []string{"status", "check"} {
			result := suite.Exits(1, run(ctx, command))
			Expect(result.Stdout).To(cluster.ContainAll("WebhooksMissing", "validatingwebhookconfiguration/clusterip-operator", "kubectl apply --server-side -k config/default",
				"WebhooksChanged", "control-plane notin (true)", "admissions.enforcer/disabled"))
		}
		Expect(run(ctx, "status").Stdout).To(MatchRegexp(`webhooks +false +validatingwebhookconfiguration/clusterip-operator: WebhooksMissing`))
	})

	It("says what it may not read, and goes on", func(ctx SpecContext) {
		c.Kubectl(ctx, "create", "clusterrole", "outsider", "--verb=get,list,watch", "--resource=servicecidrs.networking.k8s.io,ipaddresses.networking.k8s.io,servicecidrpolicies.clusterip-operator.io")
		for _, role := range []string{"system:aggregate-to-view", "outsider"} {
			c.Kubectl(ctx, "create", "clusterrolebinding", "outsider-"+role[:6], "--clusterrole="+role, "--user=outsider")
		}
		for _, resource := range []string{"services", "servicecidrpolicies.clusterip-operator.io"} {
			awaitList(ctx, "outsider", resource)
		}
		outsider := cluster.KubeconfigOf(suite.Must(c.ConfigForUser("outsider")))
		result := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Race: true, Kubeconfig: outsider, Args: []string{"check"}}))
		Expect(result.ExitCode).To(BeNumerically("<", 2), result.String())
		Expect(result.Stderr).To(ContainSubstring("Not looked at: the user may not get MutatingWebhookConfiguration clusterip-operator"))
	})

	It("asks the agents through the API server", func(ctx SpecContext) {
		Expect(run(ctx, "status").Stdout).To(MatchRegexp(`agents +true +there are none`))
		port := answering(ctx)
		c.Apply(ctx, fmt.Sprintf(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agents, namespace: kube-system,
				labels: {app.kubernetes.io/name: clusterip-operator, app.kubernetes.io/component: proxyagent}},
				spec: {selector: {matchLabels: {agent: a}}, template: {metadata: {labels: {agent: a}}, spec: {
					volumes: [{name: config, configMap: {name: agents}}],
					containers: [{name: agent, image: "agent:v1", readinessProbe: {httpGet: {path: /healthz, port: %d}}}]}}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: agents, namespace: kube-system}, data: {config.yaml: "mode: auto"}}`, port))
		Expect(admin(ctx).Stdout).To(MatchRegexp(`agents +false +their DaemonSet has changed, and kube-controller-manager has not acted on it yet`))
		c.Kubectl(ctx, "patch", "daemonset", "agents", "-n", "kube-system", "--subresource=status", "--type=merge", "-p", `{"status":{"observedGeneration":1}}`)
		DeferCleanup(func(ctx SpecContext) {
			c.Kubectl(ctx, "delete", "daemonset/agents", "configmap/agents", "-n", "kube-system")
			c.Kubectl(ctx, "delete", "pod", "-l", "agent=a", "-n", "kube-system", "--grace-period=0", "--force")
		})
		here := suite.Must(network.MachineAddr())
		runsAgent(ctx, "node-a", here.String(), true)
		runsAgent(ctx, "node-b", "192.0.2.250", false) // no agent is there

		agents := read(admin(ctx, "-o", "json")).Agents
		Expect(agents).To(HaveLen(2))
		Expect(agents[0]).To(And(HaveField("Node", "node-a"), HaveField("Mode", "nftables"), HaveField("Told", true), HaveField("Problem", "")))
		Expect(*agents[0].LastSync).To(BeTemporally("~", time.Now(), time.Minute))
		Expect(agents[1]).To(And(HaveField("Node", "node-b"), HaveField("Mode", "auto"), HaveField("Told", false), HaveField("Problem", "its pod is not ready")))
		Expect(admin(ctx, "-o", "wide").Stdout).To(And(MatchRegexp(`agents +false +1 of 0 nodes are ready, 0 have this version; auto \(1\), nftables \(1\); image agent:v1; last sync .* node-b: its pod is not ready`),
			MatchRegexp(`node-a +nftables +true +\d+s +agent:v1 +<none>`), MatchRegexp(`node-b +auto +false +<unknown> +agent:v1 +its pod is not ready`)))
		Expect(run(ctx, "status", "-o", "wide").Stdout).To(And(MatchRegexp(`nothing is known about the last sync of 2: the user may not get pods/proxy in namespace kube-system`),
			MatchRegexp(`node-a +auto +true +<unknown> +agent:v1 +the user may not get pods/proxy`)))
	})
})

// answering serves what a well agent answers, and returns the port.
func answering(ctx context.Context) int {
	GinkgoHelper()
	agent := healthz.New([]model.Family{model.IPv4, model.IPv6}, "nftables", func(string, int) {})
	agent.Updated(model.IPv4)
	agent.Updated(model.IPv6)
	l := suite.Must((&net.ListenConfig{}).Listen(ctx, "tcp", ":0"))
	server := httptest.NewUnstartedServer(agent.Handler())
	Expect(server.Listener.Close()).To(Succeed())
	server.Listener = l
	server.Start()
	DeferCleanup(server.Close)
	return l.Addr().(*net.TCPAddr).Port
}

// runsAgent writes what a kubelet would that runs an agent.
func runsAgent(ctx context.Context, node, address string, ready bool) {
	GinkgoHelper()
	pods := c.Client().CoreV1().Pods("kube-system")
	pod := suite.Must(pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent-" + node, Labels: map[string]string{"agent": "a"}},
		Spec:       corev1.PodSpec{NodeName: node, HostNetwork: true, Containers: []corev1.Container{{Name: "agent", Image: "agent:v1"}}},
	}, metav1.CreateOptions{}))
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, HostIP: address, HostIPs: []corev1.HostIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}},
	}
	suite.Must(pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
}
