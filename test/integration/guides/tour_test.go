package guides_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// followed are the guides that work in what `make run` leaves, in a reader's order.
var followed = []string{
	"docs/guides/quick-start.md", "docs/guides/full-range.md", "docs/guides/team-range.md", "docs/guides/restore.md", "docs/guides/cordon.md", "docs/guides/install.md", "docs/plugin.md",
	"docs/guides/troubleshooting.md", "docs/guides/security.md", "docs/guides/how-it-works.md", "docs/guides/kube-proxy.md", "docs/guides/socket-load-balancing.md",
}

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

	// follow runs the commands of a guide that stand above the heading, empty for all.
	follow := func(ctx context.Context, name, heading string) {
		GinkgoHelper()
		shell.Name = name
		for _, block := range suite.Must(guide.Read(filepath.Join(cluster.Repository, name))) {
			if heading != "" && block.Heading == heading {
				return
			}
			if block.NotHere == "" {
				Expect(shell.Run(ctx, block)).To(Succeed())
			}
		}
	}

	for _, name := range followed {
		It("is a cluster in which "+name+" works", func(ctx SpecContext) { follow(ctx, name, "") })
	}

	It("is a cluster in which docs/guides/renumber.md works but for the default range", func(ctx SpecContext) {
		follow(ctx, "docs/guides/renumber.md", "# Replacing the default range")
	})

	It("says which guides need another control plane", func() {
		_, told, _ := strings.Cut(string(output.Contents()), "These need another control plane")
		all := []string{"docs/migration.md"}
		for _, file := range suite.Must(filepath.Glob(filepath.Join(cluster.Repository, "docs/guides/*.md"))) {
			all = append(all, "docs/guides/"+filepath.Base(file))
		}
		for _, name := range all {
			Expect(strings.Contains(told, name)).NotTo(Equal(slices.Contains(followed, name)), name)
		}
	})

	run := func(ctx context.Context, commands string, exit int) {
		GinkgoHelper()
		shell.Name = "a terminal"
		Expect(shell.Run(ctx, guide.Block{Line: 1, Commands: commands, Exit: exit})).To(Succeed())
	}

	It("is applied again without a conflict, and shows what differs", func(ctx SpecContext) {
		run(ctx, "kubectl apply --server-side -k config/default", 0)
		run(ctx, "kubectl diff --server-side -k config/default >diff || test $? -eq 1", 0) // above 1 is an error
	})

	It("opens the console by the command that it prints", func(ctx SpecContext) {
		command := regexp.MustCompile(`(?m)^ +(kubectl clusterip console) +#`).FindStringSubmatch(string(output.Contents()))
		Expect(command).To(HaveLen(2))
		printed := gbytes.NewBuffer()
		console := exec.Command("bash", "-c", "exec "+command[1]+" --no-browser")
		console.Dir, console.Env, console.Stdout, console.Stderr = shell.Dir, shell.Env, printed, printed
		Expect(console.Start()).To(Succeed())
		DeferCleanup(func() {
			Expect(console.Process.Signal(os.Interrupt)).To(Succeed())
			Expect(console.Wait()).To(Succeed())
		})
		Eventually(printed, "30s").Should(gbytes.Say("Ctrl-C"))
		address := regexp.MustCompile(`http://\S+/`).FindString(string(printed.Contents()))
		get := func(path string) string {
			GinkgoHelper()
			request := suite.Must(http.NewRequestWithContext(ctx, http.MethodGet, address+path, http.NoBody))
			answer := suite.Must(http.DefaultClient.Do(request))
			defer func() { _ = answer.Body.Close() }()
			Expect(answer).To(HaveHTTPStatus(http.StatusOK), path)
			return string(suite.Must(io.ReadAll(answer.Body)))
		}
		Expect(get("")).To(ContainSubstring("<title>clusterip console</title>"))
		Expect(get("api/ranges")).To(ContainSubstring("10.96.0.0/16"))
	})

	// The API server's admission, the namespace controller and the operator have to work again.
	DescribeTable("is whole again soon when a program has died, and says so", func(ctx SpecContext, program string) {
		// Ranges that a guide has deleted are findings until they go, ten seconds later.
		run(ctx, "for i in {1..90}; do kubectl get servicecidrs -o jsonpath='{.items[*].metadata.deletionTimestamp}' | grep -q . || break; sleep 1; done", 0)
		Expect(syscall.Kill(childOf(tour.Process.Pid, program), syscall.SIGKILL)).To(Succeed())
		Eventually(output, "30s").Should(gbytes.Say(program + `\S* ended with exit code -1 and is started again`))
		Eventually(output, "90s").Should(gbytes.Say(program + `\S* runs again`))
		run(ctx, "kubectl clusterip status --wait=60s", 0)
		run(ctx, "kubectl create namespace revived && kubectl -n revived create service clusterip web --tcp=80 && kubectl delete namespace revived --timeout=60s", 0)
		run(ctx, "kubectl clusterip check", 0)
	},
		Entry("the manager", "manager"),
		Entry("kube-controller-manager", "kube-controller-manager"),
		Entry("kube-apiserver", "kube-apiserver"),
		Entry("etcd", "etcd"),
	)
})

// childOf is the process of a program that another process has started. Linux keeps fifteen
// characters of its name.
func childOf(parent int, program string) int {
	GinkgoHelper()
	comm := "(" + program[:min(15, len(program))] + ")"
	for _, file := range suite.Must(filepath.Glob("/proc/[0-9]*/stat")) {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		var pid, of int
		var name, state string
		if _, err := fmt.Sscanf(string(stat), "%d %s %s %d", &pid, &name, &state, &of); err == nil && name == comm && of == parent {
			return pid
		}
	}
	Fail("process " + strconv.Itoa(parent) + " has no child " + program)
	return 0
}
