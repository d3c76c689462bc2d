package guides_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/guide"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// exported are the variables that a terminal is to be given.
var exported = regexp.MustCompile(`(?m)^ +export ([A-Z]+)=(.*)$`)

// A newcomer goes on with the guides in what `make run` leaves. It runs here as in a terminal, and
// a reader's shell knows no more than what it has printed.
var _ = Describe("What make run leaves", Ordered, Label("long"), func() {
	var (
		tour   *exec.Cmd
		output *gbytes.Buffer
		shell  guide.Shell
	)

	BeforeAll(func(ctx SpecContext) {
		suite.Must(framework.PluginProgram()) // a cold build takes minutes
		tour, output = exec.Command(suite.Must(framework.TestProgram("./test/tour"))), gbytes.NewBuffer()
		tour.Dir, tour.Stdout, tour.Stderr = cluster.Repository, output, output
		Expect(tour.Start()).To(Succeed())
		ended := make(chan error, 1)
		go func() { ended <- tour.Wait() }()
		DeferCleanup(func() {
			Expect(tour.Process.Signal(os.Interrupt)).To(Succeed())
			Eventually(ended, "1m").Should(Receive(BeNil()), "Ctrl-C is its usual end")
		})
		Eventually(output, "4m").Should(gbytes.Say("Go on with the guides"))

		checkout, bin := GinkgoT().TempDir(), GinkgoT().TempDir()
		Expect(os.CopyFS(filepath.Join(checkout, "config"), os.DirFS(filepath.Join(cluster.Repository, "config")))).To(Succeed())
		shell = guide.Shell{Dir: checkout, Env: []string{"HOME=" + GinkgoT().TempDir(), "BIN=" + bin}}
		for _, variable := range exported.FindAllStringSubmatch(string(output.Contents()), -1) {
			shell.Env = append(shell.Env, variable[1]+"="+strings.ReplaceAll(variable[2], "$PATH", "/usr/local/bin:/usr/bin:/bin"))
		}
	}, NodeTimeout(5*time.Minute))

	follow := func(ctx context.Context, name string) {
		GinkgoHelper()
		shell.Name = name
		for _, block := range suite.Must(guide.Read(filepath.Join(cluster.Repository, name))) {
			if block.NotHere == "" {
				Expect(shell.Run(ctx, block)).To(Succeed())
			}
		}
	}

	DescribeTable("is a cluster in which the guides work", func(ctx SpecContext, name string) { follow(ctx, name) },
		Entry("quick start", "docs/guides/quick-start.md"),
		Entry("a full range", "docs/guides/full-range.md"),
		Entry("a team's own range", "docs/guides/team-range.md"),
		Entry("installation", "docs/guides/install.md"),
		Entry("the plugin", "docs/plugin.md"),
		Entry("troubleshooting", "docs/guides/troubleshooting.md"),
	)

	run := func(ctx context.Context, commands string, exit int) {
		GinkgoHelper()
		shell.Name = "a terminal"
		Expect(shell.Run(ctx, guide.Block{Line: 1, Commands: commands, Exit: exit})).To(Succeed())
	}

	It("is applied again without a conflict, and shows what differs", func(ctx SpecContext) {
		run(ctx, "kubectl apply --server-side -k config/default", 0)
		run(ctx, "kubectl diff --server-side -k config/default >diff || test $? -eq 1", 0) // above 1 is an error
	})

	It("is whole again soon when a program has died, and says so", func(ctx SpecContext) {
		Expect(syscall.Kill(childOf(tour.Process.Pid, "manager"), syscall.SIGKILL)).To(Succeed())
		Eventually(output, "30s").Should(gbytes.Say(`manager\S* ended with exit code -1 and is started again`))
		Eventually(output, "60s").Should(gbytes.Say("runs again"))
		run(ctx, "kubectl clusterip status --wait=60s", 0)
	})
})

// childOf is the process of a program that another process has started.
func childOf(parent int, program string) int {
	GinkgoHelper()
	for _, file := range suite.Must(filepath.Glob("/proc/[0-9]*/stat")) {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		var pid, of int
		var name, state string
		if _, err := fmt.Sscanf(string(stat), "%d %s %s %d", &pid, &name, &state, &of); err == nil && name == "("+program+")" && of == parent {
			return pid
		}
	}
	Fail("process " + strconv.Itoa(parent) + " has no child " + program)
	return 0
}
