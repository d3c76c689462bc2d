package badinput_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// An admin, or a template of theirs, hands the manager words and files that it does not understand. It reads all of them
// before it talks to a cluster, names every mistake of a kind at once, and ends with status 2.
var _ = Describe("A command line that makes no sense", func() {
	refused := func(ctx SpecContext, args []string, complaints ...string) {
		GinkgoHelper()
		untouched(ctx, func() {
			output, status := run(ctx, cp, framework.ManagerOptions{Args: args})
			Expect(status).To(Equal(notKnown), output)
			for _, complaint := range complaints {
				Expect(output).To(ContainSubstring(complaint))
			}
		})
	}

	DescribeTable("is refused with the words that were wrong", refused,
		Entry("a flag that does not exist", []string{"--band-lables"}, "unknown flag: --band-lables", "--help"),
		Entry("a command that does not exist", []string{"clean"}, `no command "clean"`, "--help"),
		Entry("a flag of another command", []string{"--dry-run"}, "unknown flag: --dry-run", "--help"),
		Entry("a number that is none", []string{"--kube-api-qps=many"}, "--kube-api-qps", `"many"`),
		Entry("a network without a name", []string{"--reserved-networks=10.8.0.0/16"}, "--reserved-networks", "NAME=CIDR"),
		// `--leader-elect false` is `--leader-elect` and a stray word: the opposite of what was meant.
		Entry("a value that is set off from its switch", []string{"--leader-elect", "false"}, `"false"`),
		// A command behind a flag would otherwise start the loops instead of the clean-up.
		Entry("a command behind the flags", []string{"--kubeconfig=/nonexistent", "cleanup"}, `"cleanup"`),
		Entry("a word behind a command", []string{"cleanup", "everything"}, `"everything"`),
		Entry("a configuration file that is not there", []string{"--config=/nonexistent/config.yaml"}, "/nonexistent/config.yaml", "no such file"),
	)

	It("is refused with every flag that was wrong, each by its field", func(ctx SpecContext) {
		refused(ctx, []string{
			"--service-cluster-ip-range=10.96.0.1/16,fd00::/48", "--reserved-networks=vpn=10.8.0.0", "--log-format=xml",
			"--metrics-bind-address=8443", "--kube-api-qps=100", "--kube-api-burst=10",
		}, "serviceClusterIPRange[0]", "serviceClusterIPRange[1]", "reservedNetworks[0].cidr", "log.format",
			"metrics.bindAddress", "client.burst")
	})

	It("is refused when its file is not YAML, with the file and the line", func(ctx SpecContext) {
		path := file("config.yaml", "apiVersion: config.clusterip-operator.io/v1alpha1\nkind: ManagerConfiguration\nlog: [json\n")
		refused(ctx, []string{"--config=" + path}, path, "not valid YAML", "line 3")
	})

	It("is refused when its file is of another kind", func(ctx SpecContext) {
		path := file("config.yaml", "apiVersion: v1\nkind: ConfigMap\n")
		refused(ctx, []string{"--config=" + path}, path, "config.clusterip-operator.io/v1alpha1", "ManagerConfiguration", "ConfigMap")
	})

	It("is refused when fields of its file do not exist, with all of them", func(ctx SpecContext) {
		path := file("config.yaml", `
apiVersion: config.clusterip-operator.io/v1alpha1
kind: ManagerConfiguration
bandLabel: {enabled: true}
metrics: {bindAdress: ":9443"}
log: {format: text, verbosity: 4}
reservedNetworks: [{name: vpn, network: 10.8.0.0/16}]
`)
		refused(ctx, []string{"--config=" + path}, path,
			`"bandLabel"`, `"metrics.bindAdress"`, `"log.verbosity"`, `"reservedNetworks[0].network"`)
	})

	It("is refused when values of its file are impossible, with all of them", func(ctx SpecContext) {
		path := file("config.yaml", `
apiVersion: config.clusterip-operator.io/v1alpha1
kind: ManagerConfiguration
serviceClusterIPRange: [10.96.0.0/16, 10.97.0.0/16]
reservedNetworks: [{cidr: 10.8.0.0/33}]
bandLabels: {enabled: true, qps: 0}
nearlyFull: {freePercent: 101, within: -1h}
metrics: {bindAddress: nowhere}
health: {bindAddress: "8081"}
client: {qps: -1, burst: -2}
log: {format: xml, level: 11}
`)
		refused(ctx, []string{"--config=" + path},
			"serviceClusterIPRange", "reservedNetworks[0].name", "reservedNetworks[0].cidr", "bandLabels.qps",
			"nearlyFull.freePercent", "nearlyFull.within", "metrics.bindAddress", "health.bindAddress",
			"client.qps", "client.burst", "log.format", "log.level")
	})

	It("is refused when a value of its file is of another type, with the field", func(ctx SpecContext) {
		path := file("config.yaml", `
apiVersion: config.clusterip-operator.io/v1alpha1
kind: ManagerConfiguration
nearlyFull: {freePercent: ten}
`)
		refused(ctx, []string{"--config=" + path}, path, "nearlyFull.freePercent")
	})
})
