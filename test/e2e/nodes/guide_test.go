package nodes_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/guide"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// commandsOf are the blocks of commands under a guide's heading, as an admin would paste them.
func commandsOf(name, heading string) (commands []string) {
	GinkgoHelper()
	root := suite.Must(framework.ModuleRoot())
	blocks := suite.Must(guide.Read(filepath.Join(root, name)))
	for _, block := range blocks {
		if block.Heading == heading && !block.Given {
			commands = append(commands, block.Commands)
		}
	}
	Expect(commands).NotTo(BeEmpty(), "commands under %s in %s", heading, name)
	return commands
}

// paste runs commands with the cluster's config/. All must succeed; a grep may find nothing.
func (c testCluster) paste(ctx context.Context, block string) {
	GinkgoHelper()
	programs := suite.Must(framework.Assets("kubernetes-1.37", "kubectl"))
	cmd := exec.CommandContext(ctx, "bash", "-euc", "grep() { command grep \"$@\" || true; }\n"+block)
	cmd.Dir = filepath.Dir(c.config)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", block, out)
}
