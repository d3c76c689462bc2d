package plugin_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// A user with rights on one namespace is answered by it, and asks for nothing that is forbidden, as
// the API server's audit log tells: a command may hide a 403, and go on.
var _ = It("answers a user who may only look at one namespace", func(ctx SpecContext) {
	c.CreateNamespace(ctx, "rented", nil)
	address := ip(ctx, framework.NewService("rented", "web"))
	// kube-controller-manager, which is not here, would make view of this role.
	c.Kubectl(ctx, "create", "rolebinding", "tenant", "-n", "rented", "--clusterrole=system:aggregate-to-view", "--user=tenant")
	kubeconfig := cluster.KubeconfigOf(suite.Must(c.ConfigForUser("tenant")))
	Eventually(func() int { // until RBAC knows the tenant
		return suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Race: true, Kubeconfig: kubeconfig, Args: []string{"addresses", "-n", "rented"}})).ExitCode
	}).Should(BeZero())
	asked := reader.Other("tenant", kubeconfig)
	tenant := func(code int, args ...string) framework.PluginResult {
		GinkgoHelper()
		result := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Race: true, Kubeconfig: asked.Kubeconfig, Args: append(args, "-n", "rented")}))
		Expect(asked.Refused()).To(BeEmpty(), strings.Join(args, " "))
		Expect(result.ExitCode).To(Equal(code), result.String())
		Expect(result.Stderr).NotTo(ContainSubstring("forbidden"))
		return result
	}
	listed := tenant(0, "addresses")
	Expect(listed.Stdout).To(MatchRegexp(`^ADDRESS.*\n` + address + ` +allocated +rented/web +<unknown> +<unknown> +<unknown>\n$`))
	Expect(listed.Stderr).To(ContainSubstring("you may not list"))
	Expect(tenant(0, "addresses", "show", address).Stdout).To(HavePrefix(address + " is the ClusterIP of Service rented/web\n"))
	Expect(tenant(0, "addresses", "show", address, "-o", "jsonpath={.subject} {.addresses[0].services[0]}").Stdout).To(Equal(address + " rented/web"))
	Expect(tenant(0, "why", "svc/web").Stdout).To(cluster.ContainAll(address+" is the ClusterIP of Service rented/web", "kubectl create --dry-run=server"))
	Expect(tenant(0, "why", "svc/none").Stdout).To(ContainSubstring("There is no such Service."))
	Expect(tenant(0, "why", "10.96.0.1").Stdout).To(ContainSubstring("No Service of yours has an address to tell of here."))
	Expect(tenant(0, "map", address+"/32").Stdout).To(ContainSubstring("█"))
	Expect(tenant(0, "map", address+"/32", "-o", "jsonpath={.partial} {.items[0].cells[0].allocated}").Stdout).To(MatchRegexp(`^Only ClusterIPs of namespace rented .* 1$`))
	Expect(tenant(2, "map", "kubernetes").Stderr).To(ContainSubstring("give a CIDR instead of kubernetes"))
	Expect(tenant(2, "addresses", "--range=kubernetes").Stderr).To(ContainSubstring("--range needs ServiceCIDRs"))
	Expect(tenant(2, "why", "range/kubernetes").Stderr).To(ContainSubstring("only users may read it who may list the cluster"))
	completed := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Race: true, Kubeconfig: kubeconfig, Args: []string{"__complete", "why", "-n", "rented", "svc/"}}))
	Expect(completed.Stdout).To(HavePrefix("svc/web\n"), completed.String())
	Expect(asked.Refused()).To(BeEmpty())
	Expect(asked.Answers()).To(BeNumerically(">", 10), "or the log is not that of the tenant")
})
