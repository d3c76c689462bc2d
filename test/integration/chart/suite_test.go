// Package chart_test makes the Helm chart of config/ and has Helm lint, render, install, upgrade
// and uninstall it, as an admin does: with its program, on a control plane without nodes.
//
// Start with "The chart renders".
package chart_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

func TestChart(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "chart", Label("all")) // Helm is built for it
}

const (
	config = cluster.Repository + "/config"
	image  = "registry.example/team/manager:v1.2.3"
)

// made makes the chart of a config/, and returns the folder with what was made.
func made(ctx context.Context, config, version, image string) (out string) {
	GinkgoHelper()
	out = GinkgoT().TempDir()
	program := filepath.Join(suite.Must(framework.Assets("chart")), "chart")
	args := []string{"-version", version, "-image", image, config, cluster.Repository + "/LICENSE", out}
	output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return out
}

// chartOf is the chart of this tree, a folder.
func chartOf(ctx context.Context) string {
	return made(ctx, config, "v1.2.3", "") + "/clusterip-operator"
}

// admin is a user of Helm with an empty home.
type admin struct{ home, kubeconfig string }

func newAdmin(kubeconfig string) admin {
	GinkgoHelper()
	return admin{GinkgoT().TempDir(), kubeconfig}
}

func (a admin) environment() []string {
	GinkgoHelper()
	var folders []string
	for module, program := range map[string]string{"helm": "helm", "kubernetes-1.37": "kubectl"} {
		folders = append(folders, suite.Must(framework.Assets(module, program)))
	}
	return []string{"HOME=" + a.home, "KUBECONFIG=" + a.kubeconfig, "PATH=" + strings.Join(folders, ":") + ":/usr/local/bin:/usr/bin:/bin"}
}

// try runs Helm in the namespace of the operator, unless args name one, and returns its output.
func (a admin) try(ctx context.Context, args ...string) (output string, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(suite.Must(framework.Assets("helm", "helm")), "helm"), append([]string{"--namespace=" + cluster.OperatorNamespace}, args...)...)
	cmd.Env = a.environment()
	printed, err := cmd.CombinedOutput()
	return string(printed), err
}

func (a admin) helm(ctx context.Context, args ...string) string {
	GinkgoHelper()
	output, err := a.try(ctx, args...)
	Expect(err).NotTo(HaveOccurred(), output)
	return output
}

// rendered is what Helm makes of a chart with flags, "--set" for one.
func rendered(ctx context.Context, chart string, flags ...string) manifests.Manifests {
	GinkgoHelper()
	output := newAdmin("").helm(ctx, append([]string{"template", "release", chart}, flags...)...)
	return suite.Must(framework.ReadObjects(output))
}

var (
	service = regexp.MustCompile(`(?m)^    service:\n      name: .*\n      namespace: .*\n      path: (.*)\n      port: 443\n`)
	timeout = regexp.MustCompile(`timeoutSeconds: 2\n`)
)

// led changes the templates of the webhooks as [cluster.Cluster.LeadWebhooks] changes objects: no
// API server here reaches a Service.
func led(chart, port string) string {
	GinkgoHelper()
	files := suite.Must(filepath.Glob(chart + "/templates/*webhookconfiguration-*.yaml"))
	Expect(files).To(HaveLen(2))
	for _, file := range files {
		text := service.ReplaceAllString(string(suite.Must(os.ReadFile(file))), "    url: https://localhost:"+port+"$1\n")
		Expect(strings.Count(text, "url: ")).To(Equal(3))
		text = timeout.ReplaceAllString(text, "timeoutSeconds: 10\n")
		Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	}
	return chart
}
