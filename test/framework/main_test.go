package framework

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// standIn makes the test program play another program, for what needs a child but no control plane.
const standIn = "FRAMEWORK_STAND_IN"

func TestMain(m *testing.M) {
	switch os.Getenv(standIn) {
	case "":
		os.Exit(m.Run())
	case "manager":
		os.Exit(playManager())
	case "parent":
		os.Exit(playParent())
	}
	os.Exit(3)
}

// playManager understands the flags that every manager is given, serves health and metrics until SIGTERM and
// then ends with code 7.
func playManager() int {
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "")
	metrics := flags.String("metrics-bind-address", "", "")
	health := flags.String("health-probe-bind-address", "", "")
	flags.Bool("metrics-secure", true, "")
	flags.Bool("leader-elect", true, "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	fmt.Println("kubeconfig", *kubeconfig)
	born := time.Now()
	go serve(*health, func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(born) < time.Second {
			http.Error(w, "caches are not synced", http.StatusServiceUnavailable)
		}
	})
	time.AfterFunc(1200*time.Millisecond, func() { // later than it is ready
		serve(*metrics, func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "asked{by=%q} 1\n", r.Header.Get("Authorization"))
		})
	})
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	<-terminated
	return 7
}

func serve(address string, handler http.HandlerFunc) {
	if err := http.ListenAndServe(address, handler); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
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
