package plugin_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// unpacked are the files of an archive by their names.
func unpacked(file string) map[string]string {
	GinkgoHelper()
	f := suite.Must(os.Open(file))
	defer func() { _ = f.Close() }()
	zip := suite.Must(gzip.NewReader(f))
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(head.Mode).To(BeEquivalentTo(0o600))
		name, inside := strings.CutPrefix(head.Name, "clusterip-bundle/")
		Expect(inside).To(BeTrue(), head.Name)
		files[name] = string(suite.Must(io.ReadAll(r)))
	}
}

// containing are the files that have one of the words in them, with what is around it.
func containing(files map[string]string, words ...string) (found []string) {
	for name, text := range files {
		for _, word := range words {
			if at := strings.Index(name+"\n"+text, word); at >= 0 {
				found = append(found, fmt.Sprintf("%s: %.60q", name, (name + "\n" + text)[max(0, at-20):]))
			}
		}
	}
	return found
}

// bundled makes a bundle as one user, and returns its files.
func bundled(ctx context.Context, kubeconfig string, args ...string) (map[string]string, framework.PluginResult) {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "bundle.tar.gz")
	result := suite.Exits(0, suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Kubeconfig: kubeconfig, Race: true, Args: append([]string{"bundle", "-o", file}, args...)})))
	Expect(result.Stdout).To(Equal(file + "\n"))
	return unpacked(file), result
}

var _ = Describe("bundle", Ordered, func() {
	// Each is a name that a tenant or an admin has chosen, and stands somewhere in what is gathered.
	secret := []string{"acquisition", "projectx-backend", "projectx-frontend", "machine-berlin", "berlin-range", "berlin-policy", "berlin-spare", "example.org/cost-center", "cc-4711",
		"lb-4711", "projectx.example.org", "registry.example.org", "gone-already", "of-yesterday"}
	// Each is never in a bundle, redacted or not.
	never := []string{"last-applied-configuration", `managedFields":`, "BEGIN CERTIFICATE", "caBundle", "projectx-selector", "projectx-port", "projectx-note", "s3cr3t", "czNjcjN0"}
	k := &kubelet{
		log: "{\"msg\":\"mended\",\"Service\":{\"name\":\"projectx-backend\",\"namespace\":\"acquisition\"},\"error\":\"a\\tacquisition/gone-already \\u003cprojectx-frontend\\u003e fieldSelector=metadata.name%3Dprojectx-backend\"}\n" +
			"\x1b[31mprojectx-backend.acquisition.svc on machine-berlin has 10.96.0.77, acquisition/of-yesterday had\x1b[0m\n",
		dump: "Served with nftables, because the configuration says so.\nacquisition/projectx-backend: 10.96.0.77\n",
	}

	BeforeAll(func(ctx SpecContext) {
		k.start(ctx, "machine-berlin")
		// The range is no other spec's. With one of theirs, in another order, the policy had a part of it
		// alone, or the range was still being deleted.
		c.CreateNamespace(ctx, "acquisition", map[string]string{"example.org/cost-center": "cc-4711"})
		c.Apply(ctx, `{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: berlin-range}, spec: {cidrs: [10.111.0.0/26, "fd00:10:111::/122"]}}`)
		c.Program(ctx, "berlin-policy", `{serviceCIDRs: [berlin-range], namespaceSelector: {matchLabels: {example.org/cost-center: cc-4711}}, reservations: [{name: berlin-spare, address: 10.111.0.20, for: acquisition/gone-already}]}`)
		c.Apply(ctx, `{apiVersion: v1, kind: Service, metadata: {name: projectx-backend, namespace: acquisition, annotations: {note: projectx-note, external-dns.alpha.kubernetes.io/hostname: projectx.example.org}, labels: {app: projectx-selector}},
			spec: {type: LoadBalancer, ipFamilyPolicy: PreferDualStack, selector: {app: projectx-selector}, ports: [{name: projectx-port, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: projectx-frontend, namespace: acquisition}, spec: {ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: projectx-port, namespace: clusterip-operator-system}, stringData: {password: s3cr3t}}
---
{apiVersion: v1, kind: Event, metadata: {name: e1, namespace: acquisition}, involvedObject: {kind: Service, namespace: acquisition, name: gone-already}, reason: ClusterIPNotAllocated, type: Warning,
			message: "Service acquisition/gone-already and projectx-backend", reportingComponent: clusterip-operator-ipaddress, reportingInstance: x, firstTimestamp: "2026-11-28T00:00:00Z", lastTimestamp: "2026-11-28T00:00:00Z"}
---
{apiVersion: v1, kind: Event, metadata: {name: e2, namespace: acquisition}, involvedObject: {kind: Pod, namespace: acquisition, name: pod-of-a-tenant}, reason: Killing, type: Normal, message: x, reportingComponent: kubelet, reportingInstance: x}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: bundled, namespace: kube-system, labels: {app.kubernetes.io/name: clusterip-operator, app.kubernetes.io/component: proxyagent}},
			spec: {selector: {matchLabels: {agent: a}}, template: {metadata: {labels: {agent: a}}, spec: {containers: [{name: agent, image: "registry.example.org/agent:v1"}]}}}}`)
		suite.Must(c.Client().CoreV1().Services("acquisition").Patch(ctx, "projectx-backend", types.MergePatchType,
			[]byte(`{"status": {"loadBalancer": {"ingress": [{"hostname": "lb-4711.projectx.example.org"}]}}}`), metav1.PatchOptions{}, "status"))
		runsAgent(ctx, "machine-berlin", "192.0.2.9", false)
		DeferCleanup(func(ctx SpecContext) {
			c.Kubectl(ctx, "delete", "daemonset/bundled", "pod/agent-machine-berlin", "-n", "kube-system", "--grace-period=0", "--force")
			c.Kubectl(ctx, "delete", "services,events", "--all", "-n", "acquisition")
			c.Kubectl(ctx, "delete", "secret", "projectx-port", "-n", cluster.OperatorNamespace)
			c.DropPolicy(ctx, "berlin-policy")
			c.Kubectl(ctx, "delete", "servicecidr", "berlin-range", "--wait=false")
		})
	})

	It("has what an issue needs, and no name of a tenant", func(ctx SpecContext) {
		files, result := bundled(ctx, "")
		Expect(containing(files, append(slices.Clone(never), secret...)...)).To(BeEmpty())
		for name, words := range map[string][]string{
			"README.txt": {"pseudonyms"}, "versions.json": {"gitVersion", `"redacted": true`}, "objects/servicecidrs.json": {"10.111.0.0/26", "fd00:10:111::/122", "clusterip-operator.io/usage", "Ready"},
			"objects/servicecidrpolicies.json": {"Programmed", "range-", "reservation-", "matchLabels"}, "objects/lease.json": {"renewTime"},
			"objects/mutatingwebhookconfiguration.json": {"trustedUntil"}, "objects/validatingadmissionpolicy.json": {"validations"}, "namespaces/0001.jsonl": {"namespace-", "kube-system"},
			"services/0001.jsonl": {"10.111.0.", "fd00:10:111::", `"service-`, "LoadBalancer", "host-"}, "ipaddresses/0001.jsonl": {"10.111.0.", "fd00:10:111::", "ipallocator.k8s.io", "service-"},
			"events/0001.jsonl": {"ClusterIPNotAllocated", "clusterip-operator-ipaddress"}, "check.txt": nil, "check.json": {"CheckReport"}, "status.txt": {"PART"}, "status.json": {"Installation"},
			"ranges.txt": {"10.111.0.0/26"}, "ranges.json": {"RangeList"}, "errors.txt": nil,
		} {
			Expect(files).To(HaveKey(name))
			Expect(files[name]).To(cluster.ContainAll(words...), name)
		}
		Expect(files["events/0001.jsonl"]).NotTo(ContainSubstring("pod-of-a-tenant"))
		var logs, dumps string
		for name, text := range files {
			if strings.HasPrefix(name, "logs/") {
				logs += text
			}
			if strings.HasPrefix(name, "agents/") {
				dumps += text
			}
		}
		Expect(logs).To(MatchRegexp(`"Service":\{"name":"service-\d+","namespace":"namespace-\d+"\},"error":"a\\tnamespace-\d+/service-\d+ \\u003cservice-\d+\\u003e fieldSelector=metadata.name%3Dservice-\d+"`))
		Expect(logs).To(MatchRegexp(`service-\d+\.namespace-\d+\.svc on node-\d+ has 10\.96\.0\.77`))
		Expect(logs).NotTo(ContainSubstring("\x1b"))
		Expect(dumps).To(MatchRegexp(`^Served with nftables, because the configuration says so\.\nnamespace-\d+/service-\d+: 10\.96\.0\.77\n$`))
		Expect(k.asked).To(HaveEach("/proxyagent dump"))
		Expect(result.Stderr).NotTo(ContainSubstring("error"))

		var one struct {
			Metadata struct{ Namespace, Name string }
		}
		for line := range strings.Lines(files["services/0001.jsonl"]) {
			if strings.Contains(line, "LoadBalancer") && strings.Contains(line, "10.111.0.") {
				Expect(json.Unmarshal([]byte(line), &one)).To(Succeed())
			}
		}
		Expect(logs).To(ContainSubstring(one.Metadata.Name+"."+one.Metadata.Namespace+".svc"), "a Service is called the same in all files")
		again, _ := bundled(ctx, "")
		Expect(again).To(HaveLen(len(files)))
	})

	It("has names if they are wanted, and no Secret", func(ctx SpecContext) {
		files, _ := bundled(ctx, "", "--redact=false", "--agents=0")
		Expect(containing(files, never...)).To(BeEmpty())
		Expect(files["services/0001.jsonl"]).To(cluster.ContainAll(`"name":"projectx-backend"`, `"namespace":"acquisition"`))
		Expect(files["versions.json"]).To(ContainSubstring(`"redacted": false`))
		Expect(files["README.txt"]).To(ContainSubstring("Do not publish it"))
		Expect(files["errors.txt"]).To(ContainSubstring("logs and dumps of agents beyond the first 0 of 1"))
	})

	It("says what the user may not read, and goes on", func(ctx SpecContext) {
		files, result := bundled(ctx, reader.Kubeconfig)
		Expect(reader.Refused()).To(BeEmpty())
		Expect(containing(files, append(slices.Clone(never), "acquisition", "projectx-backend", "machine-berlin")...)).To(BeEmpty())
		for _, text := range []string{"names of nodes: the user may not list nodes, so that only those have pseudonyms", "pods/exec: the user may not get pods/exec in namespace kube-system"} {
			Expect(files["errors.txt"]).To(ContainSubstring(text))
			Expect(result.Stderr).To(ContainSubstring("Not in the bundle: " + text))
		}
		Expect(files).To(HaveKey("check.json"))
	})

	It("leaves out the pods of a namespace where the user may not look, and no others", func(ctx SpecContext) {
		c.Apply(ctx, `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: bundled, namespace: clusterip-operator-system, labels: {app.kubernetes.io/name: clusterip-operator, app.kubernetes.io/component: proxyagent}},
			spec: {selector: {matchLabels: {agent: a}}, template: {metadata: {labels: {agent: a}}, spec: {containers: [{name: agent, image: "registry.example.org/agent:v1"}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: agent-elsewhere, namespace: clusterip-operator-system, labels: {agent: a}},
			spec: {nodeName: machine-berlin, securityContext: {runAsNonRoot: true, runAsUser: 1, seccompProfile: {type: RuntimeDefault}},
				containers: [{name: agent, image: "registry.example.org/agent:v1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`)
		c.Kubectl(ctx, "create", "role", "bundler", "-n", "kube-system", "--verb=get,create", "--resource=pods/exec")
		c.Kubectl(ctx, "create", "rolebinding", "bundler", "-n", "kube-system", "--role=bundler", "--user=reader")
		DeferCleanup(func(ctx SpecContext) {
			c.Kubectl(ctx, "delete", "daemonset/bundled", "pod/agent-elsewhere", "-n", cluster.OperatorNamespace, "--grace-period=0", "--force")
			c.Kubectl(ctx, "delete", "role/bundler", "rolebinding/bundler", "-n", "kube-system")
		})
		Eventually(framework.Kubectl).WithArguments(ctx, reader.Kubeconfig, "auth", "can-i", "create", "pods", "--subresource=exec", "-n", "kube-system").Should(HavePrefix("yes"))
		files, result := bundled(ctx, reader.Kubeconfig)
		var dumps []string
		for name := range files {
			if strings.HasPrefix(name, "agents/") {
				dumps = append(dumps, name)
			}
		}
		Expect(dumps).To(ConsistOf(MatchRegexp(`^agents/agent-node-\d+\.dump\.txt$`)), result.String())
		Expect(files["errors.txt"]).To(ContainSubstring("pods/exec: the user may not get pods/exec in namespace clusterip-operator-system\n"))
	})

	It("keeps the newest lines of a log, however long it is", func(ctx SpecContext) {
		before := k.log
		DeferCleanup(func() { k.log = before })
		k.log = strings.Repeat(strings.Repeat("x", 1023)+"\n", 17<<10) + "the newest line\n"
		files, _ := bundled(ctx, "", "--redact=false", "--agents=1")
		log := files["logs/agent-machine-berlin.txt"]
		Expect(len(log)).To(BeNumerically("<=", 1<<20))
		Expect(log[max(0, len(log)-100):]).To(HaveSuffix("x\nthe newest line\n"))
	})

	It("names no user whom the API server refuses", func(ctx SpecContext) {
		c.Kubectl(ctx, "create", "clusterrolebinding", "jane", "--clusterrole=system:aggregate-to-view", "--user=jane@example.org")
		awaitList(ctx, "jane@example.org", "services")
		kubeconfig := cluster.KubeconfigOf(suite.Must(c.ConfigForUser("jane@example.org")))
		refused := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Kubeconfig: kubeconfig, Args: []string{"bundle", "-o", "-"}}))
		Expect(refused).To(And(HaveField("ExitCode", 2), HaveField("Stdout", ""), HaveField("Stderr", ContainSubstring("all names have to be known"))), "those of policies too")

		c.Kubectl(ctx, "create", "clusterrole", "ranges", "--verb=get,list", "--resource=servicecidrs.networking.k8s.io,servicecidrpolicies.clusterip-operator.io")
		c.Kubectl(ctx, "create", "clusterrolebinding", "jane-ranges", "--clusterrole=ranges", "--user=jane@example.org")
		DeferCleanup(func(ctx SpecContext) {
			c.Kubectl(ctx, "delete", "clusterrolebinding/jane", "clusterrolebinding/jane-ranges", "clusterrole/ranges")
		})
		awaitList(ctx, "jane@example.org", "servicecidrpolicies.clusterip-operator.io")
		files, result := bundled(ctx, kubeconfig)
		Expect(result.Stderr).To(MatchRegexp(`Not in the bundle: the Lease: .*User "jane@example.org" cannot`), "who reads it is the user")
		Expect(files["errors.txt"]).To(MatchRegexp(`(?m)^the Lease: .*User "user-1" cannot`))
		Expect(containing(files, append(slices.Clone(never), "jane@example.org", "acquisition", "projectx-backend")...)).To(BeEmpty())
		Expect(files).To(And(HaveKey("services/0001.jsonl"), HaveKey("events/0001.jsonl")))
	})

	It("writes nothing where names cannot be known", func(ctx SpecContext) {
		poor := cluster.KubeconfigOf(suite.Must(c.ConfigForUser("poor")))
		file := filepath.Join(GinkgoT().TempDir(), "bundle.tar.gz")
		result := suite.Exits(2, suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Kubeconfig: poor, Args: []string{"bundle", "-o", file}})))
		Expect(result.Stderr).To(cluster.ContainAll("all names have to be known that are replaced", "--redact=false"))
		Expect(filepath.Dir(file)).To(BeADirectory())
		Expect(suite.Must(os.ReadDir(filepath.Dir(file)))).To(BeEmpty())
	})

	It("goes into a pipe", func(ctx SpecContext) {
		Expect(suite.Exits(0, suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Args: []string{"bundle", "-o", "-", "--agents=0"}}))).Stdout).To(HavePrefix("\x1f\x8b"))
	})
})

// A bundle of a large cluster is small, and is made while a person waits.
var _ = It("bundles 10,000 Services", Label("long"), func(ctx SpecContext) {
	const services = 10_000
	large := cluster.Start(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/16,fd00:10:96::/112"}, WithoutOperator: true})
	large.CreateService(ctx, "template", framework.RequireDualStack(), framework.WithClusterIPs("10.96.0.3", "fd00:10:96::3"))
	large.Stock(ctx, services, time.Hour, "10.96.0.0/16", "fd00:10:96::/112")
	file := filepath.Join(GinkgoT().TempDir(), "bundle.tar.gz")
	began := time.Now()
	result := suite.Must(large.RunPlugin(ctx, framework.PluginOptions{Args: []string{"bundle", "-o", file}}))
	took := time.Since(began)
	Expect(result.ExitCode).To(BeZero(), result.String())
	size := suite.Must(os.Stat(file)).Size()
	AddReportEntry("a bundle of 10,000 Services", map[string]any{"seconds": took.Seconds(), "bytes": size}, ReportEntryVisibilityAlways)
	Expect(size).To(BeNumerically("<", 20<<20))
	files, lines, name := unpacked(file), 0, regexp.MustCompile(`\bservice-\d{6}\b`)
	Expect(cluster.StockName(0)).To(MatchRegexp(name.String())) // pseudonyms have fewer digits
	for file, text := range files {
		Expect(name.FindString(text)).To(BeEmpty(), file)
		if strings.HasPrefix(file, "services/") {
			lines += strings.Count(text, "\n")
		}
		Expect(len(text)).To(BeNumerically("<", 4<<20), "a file is in memory while it is written: "+file)
	}
	Expect(lines).To(Equal(services + 2)) // the template, and default/kubernetes
	Expect(files["errors.txt"]).To(ContainSubstring("policies: the API server does not serve ServiceCIDRPolicies"))
})
