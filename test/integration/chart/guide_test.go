package chart_test

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework/guide"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// registry serves an OCI layout as if it was pushed, and returns its host and port.
func registry(archive string) string {
	GinkgoHelper()
	file := suite.Must(os.Open(archive))
	defer func() { Expect(file.Close()).To(Succeed()) }()
	files := map[string][]byte{}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		Expect(err).NotTo(HaveOccurred())
		files[header.Name] = suite.Must(io.ReadAll(reader))
	}
	var index struct {
		Manifests []struct {
			MediaType, Digest string
			Annotations       map[string]string
		}
	}
	Expect(json.Unmarshal(files["index.json"], &index)).To(Succeed())
	Expect(index.Manifests).To(HaveLen(1))
	manifest := index.Manifests[0]
	tag := manifest.Annotations["org.opencontainers.image.ref.name"]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		digest := path.Base(r.URL.Path)
		if strings.Contains(r.URL.Path, "/manifests/") {
			if digest == tag {
				digest = manifest.Digest
			}
			w.Header().Set("Content-Type", manifest.MediaType)
			w.Header().Set("Docker-Content-Digest", digest)
		}
		content, found := files["blobs/"+strings.Replace(digest, ":", "/", 1)]
		if !found {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content) // Helm may have gone
	}))
	DeferCleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// elsewhere marks the commands of the guide that are for this suite.
const elsewhere = "test/integration/chart runs it, with Helm"

// follow runs the commands under a heading of docs/guides/install.md with a registry of our own,
// and acts for nodes.
func follow(ctx context.Context, c *cluster.Cluster, heading string) {
	GinkgoHelper()
	host := registry(made(ctx, config, "v1.2.3", image) + "/chart.tar")
	shell := guide.Shell{Name: "docs/guides/install.md", Dir: GinkgoT().TempDir(), Env: newAdmin(c.Kubeconfig()).environment()}
	blocks := slices.DeleteFunc(suite.Must(guide.Read(filepath.Join(cluster.Repository, shell.Name))), func(b guide.Block) bool {
		return b.NotHere != elsewhere || b.Heading != heading
	})
	Expect(blocks).NotTo(BeEmpty())
	for _, block := range blocks {
		By(block.Commands)
		block.Commands = strings.ReplaceAll(block.Commands, "oci://ghcr.io/clusterip-operator/charts/", "--plain-http oci://"+host+"/charts/")
		ended := aside(func() { Expect(shell.Run(ctx, block)).To(Succeed()) })
		if strings.HasPrefix(block.Commands, "helm uninstall") {
			said, status := endJob(ctx, c)
			Expect(status).To(BeZero(), said)
		}
		Eventually(ended).Should(BeClosed())
		rollOut(ctx, c)
	}
}

// rollOut reports the Deployment's pods as ready.
func rollOut(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	deployments := c.Client().AppsV1().Deployments(cluster.OperatorNamespace)
	for _, d := range suite.Must(deployments.List(ctx, metav1.ListOptions{})).Items {
		n := *d.Spec.Replicas
		patch := suite.Must(json.Marshal(map[string]any{"status": appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		}}))
		Expect(deployments.Patch(ctx, d.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")).Error().NotTo(HaveOccurred())
	}
}

var _ = Describe("docs/guides/install.md", func() {
	var c *cluster.Cluster

	BeforeEach(func(ctx SpecContext) { c = cluster.Start(ctx, cluster.Options{WithoutOperator: true}) })

	It("installs from a registry, updates and leaves", func(ctx SpecContext) {
		follow(ctx, c, "## With Helm")
		Expect(ofOurs(ctx, c)).To(ConsistOf(HaveSuffix("servicecidrpolicies.clusterip-operator.io")))
		c.Kubectl(ctx, "delete", "crd", "servicecidrpolicies.clusterip-operator.io")
		namespace := suite.Must(c.Client().CoreV1().Namespaces().Get(ctx, cluster.OperatorNamespace, metav1.GetOptions{}))
		Expect(namespace.Labels).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "restricted"))
	})

	It("leads from kustomize to Helm without deleting anything", func(ctx SpecContext) {
		c.Kustomize(ctx, config+"/default")
		rollOut(ctx, c)
		identities := func() string {
			return c.Kubectl(ctx, "get", "deployments,crd,mutatingwebhookconfigurations,services,serviceaccounts,clusterroles", "-A", "-l", "app.kubernetes.io/name=clusterip-operator",
				"-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}`)
		}
		before := identities()
		follow(ctx, c, "### From kustomize to Helm")
		Expect(identities()).To(Equal(before))
		Expect(c.Kubectl(ctx, "get", "configmaps", "-n", cluster.OperatorNamespace, "-o", "name")).To(HaveLen(len("configmap/clusterip-operator-manager-config-0123456789\n")))
	})
})

var _ = It("The archive holds what is in the folder, and its digests are right", func(ctx SpecContext) {
	out := made(ctx, config, "v1.2.3", image)
	host := registry(out + "/chart.tar")
	a := newAdmin("")
	output := a.helm(ctx, "pull", "oci://"+host+"/charts/clusterip-operator", "--version=1.2.3", "--plain-http", "--destination="+a.home)
	Expect(output).To(ContainSubstring("Digest: sha256:"))
	pulled := suite.Must(os.ReadFile(a.home + "/clusterip-operator-1.2.3.tgz"))
	sum, want := sha256.Sum256(pulled), sha256.Sum256(suite.Must(os.ReadFile(out+"/clusterip-operator-1.2.3.tgz")))
	Expect(hex.EncodeToString(sum[:])).To(Equal(hex.EncodeToString(want[:])))
	Expect(rendered(ctx, out+"/clusterip-operator-1.2.3.tgz")).To(Equal(rendered(ctx, out+"/clusterip-operator")))
	Expect(a.helm(ctx, "show", "readme", out+"/clusterip-operator-1.2.3.tgz")).To(ContainSubstring("| `goMemoryLimit` |"))
})
