// Package release_test makes a release twice and compares the two.
package release_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

func TestRelease(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "release", Label("soak")) // programs for six platforms take minutes
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
	content, err := os.ReadFile(filepath.Join(path...))
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

var _ = It("is the same when it is made again", func(ctx SpecContext) {
	first, second := GinkgoT().TempDir(), GinkgoT().TempDir()
	for _, folder := range []string{first, second} {
		out, err := release(ctx, folder, "v1.2.3")
		Expect(err).NotTo(HaveOccurred(), out)
	}
	Expect(read(second, "SHA256SUMS")).To(Equal(read(first, "SHA256SUMS")))

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
		listed, err := exec.CommandContext(ctx, "tar", "-tzf", filepath.Join(first, filepath.Base(p.URI))).Output()
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Fields(string(listed))).To(ConsistOf("./", "./LICENSE", "./"+p.Bin))
	}
	for file, image := range map[string]string{"install.yaml": "manager", "proxyagent-beside-kube-proxy.yaml": "proxyagent"} {
		Expect(read(first, file)).To(ContainSubstring("image: registry.example/team/" + image + ":v1.2.3\n"))
	}
})

var _ = It("wants a version", func(ctx SpecContext) {
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3;reboot"} {
		out, err := release(ctx, GinkgoT().TempDir(), version)
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("is no version; write one as v1.2.3"))
	}
})
