package nodes_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// commandsOf are the blocks of commands under a heading of a guide, each as an administrator would paste it.
func commandsOf(guide, heading string) (blocks []string) {
	GinkgoHelper()
	root, err := framework.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, guide))
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	Expect(found).To(BeTrue(), "the heading %s in %s", heading, guide)
	section, _, _ = strings.Cut(section, "\n#")
	for i, part := range strings.Split(section, "```") {
		if i%2 == 1 {
			_, block, _ := strings.Cut(part, "\n") // without the name of the language
			blocks = append(blocks, block)
		}
	}
	Expect(blocks).NotTo(BeEmpty())
	return blocks
}

// paste runs a block of commands where config/ is the cluster's, and wants every command to succeed. A grep that finds nothing has succeeded.
func (c testCluster) paste(ctx context.Context, block string) {
	GinkgoHelper()
	programs, err := framework.Assets("kubernetes-1.36", "kubectl")
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(ctx, "bash", "-euc", "grep() { command grep \"$@\" || true; }\n"+block)
	cmd.Dir = filepath.Dir(c.config)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", block, out)
}
