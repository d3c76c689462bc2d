package framework

import (
	"os"
	"path/filepath"
	"testing"
)

func TestModuleRoot(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if !isFile(filepath.Join(root, "test", "framework", "assets.go")) {
		t.Errorf("%s is not the root", root)
	}

	t.Chdir(filepath.Join(root, "hack", "tools", "etcd"))
	if inner, err := moduleRoot(); err != nil || inner != root {
		t.Errorf("from inside an island: %q, %v, want %q", inner, err, root)
	}
	t.Chdir(t.TempDir())
	_, err = moduleRoot()
	wantErrorWith(t, err, "not inside a checkout")
}

func TestAssetsOfAnUnknownIsland(t *testing.T) {
	_, err := Assets("atlantis")
	wantErrorWith(t, err, "programs of atlantis", "no island atlantis")
}

// KUBEBUILDER_ASSETS holds some version of the newest control plane. It must not stand in for 1.32, and
// what it lacks is built.
func TestProgramHonoursKubebuilderAssets(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	for name, tc := range map[string]struct {
		island, program string
		wantGiven       bool
	}{
		"etcd is given":                            {islandEtcd, "etcd", true},
		"the newest API server is given":           {island136, "kube-apiserver", true},
		"the old API server is built":              {island132, "kube-apiserver", false},
		"the controller manager is not there":      {island136, "kube-controller-manager", false},
		"kubectl is a part of it, but not of ours": {island136, "kubectl", false},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := program(tc.island, tc.program)
			if err != nil {
				t.Fatal(err)
			}
			if given := filepath.Dir(path) == dir; given != tc.wantGiven || filepath.Base(path) != tc.program || !isFile(path) {
				t.Errorf("it is %s", path)
			}
		})
	}
}

func TestCacheDir(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for _, tc := range []struct{ own, xdg, want string }{
		{"", "", "/home/me/.cache/clusterip-operator"},
		{"", "/xdg", "/xdg/clusterip-operator"},
		{"/own", "/xdg", "/own"},
	} {
		t.Setenv("CLUSTERIP_CACHE", tc.own)
		t.Setenv("XDG_CACHE_HOME", tc.xdg)
		if got, err := cacheDir(); err != nil || got != tc.want {
			t.Errorf("with %q and %q: %q, %v, want %q", tc.own, tc.xdg, got, err, tc.want)
		}
	}
}
