package network_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Leaks show only here: a namespace lives as long as a process has it open.
func TestNothingIsLeftBehind(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces need root")
	}
	before := openNamespaces(t)
	topology, err := network.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if open := openNamespaces(t) - before; open != len(topology.Namespaces()) {
		t.Errorf("%d namespaces are open, and there are %d", open, len(topology.Namespaces()))
	}
	if err := topology.Close(); err != nil {
		t.Fatal(err)
	}
	if left := openNamespaces(t) - before; left != 0 {
		t.Errorf("%d namespaces are left open", left)
	}
}

// openNamespaces counts the network namespaces that this process has open.
func openNamespaces(t *testing.T) (open int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && strings.HasPrefix(target, "net:") {
			open++
		}
	}
	return open
}
