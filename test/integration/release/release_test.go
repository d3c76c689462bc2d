// Package release_test makes a release twice and compares the two.
package release_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

func TestRelease(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "release", Label("soak")) // programs for six platforms and two images take minutes
}

// release runs hack/release.sh.
func release(ctx context.Context, folder, version string) (output string, err error) {
	cmd := exec.CommandContext(ctx, "../../../hack/release.sh", version)
	cmd.Env = append(os.Environ(), "OUT="+folder, "REGISTRY=registry.example/team")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func read(path ...string) string {
	GinkgoHelper()
	content := suite.Must(os.ReadFile(filepath.Join(path...)))
	return string(content)
}

// pushed is an image's digest in a registry: that of the index for both architectures in archive.
func pushed(archive, image string) string {
	GinkgoHelper()
	file := func(name string) []byte {
		content, err := exec.Command("tar", "-xOf", archive, name).Output()
		Expect(err).NotTo(HaveOccurred(), "%s of %s", name, archive)
		return content
	}
	var top, index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
			Platform    struct{ Architecture string }
		}
	}
	Expect(json.Unmarshal(file("index.json"), &top)).To(Succeed())
	Expect(top.Manifests).To(HaveLen(1))
	Expect(top.Manifests[0].Annotations).To(HaveKeyWithValue("io.containerd.image.name", image))
	content := file("blobs/" + strings.Replace(top.Manifests[0].Digest, ":", "/", 1))
	Expect(json.Unmarshal(content, &index)).To(Succeed())
	Expect(index.Manifests).To(HaveLen(2))
	Expect([]string{index.Manifests[0].Platform.Architecture, index.Manifests[1].Platform.Architecture}).To(ConsistOf("amd64", "arm64"))
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// expectMadeOf looks for components in a document of CycloneDX, by parts of their package URLs.
func expectMadeOf(document string, parts ...string) {
	GinkgoHelper()
	var sbom struct {
		BOMFormat  string
		Components []struct{ PURL string }
	}
	Expect(json.Unmarshal([]byte(document), &sbom)).To(Succeed())
	Expect(sbom.BOMFormat).To(Equal("CycloneDX"))
	for _, part := range parts {
		Expect(sbom.Components).To(ContainElement(HaveField("PURL", ContainSubstring(part))))
	}
}

var _ = It("is the same when it is made again", func(ctx SpecContext) {
	first, second := GinkgoT().TempDir(), GinkgoT().TempDir()
	for _, folder := range []string{first, second} {
		out, err := release(ctx, folder, "v1.2.3")
		Expect(err).NotTo(HaveOccurred(), out)
	}
	Expect(read(second, "SHA256SUMS")).To(Equal(read(first, "SHA256SUMS")))
	Expect(strings.Fields(read(first, "SHA256SUMS"))).To(ContainElements("manager.tar", "proxyagent.cdx.json", "install.yaml", "clusterip-operator-1.2.3.tgz", "chart.tar"))

	var krew struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, Sha256, Bin string }
		}
	}
	Expect(yaml.Unmarshal([]byte(read(first, "clusterip.yaml")), &krew)).To(Succeed())
	Expect(krew.Spec.Version).To(Equal("v1.2.3"))
	Expect(krew.Spec.Platforms).To(HaveLen(6))
	for _, p := range krew.Spec.Platforms {
		sum := sha256.Sum256([]byte(read(first, filepath.Base(p.URI))))
		Expect(p.Sha256).To(Equal(hex.EncodeToString(sum[:])), p.URI)
		listed := suite.Must(exec.CommandContext(ctx, "tar", "-tzf", filepath.Join(first, filepath.Base(p.URI))).Output())
		Expect(strings.Fields(string(listed))).To(ConsistOf("./", "./LICENSE", "./"+p.Bin))
	}
	for image, files := range map[string][]string{
		"manager":    {"install.yaml", "uninstall.yaml"},
		"proxyagent": {"proxyagent-beside-kube-proxy.yaml", "proxyagent-replace-kube-proxy.yaml", "proxyagent-uninstall.yaml"},
	} {
		name := "registry.example/team/" + image + ":v1.2.3"
		pinned := name + "@" + pushed(filepath.Join(first, image+".tar"), name)
		for _, file := range files {
			images := regexp.MustCompile(`(?m)image: (.*)$`).FindAllStringSubmatch(read(first, file), -1)
			Expect(images).To(HaveEach(HaveExactElements(HavePrefix("image: "), Equal(pinned))), file)
		}
	}
	deployment := suite.Must(exec.CommandContext(ctx, "tar", "-xzOf", filepath.Join(first, "clusterip-operator-1.2.3.tgz"), "clusterip-operator/templates/deployment-manager.yaml").Output())
	manager := "registry.example/team/manager:v1.2.3"
	Expect(string(deployment)).To(ContainSubstring(`default "` + manager + "@" + pushed(filepath.Join(first, "manager.tar"), manager) + `"`))
	expectMadeOf(read(first, "kubectl-clusterip.cdx.json"), "golang/github.com/spf13/cobra@v", "golang/github.com/inconshreveable/mousetrap@v") // of Windows alone
	expectMadeOf(read(first, "manager.cdx.json"), "golang/sigs.k8s.io/controller-runtime@v", "golang/std@1.")
	expectMadeOf(read(first, "proxyagent.cdx.json"), "golang/github.com/google/nftables@v", "deb/debian/iptables@1.8.9-2?arch=amd64&", "deb/debian/libc6@2.36-", "?arch=arm64&")
})

var _ = It("wants a version", func(ctx SpecContext) {
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3;reboot"} {
		out, err := release(ctx, GinkgoT().TempDir(), version)
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("is no version; write one as v1.2.3"))
	}
})
