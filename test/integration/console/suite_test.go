// Package console_test opens `kubectl clusterip console` in a browser, as a user who may only look,
// on a cluster of 10,000 Services, and compares the screen with what the API server says.
//
// Start with console_test.go. CONSOLE_PICTURES=FOLDER keeps its pictures, as for docs/images.
package console_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestConsole(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "console", Label("all")) // it needs a browser
}

// services is how many copies there are of one Service.
const services = 2_000

var (
	c      *cluster.Cluster
	reader *cluster.Reader
	// address is where the console is.
	address string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	var audit []string
	reader, audit = cluster.NewReader()
	c = cluster.Start(ctx, cluster.Options{
		Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/12,fd00:10:96::/108", Args: audit}, Installed: true,
	})
	c.Create(ctx, cluster.Asking(cluster.Namespace, "template", "10.96.0.10", "fd00:10:96::10"))
	c.Stock(ctx, services, 30*24*time.Hour, "10.96.0.0/12", "fd00:10:96::/108")
	c.AddReplicas(ctx, 1)
	c.OfferRange(ctx, "team", map[string]string{"team": "blue"}, "10.200.0.0/25", "fd00:200::/121")
	c.CreateNamespace(ctx, "blue", map[string]string{"tenant": "blue"})
	c.Program(ctx, "blue", `{serviceCIDRs: [team], exclusive: true, coolDown: 1h, priority: 5, namespaceSelector: {matchLabels: {tenant: blue}},
		reservations: [{name: database, address: 10.200.0.64/28, for: blue/db}]}`)
	c.ApplyPolicy(ctx, "late", `{serviceCIDRs: [team], exclusive: true}`)
	for _, name := range []string{"web", "shop", "gone"} {
		c.Create(ctx, cluster.Dual("blue", name))
	}
	Expect(c.Client().CoreV1().Services("blue").Delete(ctx, "gone", metav1.DeleteOptions{})).To(Succeed())

	reader.Admit(ctx, c)
	address = open(ctx)
})

// A replica that could not renew its lease for ten seconds, as on a busy machine, has ended. In a
// cluster a kubelet would start it again.
var _ = BeforeEach(func(ctx SpecContext) {
	if len(c.Replicas()) == 0 {
		c.StartReplicas(ctx)
	}
})

// open starts a console and returns its address.
func open(ctx context.Context) string {
	GinkgoHelper()
	plugin, err := c.StartPlugin(ctx, framework.PluginOptions{Race: true, Kubeconfig: reader.Kubeconfig, Args: []string{"console", "--no-browser"}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plugin.Stop()).To(Succeed()) })
	Expect(plugin.WaitPrinted(ctx, "press Ctrl-C")).To(Succeed())
	return regexp.MustCompile(`http://127\.0\.0\.1:\d+/[A-Z2-7]{26}/`).FindString(plugin.LogTail(10))
}

// keep writes a picture where CONSOLE_PICTURES says.
func keep(name string, picture []byte) {
	GinkgoHelper()
	if folder := os.Getenv("CONSOLE_PICTURES"); folder != "" {
		Expect(os.WriteFile(filepath.Join(folder, "console-"+name+".png"), picture, 0o644)).To(Succeed()) //nolint:gosec // every user may see pictures
	}
}

// patience is how long a page may take to show a change: it polls every 2 s, and watches may pause.
const patience = time.Minute
