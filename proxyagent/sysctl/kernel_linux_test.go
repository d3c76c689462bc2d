package sysctl

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inNamespace is set in the copy of this test that runs in a network namespace of its own.
const inNamespace = "SYSCTL_TEST_IN_NAMESPACE"

// TestARealKernelTakesThem runs itself again in a fresh network namespace, whose settings are its own and go with it.
func TestARealKernelTakesThem(t *testing.T) {
	if !again(t, "unshare", "-n") {
		return
	}
	loadConntrack(t)
	t.Run("what belongs to the namespace", setsWhatIsItsOwn)
	t.Run("what belongs to the host", refusesWhatIsTheHosts)
}

// TestAReadOnlyKernelSaysWhatToDo sees /proc/sys as a container without privileges does.
func TestAReadOnlyKernelSaysWhatToDo(t *testing.T) {
	readOnly := `mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$@"`
	if !again(t, "unshare", "-n", "-m", "sh", "-c", readOnly, "sh") {
		return
	}
	written, err := Kernel{}.Apply([]Target{{Key: RouteLocalnet, Value: 1}})
	if len(written) > 0 || !errors.Is(err, syscall.EROFS) {
		t.Errorf("written %v, error %v", written, err)
	}
	want := "setting net/ipv4/conf/all/route_localnet from 0 to 1: open /proc/sys/net/ipv4/conf/all/route_localnet: read-only file system" +
		" (mount it writable or set it on the host, or leave it alone by setting localhostNodePorts to false in the configuration)"
	if err != nil && err.Error() != want {
		t.Errorf("the error reads\n%s, want\n%s", err, want)
	}
}

// again runs the test again behind a command that makes a namespace, and reports whether this is that run.
func again(t *testing.T, command ...string) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a network namespace")
	}
	if os.Getenv(inNamespace) != "" {
		return true
	}
	command = append(command, os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	copied := exec.CommandContext(t.Context(), command[0], command[1:]...)
	copied.Env = append(os.Environ(), inNamespace+"=1")
	out, err := copied.CombinedOutput()
	t.Logf("in the namespace:\n%s", out)
	if err != nil {
		t.Errorf("in the namespace: %v", err)
	}
	return false
}

// loadConntrack makes the kernel give the namespace its settings of connection tracking.
func loadConntrack(t *testing.T) {
	t.Helper()
	rule := exec.CommandContext(t.Context(), "iptables-nft", "-A", "INPUT", "-m", "conntrack", "--ctstate", "INVALID")
	if out, err := rule.CombinedOutput(); err != nil {
		t.Fatalf("using connection tracking: %v: %s", err, out)
	}
}

func setsWhatIsItsOwn(t *testing.T) {
	w := Want{
		TCPEstablished: time.Hour, TCPCloseWait: 2 * time.Minute, UDP: 31 * time.Second, UDPStream: 121 * time.Second,
		BeLiberal: true, RouteLocalnet: true,
	}
	written, err := Kernel{}.Apply(Targets(w, 1))
	if err != nil {
		t.Fatal(err)
	}
	want := []Write{
		{TCPEstablishedTimeout, 432000, 3600}, {TCPCloseWaitTimeout, 60, 120}, {TCPBeLiberal, 0, 1},
		{UDPTimeout, 30, 31}, {UDPStreamTimeout, 120, 121}, {RouteLocalnet, 0, 1},
	}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if again, err := (Kernel{}).Apply(Targets(w, 1)); err != nil || len(again) > 0 {
		t.Errorf("a second time writes %v, error %v", again, err)
	}
	if liberal, err := (Kernel{}).BeLiberal(); err != nil || !liberal {
		t.Errorf("the kernel is liberal: %t, %v", liberal, err)
	}
}

// refusesWhatIsTheHosts sets what the host has and one less, which no namespace but the host's may set.
func refusesWhatIsTheHosts(t *testing.T) {
	now, err := Kernel{}.get(ConntrackMax)
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := Kernel{}.get(ConntrackBuckets)
	if err != nil {
		t.Fatal(err)
	}
	written, err := Kernel{}.Apply([]Target{
		{Key: ConntrackMax, Value: now - 1}, {Key: ConntrackBuckets, Value: buckets + 1}, {Key: RouteLocalnet, Value: 0},
	})
	if diff := cmp.Diff([]Write{{RouteLocalnet, 1, 0}}, written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if !errors.Is(err, os.ErrPermission) || strings.Count(err.Error(), "only root of the host's own network namespace may") != 2 {
		t.Errorf("the error reads %v", err)
	}
}
