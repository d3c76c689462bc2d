package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// The tool modules, folders of hack/tools, whose programs this package runs.
const (
	moduleEtcd = "etcd"
	// module137 has the newest control plane, its kubectl, and the kube-proxy to compare all with.
	module137 = "kubernetes-1.37"
)

// ModulePath is that of go.mod.
const ModulePath = "github.com/clusterip-operator/clusterip-operator"

// assets holds one lookup for each selection of programs, so that a process asks build.sh once.
var assets sync.Map // selection string -> func() (string, error)

// Assets returns the folder with a tool module's programs, all of them if none are named, and
// builds what this machine never built. A control plane takes minutes; its progress goes to stderr.
// The answer, or failure, is remembered for the life of the process. Safe for concurrent use.
func Assets(module string, programs ...string) (string, error) {
	selection := module
	if len(programs) > 0 {
		selection += ":" + strings.Join(programs, ",")
	}
	lookup, _ := assets.LoadOrStore(selection, sync.OnceValues(func() (string, error) { return buildAssets(selection) }))
	return lookup.(func() (string, error))()
}

// buildAssets runs build.sh for a selection, "module" or "module:program,program".
func buildAssets(selection string) (string, error) {
	if built, limited := os.LookupEnv("CLUSTERIP_BUILT"); limited && !covers(strings.Fields(built), selection) {
		return "", fmt.Errorf("building %s: these tests are to need no more than %s; give specs that do Label(\"all\")", selection, built)
	}
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(filepath.Join(root, "hack", "tools", "build.sh"), selection)
	cmd.Stdout = &stdout
	cmd.Stderr = io.MultiWriter(os.Stderr, &stderr)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building the programs of %s: %w: %s", selection, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// covers reports whether selections have all programs of another one. hack/test.sh limits what
// `make test` builds by it: where a program has been built before, a spec that takes minutes to
// build it elsewhere looks as fast as any.
func covers(selections []string, other string) bool {
	module, programs, _ := strings.Cut(other, ":")
	return slices.ContainsFunc(selections, func(s string) bool {
		of, has, some := strings.Cut(s, ":")
		if of != module || !some {
			return of == module
		}
		lacks := func(p string) bool { return !slices.Contains(strings.Split(has, ","), p) }
		return programs != "" && !slices.ContainsFunc(strings.Split(programs, ","), lacks)
	})
}

// program returns the path of a program. KUBEBUILDER_ASSETS replaces what it contains of the newest
// control plane, as it does for every project that tests with envtest; the rest is built.
func program(module, name string) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" && module == module137 {
		if path := filepath.Join(dir, name); isFile(path) {
			return path, nil
		}
	}
	dir, err := Assets(module, name)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, name), nil
}

// Programs returns the paths of the zero Version's etcd and API server, for envtest to start.
func Programs() (etcd, apiServer string, err error) {
	etcd, etcdErr := program(moduleEtcd, "etcd")
	apiServer, err = program(defaultVersion().module, "kube-apiserver")
	return etcd, apiServer, errors.Join(etcdErr, err)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// ModuleRoot walks up from the working directory to this module's folder. It looks for the name,
// not just a go.mod, because the tool modules under hack/tools are modules of their own.
func ModuleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(content, []byte("module "+ModulePath+"\n")) {
			return dir, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("finding the module: %w", err)
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding the module: %s is not inside a checkout of %s", start, ModulePath)
		}
	}
}

// Packages returns a cached folder with Debian packages and their dependencies, not installed.
func Packages(ctx context.Context, names ...string) (string, error) {
	return cached("debian-"+strings.Join(names, "-"), func(_, dir string) error {
		return Script(ctx, nil, "packages.sh", append([]string{runtime.GOARCH, dir}, names...)...)
	})
}

// previous is the commit of the last release, and before the first one a commit of main: tests
// update from it. The commit after a release sets it; it is no tag, because a clone may have none.
const previous = "430b509faea0c2dd70490e762460dfa0126e0fd8"

// PreviousVersion returns a cached folder of the last version's files, from the git history.
func PreviousVersion(ctx context.Context) (string, error) {
	return cached("previous-"+previous, func(root, dir string) error {
		cmd := exec.CommandContext(ctx, "bash", "-c", `set -o pipefail; git archive "$0" | tar -x -C "$1"`, previous, dir)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("reading commit %s: %w: %s; a shallow clone needs git fetch --unshallow", previous, err, out)
		}
		return nil
	})
}

// PreviousProgram builds a program of the version before, "manager" for one, and returns its path.
func PreviousProgram(ctx context.Context, name string) (string, error) {
	tree, err := PreviousVersion(ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(tree, "bin", name)
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", tree, "-o", path, "./cmd/"+name).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s of commit %s: %w: %s", name, previous, err, out)
	}
	return path, nil
}

// cached returns a folder of the cache; fill, told the module's root, fills it if it is missing.
func cached(name string, fill func(root, dir string) error) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, name)
	if isDir(dir) {
		return dir, nil
	}
	work, err := os.MkdirTemp(cache, name+"-")
	if err != nil {
		return "", err
	}
	if err := fill(root, work); err != nil {
		return "", errors.Join(err, os.RemoveAll(work))
	}
	if err := os.Rename(work, dir); err != nil && !isDir(dir) { // another process was faster
		return "", err
	}
	return dir, nil
}

// Images makes images of hack/images.sh, and returns the folder of NAME.tar. Progress is on stderr.
func Images(ctx context.Context, names ...string) (string, error) {
	_, dir, err := checkout()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "images")
	return dir, Script(ctx, []string{"OUT=" + dir, "ARCHS=" + runtime.GOARCH, "IMAGES=" + strings.Join(names, " ")}, "images.sh")
}

// Script runs a script of hack/ with env. Its output is on stderr, and in the error if it fails.
func Script(ctx context.Context, env []string, name string, args ...string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "hack", name), args...)
	cmd.Env = append(os.Environ(), env...)
	var output bytes.Buffer
	cmd.Stdout = io.MultiWriter(os.Stderr, &output)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running hack/%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(output.String()))
	}
	return nil
}
