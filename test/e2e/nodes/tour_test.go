package nodes_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

var _ = Describe("make run CLUSTER=1", func() {
	It("walks the tour in pods, beside what is left of one that was killed", func(ctx SpecContext) {
		program := suite.Must(framework.TestProgram("./test/tour"))
		folder := GinkgoT().TempDir()
		// tour begins in a new network, or it would take this one, unused as yet. Its steps check all.
		tour := func(ctx context.Context) (*exec.Cmd, *gbytes.Buffer) {
			cmd, output := exec.CommandContext(ctx, "unshare", "--net", program, "--once", "--nodes"), gbytes.NewBuffer()
			cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "../../..", append(os.Environ(), "TMPDIR="+folder), output, output
			return cmd, output
		}
		before := observeMachine(ctx)

		killed, output := tour(ctx)
		Expect(killed.Start()).To(Succeed())
		Eventually(output, "2m").Should(gbytes.Say("node-2"))
		Expect(killed.Process.Kill()).To(Succeed())
		Expect(killed.Wait()).NotTo(Succeed())
		left := suite.Must(filepath.Glob(filepath.Join(folder, "clusterip-operator-[0-9]*")))
		Expect(left).To(HaveLen(1))
		Expect(cgroupsOf(ctx, left[0])).NotTo(BeEmpty())

		second, output := tour(ctx)
		Expect(second.Run()).To(Succeed(), string(output.Contents()))
		Expect(output).To(And(gbytes.Say("node-2"), gbytes.Say("Every step did what it says.")))
		Expect(cgroupsOf(ctx, left[0])).To(BeEmpty())
		Expect(observeMachine(ctx)).To(Equal(before), "what the tour leaves on the machine")
	}, SpecTimeout(18*time.Minute))
})
