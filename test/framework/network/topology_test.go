//go:build linux

package network_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// That packets flow, and that what must not arrive does not, is seen by every suite. That nothing is left behind is seen by nobody else.
func TestNothingIsLeftBehind(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces need root")
	}
	dead := "/run/netns/cipo-999999999-beef-node" // above the highest possible process id
	if err := os.MkdirAll(filepath.Dir(dead), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	topology, err := network.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("what a dead process left is still there: %v", err)
	}
	if err := topology.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob("/run/netns/" + strings.TrimSuffix(topology.Node.Name(), "-node") + "*")
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q (%v)", left, err)
	}
}
