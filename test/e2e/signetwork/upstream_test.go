package signetwork_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// toolModule has the specs, agnhost, and the ginkgo that runs specs in parallel processes.
const toolModule = "sig-network"

// selected are the specs' labels, but for those whose needs this cluster lacks, as test/conformance
// explains. skipped has no label for that.
const selected, skipped = "!Disruptive && Feature: isSubsetOf IPv6DualStack", "should forward PTR records lookup to upstream nameserver"

// registry is where specs look for images, in place of Kubernetes' own; the nodes have all of them.
const registry = "docker.io/clusterip-operator"

// names are the images that specs ask for; agnhost has the programs that most of them call.
var names = map[string]string{
	"agnhost:2.66.1": "agnhost", "busybox:1.37.0-2": "agnhost", "distroless-iptables:v0.9.9": "agnhost", "glibc-dns-testing:2.1.1": "agnhost", "nginx:1.27.0-2": "agnhost",
	"pause:3.10.2": "pause", "regression-issue-74839:1.5": "regression-issue-74839",
}

func nameImages(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	for _, n := range c.Nodes {
		for name, ours := range names {
			suite.Must(n.Run(ctx, "ctr", "--namespace=k8s.io", "images", "tag", registry+"/"+ours+":dev", registry+"/"+name))
		}
	}
}

// run runs the specs in the first node's network, this one, and leaves a report in bin/sig-network.
func run(ctx context.Context, c *cluster.Cluster, name string) types.Report {
	GinkgoHelper()
	kubectl := suite.Must(framework.Assets("kubernetes-1.37", "kubectl"))
	programs := suite.Must(framework.Assets(toolModule))
	root := suite.Must(framework.ModuleRoot())
	folder := filepath.Join(root, "bin", "sig-network")
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())

	program := filepath.Join(c.Dir(), "sig-network.test") // by this name ginkgo knows what it runs
	Expect(os.Symlink(filepath.Join(programs, "sig-network"), program)).To(Succeed())
	images := filepath.Join(c.Dir(), "images.yaml")
	Expect(os.WriteFile(images, []byte(strings.ReplaceAll("promoterE2eRegistry: $\ngcRegistry: $\nbuildImageRegistry: $\n", "$", registry)), 0o600)).To(Succeed())
	log := suite.Must(os.Create(filepath.Join(folder, name+".log")))

	cmd := exec.CommandContext(ctx, filepath.Join(programs, "ginkgo"), "--procs=4", "--timeout=70m", "--no-color", "--silence-skips", "--keep-going",
		`--focus=\[sig-network\]`, "--skip="+skipped, "--label-filter="+selected, "--output-dir="+folder, "--json-report="+name+".json", program, "--",
		"--kubeconfig="+c.Kubeconfig(), "--provider=local", "--num-nodes=6", "--allowed-not-ready-nodes=-1", "--dump-logs-on-failure=false")
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir(), log, log
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, time.Minute // ginkgo ends its processes
	cmd.Env = append(os.Environ(), "KUBE_TEST_REPO_LIST="+images, "PATH="+kubectl+":"+os.Getenv("PATH"))
	_ = cmd.Run() // it fails if a spec has; the report says which
	Expect(log.Close()).To(Succeed())
	return readReport(filepath.Join(folder, name+".json"))
}

func readReport(file string) types.Report {
	GinkgoHelper()
	text := suite.Must(os.ReadFile(file))
	var reports []types.Report
	Expect(json.Unmarshal(text, &reports)).To(Succeed())
	Expect(reports).To(HaveLen(1))
	return reports[0]
}

// failed are the specs that have failed, each with the first line that says why.
func failed(report types.Report) (all []string) {
	for _, s := range report.SpecReports {
		if s.Failed() {
			why, _, _ := strings.Cut(s.Failure.Message, "\n")
			all = append(all, s.FullText()+": "+why)
		}
	}
	return all
}
