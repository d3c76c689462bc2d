package plugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// many Services are there while things are checked: more than a page of a list.
const many = 600

var _ = Describe("check and repair", Ordered, func() {
	var damaged *cluster.Cluster
	options := framework.Options{ServiceClusterIPRange: "10.96.0.0/20,fd00:10:96::/112"}
	var lost []string // ClusterIPs whose IPAddresses are deleted
	var table string  // the last one of check

	// admin looks for races where many addresses are mended at once.
	admin := func(ctx context.Context, args ...string) framework.PluginResult {
		GinkgoHelper()
		return suite.Must(damaged.RunPlugin(ctx, framework.PluginOptions{Race: args[0] == "repair", Args: args}))
	}
	prints := func(ctx context.Context) func(args ...string) string {
		return func(args ...string) string { return admin(ctx, args...).Stdout }
	}
	// found are the checks that found something, each once for each object.
	found := func(ctx context.Context) (all []string) {
		GinkgoHelper()
		table = admin(ctx, "check").Stdout
		for line := range strings.SplitSeq(table, "\n") {
			if words := strings.Fields(line); len(words) > 1 && words[0] != "CHECK" && words[0] != "Nothing" {
				all = append(all, words[0]+" "+words[1])
			}
		}
		return all
	}

	BeforeAll(func(ctx SpecContext) {
		damaged = cluster.Start(ctx, cluster.Options{Options: options, Installed: true})
		template := damaged.Create(ctx, cluster.Asking(cluster.Namespace, "template", "10.96.0.10", "fd00:10:96::10"))
		damaged.Stock(ctx, many, 0, "10.96.0.0/20", "fd00:10:96::/112")
		damaged.DeleteServices(ctx, template)
		damaged.AddReplicas(ctx, 1)
	})

	It("finds nothing on a healthy cluster", func(ctx SpecContext) {
		Eventually(found).WithArguments(ctx).Should(BeEmpty())
		Expect(admin(ctx, "check").Stdout).To(Equal("Nothing is wrong.\n"))
		Expect(admin(ctx, "check", "-o", "junit").Stdout).To(cluster.ContainAll(`failures="0"`, `<testcase name="IPAddressMissing"`))
		Expect(admin(ctx, "check", "--list").Stdout).To(cluster.ContainAll("ClusterIPDuplicate", "LeakedBit"))
		Expect(admin(ctx, append([]string{"check"}, damaged.EtcdArgs()...)...).Stdout).To(Equal("Nothing is wrong.\n"))
		runsManager(ctx, damaged)
		for name, args := range map[string]string{
			"ranges": "ranges", "addresses": "addresses --band=static", "show": "addresses show 10.96.0.1", "map": "map 10.96.0.0/28",
			"why-service": "why service/default/kubernetes", "check": "check", "status": "status",
		} {
			golden(prints(ctx), "healthy/"+name, strings.Fields(args))
		}
	})

	It("finds what is wrong with ranges and policies", func(ctx SpecContext) {
		damaged.OfferRange(ctx, "small", nil, "10.97.0.0/29")
		damaged.OfferRange(ctx, "held", nil, "10.98.0.0/28")
		for i := range 6 {
			damaged.HoldAddress(ctx, fmt.Sprint("small-", i), fmt.Sprint("10.97.0.", i+1))
		}
		damaged.HoldAddress(ctx, "held", "10.98.0.3")
		damaged.CreateNode(ctx, "overlapping", []string{"10.98.0.0/24"})
		damaged.ApplyPolicy(ctx, "first", `{serviceCIDRs: [small], exclusive: true, priority: 5}`)
		damaged.ApplyPolicy(ctx, "second", `{serviceCIDRs: [small], exclusive: true}`)
		damaged.ApplyPolicy(ctx, "unready", `{serviceCIDRs: [none]}`)
		damaged.DeleteServiceCIDRs(ctx, "held")
		// One fault is told once. At first, exclusive policies are not enforced yet, for API servers take
		// a new ValidatingAdmissionPolicy up within a second and a half: that is found, too.
		Eventually(found).WithArguments(ctx).Should(ConsistOf(
			"RangeDynamicBandFull servicecidr/small", "RangeNetworkOverlap servicecidr/held", "RangeDeletionBlocked servicecidr/held",
			"PolicyConflicting servicecidrpolicy/second", "PolicyNotProgrammed servicecidrpolicy/unready"))
		for name, args := range map[string]string{
			"ranges": "ranges small", "addresses": "addresses --range=small", "map": "map small", "why-range": "why range/small", "status": "status",
		} {
			golden(prints(ctx), "damaged/"+name, strings.Fields(args))
		}
	})

	It("is well for status in spite of findings, unless they are to count", func(ctx SpecContext) {
		Expect(admin(ctx, "status").ExitCode).To(BeZero())
		strict := suite.Exits(1, admin(ctx, "status", "--strict"))
		Expect(strict.Stdout).To(MatchRegexp(`(?m)^finding +false +servicecidr/small: RangeDynamicBandFull`))
		begin := time.Now()
		Expect(admin(ctx, "status", "--wait=1m").ExitCode).To(BeZero())
		Expect(time.Since(begin)).To(BeNumerically("<", 30*time.Second), "it waits for the operator's own parts alone")
		Expect(admin(ctx, "status", "--strict", "--wait=1s").ExitCode).To(Equal(1))
	})

	It("finds drift while the operator is away, and mends what can be mended", func(ctx SpecContext) {
		services := damaged.CreateSettledServices(ctx, 6, framework.Numbered(cluster.Namespace, "victim"))
		damaged.OfferRange(ctx, "leaving", nil, "10.99.0.0/28")
		damaged.HoldAddress(ctx, "left", "10.99.0.3")
		Expect(damaged.Operator.Stop()).To(Succeed())
		if damaged.API.DualWrites() { // its bitmap would keep the address from the second Service
			options.FeatureGates = framework.WithoutDualWrite
		}
		// The API server creates missing IPAddresses itself, three minutes after its start.
		Expect(damaged.Restart(ctx, options)).To(Succeed())
		damaged.WithdrawRanges(ctx, "leaving")
		for i, service := range services {
			switch address := service.Spec.ClusterIP; i {
			case 0, 1: // missing
				damaged.DeleteIPAddress(ctx, address)
				lost = append(lost, address)
			case 2: // labels lost
				damaged.PatchIPAddress(ctx, address, `{"metadata":{"labels":{"ipaddress.kubernetes.io/managed-by":null}}}`)
			case 3: // two Services have it
				damaged.DeleteIPAddress(ctx, address)
				damaged.Create(ctx, cluster.Asking(cluster.Namespace, "twin", address))
			}
		}
		// IPAddresses that no Service claims or that name another, the API server deletes in seconds.
		labelless, report := services[2].Spec.ClusterIP, filepath.Join(GinkgoT().TempDir(), "report.json")
		Eventually(found).WithArguments(ctx).Should(ContainElements(
			"IPAddressMissing service/default/victim-0", "IPAddressMissing service/default/victim-1", "IPAddressWrongLabels service/default/victim-2",
			"ClusterIPDuplicate service/default/victim-3", "ClusterIPOutOfRange service/default/left"))
		Expect(admin(ctx, "check", "-o", report).ExitCode).To(Equal(1))
		content := suite.Must(os.ReadFile(report))
		drawn := map[string]string{}
		for _, service := range services {
			drawn[service.Spec.ClusterIP] = "<" + service.Name + ">"
		}
		compare("damaged/check.txt", table, drawn)
		compare("damaged/check.json", string(content), drawn)
		compare("damaged/why-service.txt", admin(ctx, "why", "service/default/victim-3").Stdout, drawn)

		Expect(admin(ctx, "repair", "--from", report, "--dry-run").Stdout).To(cluster.ContainAll("would create", "would relabel", "would replace"))
		Expect(damaged.Owner(ctx, lost[0])).To(BeEmpty(), "a dry run changes nothing")
		moved := filepath.Join(GinkgoT().TempDir(), "moved.json")
		Expect(os.WriteFile(moved, []byte(strings.ReplaceAll(string(content), `"resourceVersion": "`, `"resourceVersion": "9`)), 0o600)).To(Succeed())
		result := suite.Exits(1, admin(ctx, "repair", "--from", moved))
		Expect(result.Stdout).To(cluster.ContainAll(labelless+": refused, it is not as it was when the report was made", lost[0]+": did create"))
		Expect(damaged.Labels(ctx, labelless)).NotTo(HaveKey("ipaddress.kubernetes.io/managed-by"))

		Expect(suite.Exits(0, admin(ctx, "repair", "--from", report)).Stdout).To(cluster.ContainAll(lost[0]+": nothing is wrong any more", labelless+": did relabel"))
		Expect(damaged.Owner(ctx, lost[0])).To(Equal("default/victim-0"))
		Expect(damaged.Owner(ctx, services[3].Spec.ClusterIP)).To(Equal("default/victim-3"))
		Expect(admin(ctx, "repair", "--from", report).ExitCode).To(BeZero(), "again")
		Eventually(found).WithArguments(ctx).Should(And(Not(ContainElement(HavePrefix("IPAddress"))),
			ContainElements("ClusterIPDuplicate service/default/victim-3", "ClusterIPOutOfRange service/default/left")), "only people can mend these")
	})

	It("goes on after it was killed", Label("all"), func(ctx SpecContext) {
		Expect(damaged.Restart(ctx, options)).To(Succeed()) // as above
		var gone []string
		for i := range 100 {
			service := suite.Must(damaged.Client().CoreV1().Services(cluster.Namespace).Get(ctx, cluster.StockName(i), metav1.GetOptions{}))
			for _, address := range service.Spec.ClusterIPs {
				damaged.DeleteIPAddress(ctx, address)
				gone = append(gone, address)
			}
		}
		report := filepath.Join(GinkgoT().TempDir(), "report.yaml")
		Expect(admin(ctx, "check", "-o", report).ExitCode).To(Equal(1))
		plugin := suite.Must(damaged.StartPlugin(ctx, framework.PluginOptions{Args: []string{"repair", "--from", report}}))
		Expect(plugin.WaitPrinted(ctx, "did create")).To(Succeed())
		Expect(plugin.Kill()).To(Succeed())
		Expect(suite.Exits(0, admin(ctx, "repair", "--from", report)).Stdout).To(ContainSubstring("nothing is wrong any more"))
		for _, address := range gone {
			Expect(damaged.Owner(ctx, address)).To(HavePrefix("default/service-"), address)
		}
	})

	It("refuses what is no report, and users who may not", func(ctx SpecContext) {
		file := filepath.Join(GinkgoT().TempDir(), "report.yaml")
		for content, words := range map[string]string{
			"apiVersion: clusterip-operator.io/v1alpha1\nkind: RenumberingPlan\nservices: []\n": "`kubectl clusterip renumber run --from",
			"kind: List\nitems: []\n": "is of kind List, not CheckReport; `kubectl clusterip check -o FILE` writes one",
			"kind: CheckReport\nitems: [{check: IPAddressMissing, object: o, message: m, repair: format, address: 10.96.0.9}]\n": `item 1 of`,
			"kind: CheckReport\nitems: [{check: RangeNearlyFull, object: o, message: m, repair: create}]\n":                      `check "RangeNearlyFull" repairs nothing`,
			"kind: CheckReport\nitms: []\n": `unknown field "itms"`,
		} {
			Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
			refuses(ctx, words, "repair", "--from", file)
		}
		refuses(ctx, "give the report that is to be carried out: --from FILE", "repair")
		refuses(ctx, `--output "xml" is none of junit, json, yaml`, "check", "-o", "xml")
	})
})

// A bitmap API server writes no IPAddresses and knows no ServiceCIDR. No operator is installed.
var _ = It("takes the bitmap of Kubernetes 1.32 for no drift", Label("all", "1.32"), func(ctx SpecContext) {
	old := cluster.Start(ctx, cluster.Options{Options: framework.Options{Version: framework.V132}, WithoutOperator: true})
	address := old.CreateService(ctx, "web").Spec.ClusterIP
	for command, words := range map[string]string{
		"check": "Nothing is wrong.", "ranges": "No resources found", "addresses": address, "why service/default/web": address + " is the ClusterIP of Service default/web",
	} {
		result := suite.Must(old.RunPlugin(ctx, framework.PluginOptions{Args: strings.Fields(command)}))
		Expect(result.ExitCode).To(BeZero(), command+": "+result.String())
		Expect(result.Stdout+result.Stderr).To(And(ContainSubstring(words), Not(ContainSubstring("problem"))), command)
	}
	old.CreateServiceCIDR(ctx, "kubernetes", "10.96.0.0/16")
	result := suite.Must(old.RunPlugin(ctx, framework.PluginOptions{Args: []string{"ranges"}}))
	Expect(result.Stdout).To(MatchRegexp(`kubernetes +10.96.0.0/16 +65534 +2 \(0%\) .* <unknown> `), "without the operator's counts, those of the Services")
})
