package nodes_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// previousVariable names the folder of the version before, which has its image.
const previousVariable = "CLUSTERIP_PREVIOUS"

// fetchPrevious makes the last version's image with today's scripts; the environment says where.
func fetchPrevious(ctx context.Context) error {
	if os.Getenv(previousVariable) != "" {
		return nil
	}
	tree, err := framework.PreviousVersion(ctx)
	if err != nil {
		return err
	}
	env := []string{"SOURCE=" + tree, "OUT=" + filepath.Join(tree, "bin", "images"), "ARCHS=" + runtime.GOARCH, "IMAGES=manager", "IMG=clusterip-operator/manager:before"}
	if err := framework.Script(ctx, env, "images.sh"); err != nil {
		return err
	}
	return os.Setenv(previousVariable, tree)
}

var _ = Describe("A cluster with the version before", func() {
	It("is updated by the commands of the guide, which leave nothing of the version before, and Services go on", func(ctx SpecContext) {
		c, tree := start(ctx, cluster.Options{Images: images}), os.Getenv(previousVariable)
		for _, n := range c.Nodes {
			_, err := n.Run(ctx, "ctr", "--namespace=k8s.io", "images", "import", filepath.Join(tree, "bin", "images", "manager.tar"))
			Expect(err).NotTo(HaveOccurred())
		}
		c.kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(c.config, "proxyagent"))
		before := filepath.Join(c.Dir(), "before.yaml")
		manifests := strings.ReplaceAll(c.kubectl(ctx, "kustomize", filepath.Join(tree, "config", "default")), "clusterip-operator/manager:dev", "clusterip-operator/manager:before")
		Expect(os.WriteFile(before, []byte(manifests), 0o600)).To(Succeed())
		c.kubectl(ctx, "apply", "--server-side", "-f", before)
		c.kubectl(ctx, "rollout", "status", "--namespace="+operatorNamespace, "deployment/clusterip-operator-manager", "--timeout=3m")
		c.kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(tree, "config", "samples", "servicecidrpolicy_tenant.yaml"))
		c.kubectl(ctx, "wait", "servicecidrpolicy", "sample-tenant", "--for=condition=Programmed", "--timeout=3m")

		created := startCreations(c)
		for _, block := range commandsOf("docs/guides/install.md", "## Updating") {
			c.paste(ctx, block)
		}
		Expect(created.end()).To(BeEmpty(), "creations that went astray")
		Expect(steeredForAWhile(c)).To(BeEmpty())

		const kinds = "crds,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,namespaces," +
			"roles,rolebindings,serviceaccounts,configmaps,services,deployments,poddisruptionbudgets,networkpolicies"
		there := c.kubectl(ctx, "get", kinds, "--all-namespaces", "--selector=app.kubernetes.io/name=clusterip-operator", "-o", "name")
		var wanted []string
		for _, overlay := range []string{"default", "proxyagent"} {
			wanted = append(wanted, strings.Fields(c.kubectl(ctx, "get", "-k", filepath.Join(c.config, overlay), "-o", "name"))...)
		}
		Expect(wanted).To(ContainElements(strings.Fields(there)))

		c.kubectl(ctx, "patch", "servicecidrpolicy", "sample-tenant", "--type=merge", "--patch", `{"spec": {"enforcement": "APIServer"}}`)
		c.kubectl(ctx, "wait", "servicecidrpolicy", "sample-tenant", "--for=condition=Enforced", "--timeout=3m")
	}, SpecTimeout(18*time.Minute))
})
