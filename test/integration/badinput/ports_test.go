package badinput_test

import (
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// Another program sits on a port that the manager was told to use. On a node with host networking that is the usual mistake.
var _ = Describe("A port that is taken", func() {
	for _, flag := range []string{"--metrics-bind-address", "--health-probe-bind-address"} {
		It("ends the manager before it has written anything, with "+flag+" as the remedy", func(ctx SpecContext) {
			listener, err := net.Listen("tcp4", "127.0.0.1:0")
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(listener.Close)
			busy := listener.Addr().String()

			untouched(ctx, func() {
				manager := suite.Manager(ctx, cp, framework.ManagerOptions{NoWait: true, Args: []string{flag + "=" + busy}})
				ended(manager, time.Now(), 45*time.Second)
				Expect(manager.ExitCode()).To(Equal(couldNot))
				Expect(manager.LogTail(1)).To(And(ContainSubstring(busy), ContainSubstring("address already in use"), ContainSubstring(flag)))
			})
		})
	}

	// Started by hand, outside of a pod, nobody says where the Lease should be.
	It("is not even tried without a place for the Lease", func(ctx SpecContext) {
		untouched(ctx, func() {
			output, status := run(ctx, cp, framework.ManagerOptions{Args: []string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}})
			Expect(status).To(Equal(couldNot), output)
			Expect(output).To(And(ContainSubstring("--leader-election-namespace"), ContainSubstring("--leader-elect=false")))
		})
	})
})
