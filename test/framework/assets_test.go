package framework

import (
	"os/exec"
	"strings"
	"testing"
)

// lastRelease is the commit of the last release before HEAD by the tags of a repository, and empty
// where there is none: in a clone without tags nothing can be told. Versions such as v1.2.3-rc.1
// are no releases to update from.
func lastRelease(t *testing.T, repository string) string {
	t.Helper()
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", repository}, args...)...).Output()
		if err != nil {
			t.Logf("git %s: %v", strings.Join(args, " "), err) // as where there is no repository
		}
		return strings.TrimSpace(string(out))
	}
	for tag := range strings.FieldsSeq(git("tag", "--list", "v*", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-v:refname")) {
		if !strings.Contains(tag, "-") {
			return git("rev-parse", tag+"^{commit}")
		}
	}
	return ""
}

// TestUpdatesBeginAtTheLastRelease fails from the commit after a release on until previous follows.
func TestUpdatesBeginAtTheLastRelease(t *testing.T) {
	root, err := ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if last := lastRelease(t, root); last != "" && last != previous {
		t.Errorf("previous in assets.go is %s; the last release is commit %s", previous, last)
	}
}

func TestLastRelease(t *testing.T) {
	repository := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-C", repository, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	want := func(commit string) {
		t.Helper()
		if got := lastRelease(t, repository); got != commit {
			t.Errorf("the last release is %q, want %q", got, commit)
		}
	}
	git("init", "-q")
	release := func(version string) (commit string) {
		t.Helper()
		git("commit", "-q", "--allow-empty", "-m", version)
		git("tag", "-a", "-m", version, version)
		out, err := exec.Command("git", "-C", repository, "rev-parse", "HEAD").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	ninth := release("v0.9.0")
	want("") // it is HEAD itself, which updates from the one before
	tenth := release("v0.10.0")
	want(ninth)
	release("v0.11.0-rc.1")
	want(tenth)
	release("v0.11.0")
	want(tenth)
}

func TestWhatIsBuiltCoversWhatIsAskedFor(t *testing.T) {
	built := []string{"etcd", "kubernetes-1.37:kube-apiserver,kubectl"}
	for selection, want := range map[string]bool{
		"etcd": true, "etcd:etcd": true, "kubernetes-1.37:kubectl": true, "kubernetes-1.37:kubectl,kube-apiserver": true,
		"kubernetes-1.37:kube-proxy": false, "kubernetes-1.37:kubectl,kube-proxy": false, "kubernetes-1.37": false,
		"kubernetes-1.32:kube-apiserver": false, "promtool": false,
	} {
		if got := covers(built, selection); got != want {
			t.Errorf("%s is covered: %t", selection, got)
		}
	}
}

// TestNoMoreIsBuiltThanIsAllowed asks for a program that most machines have built long ago.
func TestNoMoreIsBuiltThanIsAllowed(t *testing.T) {
	t.Setenv("CLUSTERIP_BUILT", "etcd")
	if _, err := buildAssets("kubernetes-1.37:kube-proxy"); err == nil || !strings.Contains(err.Error(), `Label("all")`) {
		t.Errorf("kube-proxy is built: %v", err)
	}
}
