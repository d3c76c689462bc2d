package badinput_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// An admin or a template gives the manager arguments and files that it does not understand. It
// reads all of them before it talks to a cluster, names all mistakes of a kind at once, and ends
// with status 2. Tables decide what is a mistake (cmd/manager, api/config).
var _ = Describe("A command line that makes no sense", func() {
	refused := func(ctx SpecContext, args []string, complaints ...string) {
		GinkgoHelper()
		untouched(ctx, func() {
			output, status := run(ctx, c, framework.ManagerOptions{Args: args})
			Expect(status).To(Equal(notKnown), output)
			Expect(output).To(cluster.ContainAll(complaints...))
		})
	}

	DescribeTable("is refused with the words that were wrong", refused,
		Entry("a flag that does not exist", []string{"--band-lables"}, "unknown flag: --band-lables", "--help"),
		Entry("a command that does not exist", []string{"clean"}, `no command "clean"`, "--help"),
		// `--leader-elect false` is `--leader-elect` and a stray word: the opposite of what was meant.
		Entry("a value that is set off from its switch", []string{"--leader-elect", "false"}, `"false"`),
		// A command behind a flag would otherwise start the loops instead of the clean-up.
		Entry("a command behind the flags", []string{"--kubeconfig=/nonexistent", "cleanup"}, `"cleanup"`),
		Entry("a word behind a command", []string{"cleanup", "everything"}, `"everything"`),
		Entry("a configuration file that is not there", []string{"--config=/nonexistent/config.yaml"}, "/nonexistent/config.yaml", "no such file"),
		Entry("several flags, each by its field", []string{
			"--service-cluster-ip-range=10.96.0.1/16,fd00::/48", "--reserved-networks=vpn=10.8.0.0", "--log-format=xml", "--kube-api-qps=100", "--kube-api-burst=10",
		}, "serviceClusterIPRange[0]", "serviceClusterIPRange[1]", "reservedNetworks[0].cidr", "log.format", "client.burst"),
	)

	DescribeTable("is refused with what is wrong in its file", func(ctx SpecContext, content string, complaints ...string) {
		path := filepath.Join(GinkgoT().TempDir(), "config.yaml")
		head := "apiVersion: config.clusterip-operator.io/v1alpha1\nkind: ManagerConfiguration\n"
		Expect(os.WriteFile(path, []byte(head+content), 0o600)).To(Succeed())
		refused(ctx, []string{"--config=" + path}, append(complaints, path)...)
	},
		Entry("no YAML", "log: [json\n", "not valid YAML", "line 3"),
		Entry("fields that do not exist", "bandLabel: {enabled: true}\nmetrics: {bindAdress: \":9443\"}\n", `"bandLabel"`, `"metrics.bindAdress"`),
		Entry("a value of another type", "nearlyFull: {freePercent: ten}\n", "nearlyFull.freePercent"),
	)
})
