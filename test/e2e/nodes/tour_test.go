//go:build linux

package nodes_test

import (
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("make run CLUSTER=1", func() {
	It("walks the tour in pods", func(ctx SpecContext) {
		before := lookAtMachine(ctx)
		tour := exec.CommandContext(ctx, "go", "run", "./test/tour", "--once", "--nodes") // each step checks itself
		tour.Dir = "../../.."
		out, err := tour.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		Expect(string(out)).To(And(ContainSubstring("node-2"), ContainSubstring("Every step did what it says.")))
		Expect(lookAtMachine(ctx)).To(Equal(before), "what the tour leaves on the machine")
	}, SpecTimeout(5*time.Minute))
})
