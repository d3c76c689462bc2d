package behaviour_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// historian is a cluster of which the plugin tells who had an address.
type historian struct{ *cluster.Cluster }

// owned is what it tells of an owner.
type owned struct {
	Service, UID, Came, Ended string
	From, To, ToAfter         time.Time
}

// ask runs the plugin, and returns what it prints and says.
func (h historian) ask(ctx context.Context, args ...string) framework.PluginResult {
	GinkgoHelper()
	return suite.Must(h.RunPlugin(ctx, framework.PluginOptions{Race: true, Args: append([]string{"addresses", "history"}, args...)}))
}

// owners are the owners of an address, the latest first.
func (h historian) owners(ctx context.Context, address string) (all []owned) {
	GinkgoHelper()
	result := suite.Exits(0, h.ask(ctx, address, "-o", "json"))
	var told struct{ Items []owned }
	Expect(json.Unmarshal([]byte(result.Stdout), &told)).To(Succeed())
	return told.Items
}

// lives are the owners in short: how they came, and how they ended.
func (h historian) lives(ctx context.Context, address string) (all []string) {
	GinkgoHelper()
	for _, o := range h.owners(ctx, address) {
		all = append(all, strings.TrimSpace(o.Service+" "+o.Came+" "+o.Ended))
	}
	return all
}

// pages are the sizes of the ConfigMaps.
func (h historian) pages(ctx context.Context) (sizes []int) {
	GinkgoHelper()
	list := suite.Must(h.Client().CoreV1().ConfigMaps(cluster.OperatorNamespace).List(ctx, metav1.ListOptions{}))
	for _, o := range list.Items {
		if strings.HasPrefix(o.Name, "clusterip-operator-history-") {
			sizes = append(sizes, len(o.Data["owners"]))
		}
	}
	return sizes
}

// written is how often a ConfigMap was written by the replicas that run.
func (h historian) written(ctx context.Context) (n float64) {
	GinkgoHelper()
	for _, replica := range h.Replicas() {
		n += cluster.MetricOf(ctx, replica, "clusterip_operator_history_writes_total", "result", "written")
	}
	return n
}

// spelled writes an address otherwise than Kubernetes does.
func spelled(address string) string {
	if a := netip.MustParseAddr(address); a.Is6() {
		return strings.ToUpper(a.StringExpanded())
	}
	return "::ffff:" + address
}

// What the component config/components/history adds is the role, under which these managers run.
var _ = Describe("The history of addresses", Ordered, func() {
	var (
		h         historian
		addresses []string
	)

	BeforeAll(func(ctx SpecContext) {
		h.Cluster = cluster.Start(ctx, cluster.Options{Installed: true, OperatorArgs: []string{"--history"}})
		output, status, err := h.RunManager(ctx, framework.ManagerOptions{Kubeconfig: h.OperatorKubeconfig(h.Access), Args: []string{"--history", "--namespace=" + cluster.OperatorNamespace}})
		Expect(err).NotTo(HaveOccurred())
		Expect(status).NotTo(BeZero())
		Expect(output).To(ContainSubstring("patch configmaps clusterip-operator-history-63 in namespace clusterip-operator-system; apply config/rbac, and for a history config/components/history"))
		h.Kubectl(ctx, "apply", "--server-side", "-f", cluster.Repository+"/config/components/history/role.yaml")
		h.AddReplicas(ctx, 2)
	})

	It("has what was there when it began, and who follows whom, in both families", func(ctx SpecContext) {
		Eventually(h.lives).WithArguments(ctx, "10.96.0.1").Should(Equal([]string{"default/kubernetes found"}))
		before := h.written(ctx)
		web := h.CreateService(ctx, "web", framework.RequireDualStack())
		addresses = web.Spec.ClusterIPs
		for _, a := range addresses {
			Eventually(h.lives).WithArguments(ctx, a).Should(Equal([]string{"default/web created"}))
		}
		h.DeleteServices(ctx, web)
		api := h.HoldAddress(ctx, "api", addresses...)
		for _, a := range addresses {
			Eventually(h.lives).WithArguments(ctx, spelled(a)).Should(Equal([]string{"default/api created", "default/web created deleted"}), "also where it is spelled %s", spelled(a))
			all := h.owners(ctx, a)
			Expect(all[0].UID).To(BeEquivalentTo(api.UID))
			Expect(all[1].UID).To(BeEquivalentTo(web.UID))
			Expect(all[0].From).To(BeTemporally("==", api.CreationTimestamp.Time))
			Expect(all[1].From).To(BeTemporally("==", web.CreationTimestamp.Time))
			Expect(all[1].To).To(And(BeTemporally(">=", all[1].From), BeTemporally("<=", all[0].From.Add(2*time.Second))))
		}
		Expect(h.written(ctx)-before).To(BeNumerically("<=", 6), "three events of two addresses")
		table := h.ask(ctx, addresses[0], "-o", "wide").Stdout
		Expect(table).To(MatchRegexp(`(?s)SERVICE +FROM +TO +CAME +ENDED +UID\ndefault/api +\S+Z +<none> +created +<none> +%s\ndefault/web +\S+Z +\S+Z +created +deleted +%s`, api.UID, web.UID))
	})

	It("is logged by the leader alone", func(ctx SpecContext) {
		leader, other := h.Leader(ctx)
		for message, how := range map[string]string{"A Service has an address": `"came":"created"`, "A Service no longer has an address": `"ended":"deleted"`} {
			Expect(leader.LogTail(1 << 20)).To(MatchRegexp(`%q,"address":%q,"service":"default/web","uid":"[0-9a-f-]+",%s`, message, addresses[0], how))
		}
		Expect(leader.LogTail(1<<20)).NotTo(ContainSubstring(`"service":"default/kubernetes"`), "what was there is no change")
		Expect(other.LogTail(1 << 20)).NotTo(ContainSubstring("A Service has an address"))
	})

	It("goes on after all replicas were away, and says what nobody saw", func(ctx SpecContext) {
		h.StopReplicas()
		h.WithoutWebhooks(ctx, func() {
			h.DeleteServices(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "api"}})
			h.HoldAddress(ctx, "next", addresses...)
		})
		for _, a := range addresses {
			result := h.ask(ctx, a)
			Expect(result.Stdout).To(MatchRegexp(`default/next +\S+Z +<none> +<unknown>(.|\n)*default/api +\S+Z +after \S+Z +created +unseen`))
			Expect(result.Stderr).To(ContainSubstring("before the last change of this address"))
		}
		h.StartReplicas(ctx)
		for _, a := range addresses {
			Eventually(h.lives).WithArguments(ctx, a).Should(Equal([]string{"default/next created", "default/api created unseen", "default/web created deleted"}))
			unseen := h.owners(ctx, a)[1]
			Expect(unseen.ToAfter).To(BeTemporally("<=", unseen.To))
		}
	})

	It("knows what the leader could not write any more", Label("long"), func(ctx SpecContext) {
		fixed := []string{"10.96.0.66", "fd00:10:96::42"}
		lost := h.HoldAddress(ctx, "lost", fixed...)
		for _, a := range fixed {
			Eventually(h.lives).WithArguments(ctx, a).Should(Equal([]string{"default/lost created"}))
		}
		leader, _ := h.Leader(ctx)
		Expect(leader.Pause()).To(Succeed())
		h.DeleteServices(ctx, lost)
		for _, a := range fixed {
			Eventually(h.lives).WithArguments(ctx, a).Should(Equal([]string{"default/lost created deleted"}))
		}
		Expect(leader.Kill()).To(Succeed())
		h.StartReplicas(ctx)
	})

	It("forgets the oldest of the tenant that churns, writes once a second at most, and stays in its bounds", func(ctx SpecContext) {
		h.Kubectl(ctx, "create", "namespace", "noisy")
		began, before := time.Now(), h.written(ctx)
		fixed := []string{"10.96.0.77", "fd00:10:96::4d"}
		h.DeleteServices(ctx, h.HoldAddress(ctx, "quiet", fixed...))
		for i := range 20 {
			noisy := framework.NewService("noisy", fmt.Sprint("s", i), framework.RequireDualStack(), framework.WithClusterIPs(fixed...))
			Eventually(func() error { // for a moment the API server sees the Service before
				h.FreeLeaked(ctx)
				_, err := h.Try(ctx, noisy)
				return err
			}).Should(Succeed())
			h.DeleteServices(ctx, noisy)
		}
		for _, a := range fixed {
			Eventually(h.lives).WithArguments(ctx, a).Should(HaveExactElements(
				"noisy/s19 created deleted", "noisy/s18 created deleted", "noisy/s17 created deleted", "noisy/s16 created deleted", "default/quiet created deleted"))
		}
		Expect(h.written(ctx) - before).To(BeNumerically("<=", time.Since(began).Seconds()+1))
		Expect(h.pages(ctx)).To(HaveEach(BeNumerically("<=", 128<<10)))
	})

	It("is written anew after a user has deleted or spoilt it", Label("all"), func(ctx SpecContext) {
		name := fmt.Sprintf("clusterip-operator-history-%02d", 77%64)
		configMaps := h.Client().CoreV1().ConfigMaps(cluster.OperatorNamespace)
		for _, spoil := range [][]string{{"delete", "configmap"}, {"patch", "configmap", "--type=merge", "-p", `{"data":{"owners":"nonsense\n"}}`}} {
			h.Kubectl(ctx, append(spoil, name, "-n", cluster.OperatorNamespace)...)
			service := h.HoldAddress(ctx, "again", "10.96.0.77", "fd00:10:96::4d")
			Eventually(func() (string, error) {
				o, err := configMaps.Get(ctx, name, metav1.GetOptions{})
				return o.Data["owners"], err
			}).Should(And(ContainSubstring("10.96.0.77 default/again "+string(service.UID)), ContainSubstring("10.96.0.77 default/quiet ")))
			h.DeleteServices(ctx, service)
		}
	})

	It("says in a sentence what is wrong with a question", func(ctx SpecContext) {
		for question, want := range map[string]string{
			"10.96.0":                            `"10.96.0" is no address; write one as 10.96.0.10 or fd00::10`,
			"fe80::1%eth0":                       `"fe80::1%eth0" is no address; write one as 10.96.0.10 or fd00::10`,
			"shop/web":                           `"shop/web" is no address`,
			"10.96.0.7 --output=nonsense":        "--output \"nonsense\" is none of",
			"10.96.0.7 --operator-namespace=No/": "--operator-namespace: no namespace can be called",
			"":                                   "give one ADDRESS, not 0 words",
		} {
			result := h.ask(ctx, strings.Fields(question)...)
			Expect(result.ExitCode).To(Equal(2), question)
			Expect(result.Stderr).To(ContainSubstring(want))
		}
		Expect(suite.Exits(0, h.ask(ctx, "192.0.2.7")).Stderr).To(ContainSubstring("No ServiceCIDR has 192.0.2.7"))
		never := h.ask(ctx, "10.96.200.77")
		Expect(never.Stdout).To(BeEmpty())
		Expect(never.Stderr).To(ContainSubstring("No Service has had 10.96.200.77 since the history began"))
	})

	It("is no secret to an admin who may only look, and a closed book to a tenant", func(ctx SpecContext) {
		viewer := h.viewer(ctx, "looker", "system:aggregate-to-view", "clusterip-operator-view")
		Eventually(func() string { // RBAC follows what is written
			return suite.Must(h.RunPlugin(ctx, framework.PluginOptions{Kubeconfig: viewer, Args: []string{"addresses", "history", "10.96.0.77", "-o", "name"}})).Stdout
		}).Should(ContainSubstring("service/noisy/s19"))
		tenant := suite.Exits(2, suite.Must(h.RunPlugin(ctx, framework.PluginOptions{Kubeconfig: h.viewer(ctx, "tenant"), Args: []string{"addresses", "history", "10.96.0.77"}})))
		Expect(tenant.Stderr).To(ContainSubstring("the ClusterRole clusterip-operator-view has what this command reads"))
	})

	It("goes with the clean-up", func(ctx SpecContext) {
		Expect(h.pages(ctx)).NotTo(BeEmpty())
		h.StopReplicas()
		output, status, err := h.RunManager(ctx, framework.ManagerOptions{Race: true, Args: []string{"cleanup", "--namespace=" + cluster.OperatorNamespace}})
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(BeZero(), output)
		Expect(output).To(ContainSubstring("deleted ConfigMap " + cluster.OperatorNamespace + "/clusterip-operator-history-13"))
		Expect(h.pages(ctx)).To(BeEmpty())
	})
})

// viewer is the kubeconfig of a user with ClusterRoles: no controller puts view together here.
func (h historian) viewer(ctx context.Context, user string, roles ...string) string {
	GinkgoHelper()
	for _, role := range roles {
		h.Kubectl(ctx, "create", "clusterrolebinding", user+"-"+role, "--clusterrole="+role, "--user="+user)
	}
	return cluster.KubeconfigOf(suite.Must(h.ConfigForUser(user)))
}

var _ = It("Without a history nothing is written, and who has an address now is still told", func(ctx SpecContext) {
	h := historian{cluster.Start(ctx, cluster.Options{})}
	service := h.CreateService(ctx, "web", framework.RequireDualStack())
	for _, a := range service.Spec.ClusterIPs {
		result := h.ask(ctx, a)
		Expect(result.Stdout).To(MatchRegexp(`default/web +\S+Z +<none> +<unknown>`))
		Expect(result.Stderr).To(ContainSubstring("No history is kept in namespace clusterip-operator-system"))
	}
	Expect(h.pages(ctx)).To(BeEmpty())
	h.DeleteServices(ctx, service)
	Eventually(func() string { // a Service of the first listing is no change
		h.DeleteServices(ctx, h.HoldAddress(ctx, "web", service.Spec.ClusterIPs...))
		return h.Operator.LogTail(1 << 20)
	}).WithPolling(time.Second).Should(MatchRegexp(`"A Service has an address","address":%q,"service":"default/web"(.|\n)*"A Service no longer has an address"`, service.Spec.ClusterIPs[1]))
	Expect(h.Metric(ctx, "history_writes_total")).To(BeZero())
})
