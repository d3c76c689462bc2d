// Package release_test makes a release twice, compares the two, and verifies it as users do.
package release_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
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

// root is the repository's folder.
const root = "../../.."

// release runs hack/release.sh of a repository, with more variables than those of the environment.
func release(ctx context.Context, repository, folder, version string, more ...string) (output string, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(repository, "hack/release.sh"), version)
	cmd.Env = append(os.Environ(), append(more, "OUT="+folder, "REGISTRY=registry.example/team")...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// results are what `make soak` has rewritten in the checkout by the time that this suite runs.
const results = ":(top,exclude)docs/reference/soak*"

// clone is the checkout's commit, which a release can be made of while there are new results.
// Whatever else differs is refused: the release would not be of what is being tested.
func clone(ctx context.Context) string {
	GinkgoHelper()
	differs := suite.Must(exec.CommandContext(ctx, "git", "-C", root, "status", "--porcelain", "--", results).Output())
	Expect(string(differs)).To(BeEmpty(), "commit first")
	folder := filepath.Join(GinkgoT().TempDir(), "clone")
	said, err := exec.CommandContext(ctx, "git", "clone", "--quiet", "--depth=1", "file://"+suite.Must(filepath.Abs(root)), folder).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(said))
	return folder
}

// key is a new pair of keys, in files.
type key struct{ public, secret string }

func newKey(ctx context.Context) key {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	k := key{filepath.Join(folder, "release.pub"), filepath.Join(folder, "release.key")}
	out, err := exec.CommandContext(ctx, "minisign", "-G", "-W", "-p", k.public, "-s", k.secret).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return k
}

// variables are what a release with that key is made with.
func (k key) variables() []string {
	return []string{"PUBLIC_KEY=" + k.public, "MINISIGN_KEY_FILE=" + k.secret}
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

var _ = Describe("a release", Ordered, func() {
	var commit, first string
	var signer key

	BeforeAll(func(ctx SpecContext) {
		commit, first, signer = clone(ctx), GinkgoT().TempDir(), newKey(ctx)
		out, err := release(ctx, commit, first, "v1.2.3", signer.variables()...)
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(HaveSuffix(", signed with the key of " + signer.public + "\n"))
	})

	It("is the same when it is made again, without a key", func(ctx SpecContext) {
		second := GinkgoT().TempDir()
		out, err := release(ctx, commit, second, "v1.2.3", "UNSIGNED=yes")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(HaveSuffix(", UNSIGNED: it is not to be published\n"))
		Expect(filepath.Join(second, "SHA256SUMS.minisig")).NotTo(BeAnExistingFile())
		Expect(read(second, "SHA256SUMS")).To(Equal(read(first, "SHA256SUMS")))
	})

	It("has images by digests, and says what programs are made of", func(ctx SpecContext) { expectComplete(ctx, first) })

	It("is verified without a network, as the guide says", func(ctx SpecContext) {
		expectVerified(ctx, first, signer)
	})

	It("says how it was made", func(ctx SpecContext) { expectProvenance(ctx, first) })

	It("does not hold the secret key", func() {
		secret := strings.Fields(read(signer.secret))
		Expect(filepath.WalkDir(first, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				Expect(strings.Contains(read(path), secret[len(secret)-1])).To(BeFalse(), path)
			}
			return err
		})).To(Succeed())
	})
})

// expectComplete looks at the files of a release, but for how it is signed.
func expectComplete(ctx context.Context, first string) {
	GinkgoHelper()
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
}

var _ = It("wants a version", func(ctx SpecContext) {
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3;reboot", "v1.2.3-."} {
		out, err := release(ctx, root, GinkgoT().TempDir(), version)
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("is no version; write one as v1.2.3"))
	}
})

var _ = It("wants the key that users verify with", func(ctx SpecContext) {
	commit, signer, foreign, out := clone(ctx), newKey(ctx), newKey(ctx), filepath.Join(GinkgoT().TempDir(), "release")
	for want, variables := range map[string][]string{
		"set MINISIGN_KEY_FILE to its file":   {"PUBLIC_KEY=" + signer.public},
		"is not that of " + signer.public:     {"PUBLIC_KEY=" + signer.public, "MINISIGN_KEY_FILE=" + foreign.secret},
		"reading the public key /missing.pub": {"PUBLIC_KEY=/missing.pub", "MINISIGN_KEY_FILE=" + signer.secret},
	} {
		said, err := release(ctx, commit, out, "v1.2.3", variables...)
		Expect(err).To(HaveOccurred())
		Expect(said).To(And(ContainSubstring(want), ContainSubstring("UNSIGNED=yes makes one to look at")))
		Expect(out).NotTo(BeADirectory(), "it says so before it builds")
	}
})

var _ = It("is of a commit", func(ctx SpecContext) {
	commit := clone(ctx)
	for _, args := range [][]string{
		{"tag", "v1.2.3"},
		{"-c", "user.name=another", "-c", "user.email=another@example.com", "commit", "--quiet", "--allow-empty", "--message=another commit"},
	} {
		said, err := exec.CommandContext(ctx, "git", append([]string{"-C", commit}, args...)...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(said))
	}
	out, err := release(ctx, commit, GinkgoT().TempDir(), "v1.2.3", newKey(ctx).variables()...)
	Expect(err).To(HaveOccurred())
	Expect(out).To(ContainSubstring("v1.2.3 is the tag of another commit"))

	Expect(os.WriteFile(filepath.Join(commit, "cmd", "manager", "more.go"), []byte("package main\n"), 0o600)).To(Succeed())
	out, err = release(ctx, commit, GinkgoT().TempDir(), "v1.2.3", newKey(ctx).variables()...)
	Expect(err).To(HaveOccurred())
	Expect(out).To(ContainSubstring("the tree differs from its commit (git status): commit first"))
})
