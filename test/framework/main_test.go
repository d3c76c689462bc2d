package framework

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// standIn makes the test program play another program, for what needs a child but no control plane.
const standIn = "FRAMEWORK_STAND_IN"

func TestMain(m *testing.M) {
	switch os.Getenv(standIn) {
	case "":
		os.Exit(m.Run())
	case "parent":
		os.Exit(playParent())
	}
	os.Exit(3)
}

// playParent starts a child, tells its id and dies without a chance to end it.
func playParent() int {
	child := &Process{
		name: "child", log: filepath.Join(os.Getenv("DIR"), "child.log"),
		program: "sleep", args: func() []string { return []string{"600"} },
	}
	if err := child.launch(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(child.Pid())
	_ = os.Stdout.Sync()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	return 0
}

// play starts the test program in another role and returns what it printed until its end.
func play(t *testing.T, role string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, standIn+"="+role)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed, err := io.ReadAll(stdout)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it kills itself
	return string(printed)
}
