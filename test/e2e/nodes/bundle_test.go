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
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// bundle makes a bundle, and unpacks it. It returns the folder.
func (c testCluster) bundle(ctx context.Context, args ...string) string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	file := filepath.Join(folder, "bundle.tar.gz")
	suite.Exits(0, suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Args: append([]string{"bundle", "-o", file}, args...)})))
	out, err := exec.CommandContext(ctx, "tar", "-xzf", file, "-C", folder).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return filepath.Join(folder, "clusterip-bundle")
}

// expectBundled wants logs of the operator and of all agents in a bundle, and what agents serve.
// It returns the text of all files.
func (c testCluster) expectBundled(ctx context.Context, folder string) string {
	GinkgoHelper()
	read := func(name string) string {
		GinkgoHelper()
		return string(suite.Must(os.ReadFile(filepath.Join(folder, name))))
	}
	Expect(read("errors.txt")).To(BeEmpty(), "an admin may read all")
	managers, agents := c.podsOf(ctx, operatorNamespace, "manager"), c.podsOf(ctx, "kube-system", "proxyagent")
	Expect(managers).To(HaveLen(2))
	Expect(agents).To(HaveLen(len(c.Nodes)))
	for _, pod := range managers {
		Expect(read("logs/"+pod+".txt")).To(ContainSubstring(`"msg":"Setting up the loops"`), pod)
	}
	for _, pod := range agents {
		Expect(read("logs/"+pod+".txt")).To(ContainSubstring(`"msg":"`), pod)
		Expect(read("agents/"+pod+".dump.txt")).To(MatchRegexp(`(?m)^Served with .*\nIPv4: [1-9]\d* Service ports, 0 disputed addresses, 2 ServiceCIDRs, `), pod)
	}
	var all strings.Builder
	Expect(filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all.WriteString(path + "\n" + string(suite.Must(os.ReadFile(path))))
		}
		return err
	})).To(Succeed())
	return all.String()
}

// podsOf are the names of the pods of a component.
func (c testCluster) podsOf(ctx context.Context, namespace, component string) []string {
	GinkgoHelper()
	return strings.Fields(c.kubectl(ctx, "--namespace="+namespace, "get", "pods", "--selector=app.kubernetes.io/name=clusterip-operator,app.kubernetes.io/component="+component,
		"-o", "jsonpath={.items[*].metadata.name}"))
}
