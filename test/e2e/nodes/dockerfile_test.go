package nodes_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// stage is one of the Dockerfile: what its lines have made of a folder.
type stage struct {
	root, workdir string
	settings      map[string]string // USER and ENTRYPOINT
}

// dockerfile follows the Dockerfile's lines without an engine: what runs finds only what was
// copied. It knows what ours uses. Programs are this machine's.
type dockerfile struct {
	source, scratch string
	stages          map[string]*stage
	last            *stage
	args            map[string]string
}

func (d *dockerfile) follow(ctx context.Context, line string) {
	GinkgoHelper()
	what, rest, _ := strings.Cut(line, " ")
	rest = os.Expand(rest, func(name string) string { return d.args[name] })
	words := strings.Fields(rest)
	switch what {
	case "ARG":
		for _, w := range words {
			if name, value, ok := strings.Cut(w, "="); ok && d.args[name] == "" {
				d.args[name] = value
			}
		}
	case "FROM":
		d.from(words)
	case "WORKDIR":
		d.last.workdir = rest
		Expect(os.MkdirAll(filepath.Join(d.last.root, rest), 0o755)).To(Succeed())
	case "COPY":
		d.copy(ctx, words)
	case "RUN":
		// What is absolute for the stage is in its folder here.
		command := strings.NewReplacer(" /out/", " "+d.last.root+"/out/", " /rootfs", " "+d.last.root+"/rootfs", "/hack/", d.last.root+"/hack/").Replace(rest)
		run := exec.CommandContext(ctx, "nsenter", machineNetwork(), "--", "bash", "-euc", command) // packages are downloaded
		run.Dir = filepath.Join(d.last.root, d.last.workdir)
		out, err := run.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, out)
	case "USER", "ENTRYPOINT":
		d.last.settings[what] = rest
	case "LABEL":
	default:
		Fail("the Dockerfile has a line that this test does not know: " + line)
	}
}

// from begins a stage, with what the one has that it is based on.
func (d *dockerfile) from(words []string) {
	GinkgoHelper()
	if strings.HasPrefix(words[0], "--platform=") {
		words = words[1:]
	}
	root := suite.Must(os.MkdirTemp(d.scratch, "stage-"))
	d.last = &stage{root: root, workdir: "/", settings: map[string]string{}}
	if base := d.stages[words[0]]; base != nil {
		Expect(os.CopyFS(root, os.DirFS(base.root))).To(Succeed())
		d.last.workdir = base.workdir
	}
	if len(words) == 3 {
		d.stages[words[2]] = d.last
	}
}

func (d *dockerfile) copy(ctx context.Context, words []string) {
	GinkgoHelper()
	from := d.source
	if name, ok := strings.CutPrefix(words[0], "--from="); ok {
		from, words = d.stages[name].root, words[1:]
	}
	to := words[len(words)-1]
	if !filepath.IsAbs(to) {
		to = filepath.Join(d.last.workdir, to) + "/"
	}
	to = d.last.root + to
	Expect(os.MkdirAll(to, 0o755)).To(Succeed())
	for _, w := range words[:len(words)-1] {
		path := filepath.Join(from, w)
		if strings.HasSuffix(w, "/") {
			path += "/." // a folder's content
		}
		out, err := exec.CommandContext(ctx, "cp", "-a", path, to).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
	}
}

// files are all that folders have, by path, each with its content or where it leads.
func files(folders ...string) map[string]string {
	GinkgoHelper()
	all := map[string]string{}
	for _, folder := range folders {
		Expect(filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			name := strings.TrimPrefix(path, folder)
			if entry.Type()&fs.ModeSymlink != 0 {
				all[name], err = os.Readlink(path)
				return err
			}
			content, err := os.ReadFile(path)
			all[name] = string(content)
			return err
		})).To(Succeed())
	}
	return all
}

var _ = Describe("The Dockerfile", func() {
	It("makes images of the same files as make images", func(ctx SpecContext) {
		root := suite.Must(framework.ModuleRoot())
		made := filepath.Join(cluster.Images(), runtime.GOARCH)
		text := suite.Must(os.ReadFile(filepath.Join(root, "Dockerfile")))
		d := &dockerfile{source: root, scratch: GinkgoT().TempDir(), stages: map[string]*stage{}, args: map[string]string{
			"TARGETOS": "linux", "TARGETARCH": runtime.GOARCH, "VERSION": os.Getenv("VERSION"), // which make gives the images as well
		}}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				d.follow(ctx, line)
			}
		}
		agent := d.stages["proxyagent"]
		expectSame(files(agent.root), files(filepath.Join(made, "packages"), filepath.Join(made, "proxyagent")))
		Expect(agent.settings).To(Equal(map[string]string{"ENTRYPOINT": `["/proxyagent"]`}))
		expectSame(files(d.last.root), files(filepath.Join(made, "manager")))
		Expect(d.last.settings).To(Equal(map[string]string{"ENTRYPOINT": `["/manager"]`, "USER": "65532:65532"}))
	}, SpecTimeout(10*time.Minute))
})

// expectSame compares without printing what programs consist of.
func expectSame(got, want map[string]string) {
	GinkgoHelper()
	Expect(want).NotTo(BeEmpty())
	var different []string
	for name, content := range want {
		if got[name] != content {
			different = append(different, name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			different = append(different, "only in the Dockerfile's: "+name)
		}
	}
	Expect(different).To(BeEmpty())
}
