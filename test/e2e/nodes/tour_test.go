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
		before := observeMachine(ctx)
		// Each step checks itself. A network of its own, for it would take this one, which nobody uses yet.
		tour := exec.CommandContext(ctx, "unshare", "--net", "go", "run", "./test/tour", "--once", "--nodes")
		tour.Dir = "../../.."
		out, err := tour.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		Expect(string(out)).To(And(ContainSubstring("node-2"), ContainSubstring("Every step did what it says.")))
		Expect(observeMachine(ctx)).To(Equal(before), "what the tour leaves on the machine")
	}, SpecTimeout(5*time.Minute))
})
