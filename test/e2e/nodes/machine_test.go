package nodes_test

import (
	"os"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// factorVariable holds deadlineFactor, which multiplies deadlines in an emulated machine.
const factorVariable = "NODES_TEST_DEADLINE_FACTOR"

// soon is the timeout of what takes seconds on a machine that is not busy with other slices.
const soon = 3 * time.Minute

var deadlineFactor = func() time.Duration {
	n, _ := strconv.Atoi(os.Getenv(factorVariable))
	return time.Duration(max(n, 1))
}()

var _ = Describe("A machine that has cgroups of version 2, and Debian's kernel", func() {
	It("has nodes that run the agent and the operator", func(ctx SpecContext) {
		self, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		// The network that this one remembers is not that of the machine.
		env := []string{networkVariable + "=", factorVariable + "=10", "MODULES=nf_conntrack br_netfilter"}
		Expect(framework.Script(ctx, env, "vm.sh", self, "-ginkgo.v", "-ginkgo.timeout=1h",
			"-ginkgo.focus=A cluster whose only Service proxy is the agent has (the agent on every node|two replicas of the manager)")).To(Succeed())
	}, SpecTimeout(time.Hour))
})
