package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// The ranges of two tenants: blue keeps other tenants out, red does not.
const (
	blueRange = "10.97.0.0/28"
	redRange  = "10.98.0.0/28"
)

// ip is the ClusterIP of a Service that is created.
func ip(ctx context.Context, service *corev1.Service) string {
	GinkgoHelper()
	return c.Create(ctx, service).Spec.ClusterIP
}

var _ = Describe("why", Ordered, func() {
	var web, front string
	webLabel := framework.WithLabel("tier", "web")

	BeforeAll(func(ctx SpecContext) {
		for _, tenant := range []string{"blue", "red", "plain"} {
			c.CreateNamespace(ctx, tenant, map[string]string{"tenant": tenant})
		}
		c.OfferRange(ctx, "blue", nil, blueRange)
		c.OfferRange(ctx, "red", nil, redRange)
		c.Program(ctx, "blue", `{serviceCIDRs: [blue], exclusive: true, onFull: Fail, namespaceSelector: {matchLabels: {tenant: blue}},
			reservations: [{name: database, address: 10.97.0.2, for: blue/db}, {name: parked, address: 10.97.0.3},
			{name: elsewhere-ipv4, address: 10.96.0.11}, {name: elsewhere-ipv6, address: "fd00:10:96::b"}]}`)
		c.Program(ctx, "red", `{serviceCIDRs: [red], priority: 5, coolDown: 1h, namespaceSelector: {matchLabels: {tenant: red}}, serviceSelector: {matchLabels: {tier: web}}}`)
		web = ip(ctx, framework.NewService("blue", "web"))
		front = ip(ctx, framework.NewService("red", "front", webLabel))
		ip(ctx, framework.NewService("red", "back"))
		ip(ctx, framework.NewService("plain", "shop"))
		// It is of the static band, as all addresses that are chosen here: one of the dynamic band was
		// drawn for another Service, now and then.
		ip(ctx, cluster.Asking("blue", "outside", "10.96.0.14"))
		ip(ctx, framework.NewService("plain", "headless", framework.Headless()))
	})

	It("says of Services where their addresses come from", func(ctx SpecContext) {
		tells(ctx, []string{web + " is the ClusterIP of Service blue/web", "dynamic band of ServiceCIDR blue", "policy blue   dynamic band", "11 free", "<- this one",
			"policy blue   steers it", `policy red    does not: its namespaceSelector`}, "why", "service/blue/web")
		tells(ctx, []string{front, "policy red", "ranges open to all", "policy red    steers it"}, "why", "svc/red/front")
		tells(ctx, []string{front + " is the ClusterIP of Service red/front"}, "why", "svc/front", "-n", "red")
		tells(ctx, []string{front + " is the ClusterIP of Service red/front"}, "why", "service", "front", "-n", "red")
		tells(ctx, []string{"it has " + blueRange + " of ServiceCIDR blue: ", "2 reserved", "it keeps Services out of them", "Nothing is wrong with it."}, "why", "policy/blue")
		Eventually(func() int64 { return c.Policy(ctx, "blue").Status.Summary.Reserved }).Should(BeEquivalentTo(4), "two in ranges of other policies")
		tells(ctx, []string{"policy red    does not: its serviceSelector does not match the labels of the Service"}, "why", "service/red/back")
		tells(ctx, []string{"policy blue   does not: its namespaceSelector does not match the namespace"}, "why", "service/plain/shop")
		tells(ctx, []string{"10.96.0.14 is none of these: it was chosen"}, "why", "service/blue/outside")
		tells(ctx, []string{"The Service is headless"}, "why", "service/plain/headless")
	})

	It("says what would happen to a new Service", func(ctx SpecContext) {
		tells(ctx, []string{"There is no such Service. If it were created now:", "IPv4: 10.97.0.2 is reserved for it"}, "why", "service/blue/db")
		tells(ctx, []string{"IPv4: an address", "IPv6: an address", "policy blue   does not: it has no range of this family"}, "why", "namespace/blue")
		tells(ctx, []string{"policy red    steers it"}, "why", "namespace/red", "--labels=tier=web")
		tells(ctx, []string{"ranges open to all"}, "why", "service/plain/new")
	})

	It("says of addresses who has them, and who may", func(ctx SpecContext) {
		tells(ctx, []string{"is the ClusterIP of Service blue/web", `managed by "ipallocator.k8s.io"`}, "why", web)
		tells(ctx, []string{"10.97.0.2 is reserved", `keeps it for Service blue/db`}, "why", "10.97.0.2")
		tells(ctx, []string{"10.97.0.3 is reserved", `the reservation "parked" of ServiceCIDRPolicy "blue" keeps it from everybody`}, "why", "10.97.0.3")
		tells(ctx, []string{"10.96.0.9 is free", "static band of ServiceCIDR kubernetes"}, "why", "10.96.0.9")
		free := "fd00:10:96::70" // unless it was drawn for one of the Services that are there
		for i := 0x71; c.IPAddress(ctx, free) != nil; i++ {
			free = fmt.Sprintf("fd00:10:96::%x", i)
		}
		tells(ctx, []string{free + " is free", "dynamic band"}, "why", free)
		tells(ctx, []string{"192.0.2.1 is free", "no ServiceCIDR offers it"}, "why", "192.0.2.1")
		c.CreateIPAddress(ctx, framework.NewIPAddress("10.96.0.12", "kube-system", "gateway", framework.ManagedBy("example.com")))
		tells(ctx, []string{"10.96.0.12 is reserved", `managed by "example.com"`}, "why", "10.96.0.12")
		c.CreateIPAddress(ctx, framework.NewIPAddress("10.96.0.13", "plain", "gone"))
		tells(ctx, []string{"10.96.0.13 is allocated", "no Service has it in its spec.clusterIPs"}, "why", "10.96.0.13")
	})

	It("lists addresses, and draws them", func(ctx SpecContext) {
		Expect(tells(ctx, []string{web, "   blue/web   ", "blue", "dynamic"}, "addresses", "--range=blue", "--state=allocated")).To(MatchRegexp(`^ADDRESS.*\n.*\n$`))
		tells(ctx, []string{"10.97.0.2", "10.97.0.3"}, "addresses", "--policy=blue", "--state=reserved")
		Expect(tells(ctx, []string{"red/back"}, "addresses", "--namespace=red", "--no-headers")).NotTo(ContainSubstring("blue/"))
		Expect(tells(ctx, nil, "addresses", "-o", "name", "--parent=blue/web")).To(Equal("ipaddress.networking.k8s.io/" + web + "\n"))
		tells(ctx, []string{web + " is the ClusterIP of Service blue/web"}, "addresses", "show", web)
		Expect(tells(ctx, nil, "addresses", "show", web, "-o", "jsonpath={.subject} {.addresses[0].services} {.addresses[0].serviceCIDRs}")).To(Equal(web + ` ["blue/web"] ["blue"]`))
		Expect(tells(ctx, nil, "map", "blue", "-o", "jsonpath={.items[*].cidr} {.items[0].cells[?(@.reserved>0)].cidr}")).To(Equal("10.97.0.0/28 10.97.0.2/32 10.97.0.3/32"))
		Expect(tells(ctx, nil, "map", "blue")).To(MatchRegexp(`^10.97.0.0/28, 1 address in a cell\n10.97.0.0 \.\|[.█]RR[.█]{12}\n$`))
		refuses(ctx, "no ServiceCIDR has all of it", "map", "192.0.2.0/24")
		refuses(ctx, `"10.97.0.0/33" is no CIDR`, "map", "10.97.0.0/33")
		Expect(tells(ctx, nil, "addresses", "-o", "jsonpath={.items[*].parent}", "--parent=policy/blue", "-A")).To(Equal(strings.TrimSpace(strings.Repeat("servicecidrpolicy/blue ", 4))))
		Expect(tells(ctx, []string{"blue/web", "red/back", "plain/shop"}, "addresses", "-n", "blue", "-A")).To(ContainSubstring("default/kubernetes"))
		Expect(tells(ctx, nil, "addresses", "-o", "custom-columns=A:.address,P:.parent", "--parent=web", "-n", "blue")).To(MatchRegexp(`^A +P\n` + web + ` +blue/web\n$`))
		Expect(tells(ctx, nil, "addresses", "--parent=lue/web")).To(BeEmpty(), "part of a name")
		Expect(run(ctx, "addresses", "--parent=lue/web").Stderr).To(Equal("No resources found\n"))
		refuses(ctx, `ServiceCIDR "blu": there is no such object; did you mean blue?`, "addresses", "--range=blu")
		refuses(ctx, `ServiceCIDRPolicy "typo": there is no such object`, "addresses", "--policy=typo")
		refuses(ctx, `--band "upper" is none of static, dynamic`, "addresses", "--band=upper")
	})

	It("completes words by what the cluster has", func(ctx SpecContext) {
		for line, want := range map[string]string{
			"__complete map b": "blue", "__complete addresses --range r": "red", "__complete addresses --policy b": "blue", "__complete ranges -n pl": "plain", "__complete why policy/r": "policy/red",
			"__complete why -n blue svc/w": "svc/web", "__complete why ra": "range/", "__complete renumber plan --to kube": "kubernetes",
		} {
			Expect(run(ctx, strings.Fields(line)...).Stdout).To(MatchRegexp(`(?m)^`+want+`$`), line)
		}
	})

	It("says who had an address that cools down", func(ctx SpecContext) {
		Expect(c.Client().CoreV1().Services("red").Delete(ctx, "front", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() string { return run(ctx, "why", front).Stdout }).Should(cluster.ContainAll("is cooling", "Service red/front had it", `ServiceCIDRPolicy "red"`))
	})

	It("says why a Service is refused, in the words that its user reads, and in those for admins", func(ctx SpecContext) {
		var refusal error
		for i := range 15 {
			if _, refusal = c.Try(ctx, framework.NewService("blue", fmt.Sprint("filler-", i))); refusal != nil {
				break
			}
		}
		message := cluster.ExpectRefusal(refusal, "blue")
		Eventually(func(g Gomega) {
			result := run(ctx, "why", "service/blue/next", "-o", "json")
			var got struct {
				IfCreated struct{ Refused, Reason string }
			}
			g.Expect(json.Unmarshal([]byte(result.Stdout), &got)).To(Succeed(), result.String())
			g.Expect(got.IfCreated.Refused).To(Equal(message))
			g.Expect(got.IfCreated.Reason).To(ContainSubstring(blueRange))
		}).Should(Succeed())
		Eventually(func() string { return run(ctx, "why", "namespace/blue").Stdout }).Should(cluster.ContainAll("blue/filler-", "was refused", message, "no IPv4 address is left in its ranges ("+blueRange+")"))
		_, err := c.Try(ctx, cluster.Asking("plain", "thief", "10.97.0.9"))
		Expect(err).To(MatchError(ContainSubstring("is not open to this Service")))
		tells(ctx, []string{`ServiceCIDRPolicy "blue" keeps its range for the Services that the policy selects`}, "why", "10.97.0.9")
	})

	It("says of ranges what is wrong with them", func(ctx SpecContext) {
		Eventually(func() string { return run(ctx, "why", "range/blue").Stdout }).Should(cluster.ContainAll("DynamicBandFull is True", "85 % in use, 2 reserved", "0 free, full;"))
		Eventually(func() string { return run(ctx, "ranges").Stdout }).Should(MatchRegexp(`(?m)^NAME.*\nblue +10.97.0.0/28 +14 +12 \(85%\) +0 +2 .* full +True$`))
		held := "10.98.0.9"
		if front == held { // it cools down
			held = "10.98.0.10"
		}
		ip(ctx, cluster.Asking("red", "holder", held))
		tells(ctx, []string{"policies red", "Nothing is wrong with it."}, "why", "range/red")
		c.DeleteServiceCIDRs(ctx, "red")
		Eventually(func() string { return run(ctx, "why", "range/red").Stdout }).Should(cluster.ContainAll("It is being deleted", "DeletionBlocked is True", held, "red/holder"))
		tells(ctx, []string{"Blocked"}, "ranges", "red")
	})

	It("says what it does not know, or may not", func(ctx SpecContext) {
		refuses(ctx, `namespace "nowhere": there is no such namespace`, "why", "namespace/nowhere")
		refuses(ctx, `ServiceCIDR "none": there is no such object`, "why", "range/none")
		refuses(ctx, `"10.96" is neither an address nor`, "why", "10.96")
		refuses(ctx, "names no service; write service/NAME", "why", "service/")
		refuses(ctx, `ServiceCIDRPolicy "blu": there is no such object; did you mean blue?`, "why", "policy/blu")
		refuses(ctx, `ServiceCIDR "none": there is no such object`, "ranges", "none")
		config := suite.Must(c.ConfigForUser("stranger"))
		stranger := cluster.KubeconfigOf(config)
		for _, args := range [][]string{{"ranges"}, {"why", "10.96.0.1"}} {
			result := suite.Exits(2, suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Kubeconfig: stranger, Args: args})))
			Expect(result.Stderr).To(cluster.ContainAll("forbidden", "the ClusterRole clusterip-operator-view has what this command reads"))
		}
	})
})
