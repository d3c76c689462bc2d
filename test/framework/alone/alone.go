// Package alone has a test run in a process of its own: to measure the heap, in which other tests
// leave garbage, or with an environment that is read when a process starts.
package alone

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
)

const variable = "CLUSTERIP_TEST_ALONE"

// Runs is true in the process that runs this test alone. In any other it starts that one, with more
// environment (NAME=value), and the test fails if it fails there: nothing else is left to do.
func Runs(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv(variable) != "" {
		return true
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = slices.Concat(os.Environ(), env, []string{variable + "=yes"})
	out, err := again.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
	return false
}

// Heap is how many bytes are in use after all garbage is gone.
func Heap() int {
	runtime.GC() // what pools hold goes with the second time
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc) //nolint:gosec // a heap
}
