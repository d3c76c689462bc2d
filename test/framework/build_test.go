package framework

import (
	"path/filepath"
	"testing"
)

func TestCheckoutsDoNotShareTheirManager(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("CLUSTERIP_CACHE", cache)
	var dirs []string
	for _, root := range []string{"/src/mine", "/src/yours", "/src/mine"} {
		dir, err := checkoutDir(root)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(dir) != cache {
			t.Errorf("%s is not in the cache", dir)
		}
		dirs = append(dirs, dir)
	}
	if dirs[0] == dirs[1] || dirs[0] != dirs[2] {
		t.Errorf("got %q", dirs)
	}
}

func TestBuildProgramTellsWhy(t *testing.T) {
	t.Setenv("CLUSTERIP_CACHE", t.TempDir())
	_, err := buildProgram("manager", "manager", "-no-such-flag")
	wantErrorWith(t, err, "building manager", "-no-such-flag")
}
