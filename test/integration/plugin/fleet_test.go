package plugin_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// fleetOf is a kubeconfig with a context for each name, by other kubeconfigs.
func fleetOf(kubeconfigs map[string]string) string {
	GinkgoHelper()
	fleet := clientcmdapi.NewConfig()
	for name, file := range kubeconfigs {
		one := suite.Must(clientcmd.LoadFromFile(file))
		is := one.Contexts[one.CurrentContext]
		fleet.Clusters[name], fleet.AuthInfos[name] = one.Clusters[is.Cluster], one.AuthInfos[is.AuthInfo]
		fleet.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	fleet.Clusters["away"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	fleet.Contexts["away"] = &clientcmdapi.Context{Cluster: "away"}
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*fleet, path)).To(Succeed())
	return path
}

var _ = It("lists the ranges of several clusters, and which overlap", Label("all"), func(ctx SpecContext) {
	other := cluster.Start(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/24,fd00:10:98::/120"}, WithoutOperator: true})
	kubeconfig := fleetOf(map[string]string{"berlin": reader.Kubeconfig, "berlin-admin": c.Kubeconfig(), "paris": other.Kubeconfig()})
	ranges := func(ctx context.Context, contexts string, args ...string) framework.PluginResult {
		GinkgoHelper()
		return suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Race: true, Kubeconfig: kubeconfig, Args: append([]string{"ranges", "--contexts=" + contexts}, args...)}))
	}

	both := suite.Exits(1, ranges(ctx, "paris,berlin", "kubernetes"))
	Expect(both.Stdout).To(And(MatchRegexp(`^CONTEXT +NAME .* READY +OVERLAPS\n`),
		MatchRegexp(`(?m)^berlin +kubernetes +10\.96\.0\.0/25 +126 .* True +paris$`), MatchRegexp(`(?m)^paris +kubernetes +10\.96\.0\.0/24 +254 .* <unknown> +True +berlin$`),
		MatchRegexp(`(?m)^berlin +kubernetes +fd00:10:96::/121 .* True +<none>$`), MatchRegexp(`(?m)^paris +kubernetes +fd00:10:98::/120 .* True +<none>$`)))
	Expect(both.Stderr).To(Equal("10.96.0.0/25 of ServiceCIDR kubernetes in berlin overlaps 10.96.0.0/24 of ServiceCIDR kubernetes in paris.\n"))

	away := suite.Exits(2, ranges(ctx, "paris,away,berlin", "-o", "json"))
	Expect(away.Stderr).To(cluster.ContainAll("Not shown: context away: ", "127.0.0.1:1", "error: not everything could be told: 1 of the clusters could not be asked"))
	var told struct {
		Kind  string
		Items []struct {
			Context, ServiceCIDR, CIDR string
			Overlaps                   []struct{ Context, CIDR string }
		}
		Unknown []struct{ Context, Message string }
	}
	Expect(json.Unmarshal([]byte(away.Stdout), &told)).To(Succeed())
	Expect(told.Kind).To(Equal("FleetRangeList"))
	Expect(told.Unknown).To(ConsistOf(HaveField("Context", "away")))
	Expect(told.Items).To(ContainElement(And(HaveField("Context", "paris"), HaveField("CIDR", "10.96.0.0/24"), HaveField("Overlaps", ConsistOf(And(HaveField("Context", "berlin"), HaveField("CIDR", "10.96.0.0/25")))))))

	same := suite.Exits(0, ranges(ctx, "berlin,berlin-admin"))
	Expect(same.Stderr).To(Equal("Contexts berlin, berlin-admin are one cluster, which is shown for the first of them.\n"))
	Expect(same.Stdout).NotTo(ContainSubstring("berlin-admin"))
	Expect(ranges(ctx, "paris", "-o", "yaml").ExitCode).To(BeZero())

	Expect(suite.Exits(2, ranges(ctx, "away")).Stdout).To(BeEmpty())
	for args, words := range map[string]string{
		"--contexts=paris,rome": `--contexts: the kubeconfig has no context "rome"`, "--contexts=paris --context=berlin": "--contexts and --context both say", "--contexts=paris --watch": "--watch follows one cluster",
		"--contexts=paris -o name": "a name does not tell its cluster", "--contexts=paris kuberneets": "kuberneets",
	} {
		result := suite.Exits(2, suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Kubeconfig: kubeconfig, Args: append([]string{"ranges"}, strings.Fields(args)...)})))
		Expect(result.Stderr).To(ContainSubstring(words))
	}
	completed := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Kubeconfig: kubeconfig, Args: []string{"__complete", "ranges", "--contexts", "paris,ber"}}))
	Expect(completed.Stdout).To(HavePrefix("paris,berlin\nparis,berlin-admin\n"))
	Expect(reader.Refused()).To(BeEmpty())
})
