package release_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework/guide"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// elsewhere marks the commands of the guide that are for this suite.
const elsewhere = "test/integration/release runs it, with a release"

// verify runs the guide's commands, where no network is, in a copy of a release that change has
// changed, with the key that the user has.
func verify(ctx context.Context, release string, k key, change func(folder string)) (output string, err error) {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	Expect(os.CopyFS(folder, os.DirFS(release))).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "release.pub"), []byte(read(k.public)), 0o600)).To(Succeed())
	change(folder)
	blocks := slices.DeleteFunc(suite.Must(guide.Read(filepath.Join(root, "docs/guides/install.md"))), func(b guide.Block) bool { return b.NotHere != elsewhere })
	Expect(blocks).To(HaveLen(1))
	cmd := exec.CommandContext(ctx, "unshare", "--net", "bash", "-euc", blocks[0].Commands)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func expectVerified(ctx context.Context, release string, k key) {
	GinkgoHelper()
	out, err := verify(ctx, release, k, func(string) {})
	Expect(err).NotTo(HaveOccurred(), out)
	Expect(out).To(And(ContainSubstring("Trusted comment: clusterip-operator v1.2.3\n"), ContainSubstring("install.yaml: OK\n"), ContainSubstring("provenance.intoto.json: OK\n")))

	for what, c := range map[string]struct {
		key  key
		file string
		make func(string) string // of the file's text; nil takes the file away
		want string
	}{
		"a foreign key":       {newKey(ctx), "LICENSE", strings.ToUpper, "key"},
		"a changed byte":      {k, "install.yaml", func(text string) string { return "\n" + text[1:] }, "install.yaml: FAILED"},
		"a missing file":      {k, "chart.tar", nil, "chart.tar: FAILED open or read"},
		"a changed list":      {k, "SHA256SUMS", func(text string) string { return text[strings.Index(text, "\n")+1:] }, "Signature verification failed"},
		"no signature":        {k, "SHA256SUMS.minisig", nil, "SHA256SUMS.minisig"},
		"a changed signature": {k, "SHA256SUMS.minisig", func(text string) string { return strings.Replace(text, "v1.2.3", "v1.2.4", 1) }, "Comment signature verification failed"},
	} {
		out, err := verify(ctx, release, c.key, func(folder string) {
			path := filepath.Join(folder, c.file)
			switch {
			case c.key != k: // nothing else is wrong
			case c.make == nil:
				Expect(os.Remove(path)).To(Succeed())
			default:
				Expect(os.WriteFile(path, []byte(c.make(read(path))), 0o600)).To(Succeed())
			}
		})
		Expect(err).To(HaveOccurred(), what)
		Expect(out).To(ContainSubstring(c.want), what)
	}
}

// expectProvenance holds the provenance of a release against the release, and this checkout.
func expectProvenance(ctx context.Context, release string) {
	GinkgoHelper()
	type descriptor struct {
		Name   string
		Digest map[string]string
	}
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []descriptor
		Predicate     struct {
			BuildDefinition struct {
				BuildType          string
				ExternalParameters map[string]string
				InternalParameters struct {
					Go      map[string]string
					Ldflags string
				}
				ResolvedDependencies []descriptor
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	Expect(json.Unmarshal([]byte(read(release, "provenance.intoto.json")), &statement)).To(Succeed())
	Expect(statement.Type).To(Equal("https://in-toto.io/Statement/v1"))
	Expect(statement.PredicateType).To(Equal("https://slsa.dev/provenance/v1"))
	listed := ""
	for _, s := range statement.Subject {
		listed += s.Digest["sha256"] + "  " + s.Name + "\n"
	}
	without := slices.DeleteFunc(slices.Collect(strings.Lines(read(release, "SHA256SUMS"))), func(line string) bool {
		return strings.HasSuffix(line, "  provenance.intoto.json\n")
	})
	Expect(listed).To(Equal(strings.Join(without, "")), "it is about all other files")

	made := statement.Predicate.BuildDefinition
	commit := strings.TrimSpace(string(suite.Must(exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output())))
	Expect(made.ResolvedDependencies[0].Digest).To(Equal(map[string]string{"gitCommit": commit}))
	Expect(made.ExternalParameters).To(And(HaveKeyWithValue("version", "v1.2.3"), HaveKeyWithValue("commit", commit), HaveKeyWithValue("registry", "registry.example/team")))
	Expect(made.BuildType).To(HaveSuffix("/hack/release.sh"))
	Expect(statement.Predicate.RunDetails.Builder.ID).To(HaveSuffix("#how-to-release"))
	sums := strings.Fields(string(suite.Must(exec.CommandContext(ctx, "sha256sum", filepath.Join(root, "go.sum")).Output())))
	Expect(made.ResolvedDependencies).To(ContainElements(
		descriptor{"go.sum", map[string]string{"sha256": sums[0]}}, HaveField("Name", "hack/tools/sign/go.sum"),
		HaveField("Name", HavePrefix("iptables_1.8.9-2_amd64")), HaveField("Name", HavePrefix("iptables_1.8.9-2_arm64")),
	))
	Expect(made.InternalParameters.Go).To(And(
		HaveKeyWithValue("go", runtime.Version()), HaveKeyWithValue("GOARCH", "amd64 arm64"), HaveKeyWithValue("GOOS", "darwin linux windows"),
		HaveKeyWithValue("CGO_ENABLED", "0"), HaveKeyWithValue("-trimpath", "true"),
	))
	Expect(made.InternalParameters.Ldflags).To(ContainSubstring("version.stamped=v1.2.3"))
}
