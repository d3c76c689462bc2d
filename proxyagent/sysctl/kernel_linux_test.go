package sysctl

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
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
	err := Kernel("/proc/sys").Apply(Want{RouteLocalnet: true})
	if !errors.Is(err, syscall.EROFS) {
		t.Errorf("error %v", err)
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
	k := Kernel("/proc/sys")
	w := Want{
		TCPEstablished: time.Hour, TCPCloseWait: 2 * time.Minute, UDP: 31 * time.Second, UDPStream: 121 * time.Second,
		BeLiberal: true, RouteLocalnet: true,
	}
	if err := k.Apply(w); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[key]int{
		tcpEstablishedTimeout: 3600, tcpCloseWaitTimeout: 120, tcpBeLiberal: 1, udpTimeout: 31, udpStreamTimeout: 121, routeLocalnet: 1,
	} {
		if n, err := k.get(key); err != nil || n != want {
			t.Errorf("%s is %d (%v), want %d", key, n, err, want)
		}
	}
	if liberal, err := k.BeLiberal(); err != nil || !liberal {
		t.Errorf("the kernel is liberal: %t, %v", liberal, err)
	}
}

// refusesWhatIsTheHosts asks for what no namespace but the host's may set.
func refusesWhatIsTheHosts(t *testing.T) {
	k := Kernel("/proc/sys")
	now, err := k.get(conntrackMax)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(k.set(target{key: conntrackMax, value: now - 1}), k.set(target{key: conntrackBuckets, value: 1 << 30}))
	if !errors.Is(err, os.ErrPermission) || strings.Count(err.Error(), "only root of the host's own network namespace may") != 2 {
		t.Errorf("the error reads %v", err)
	}
}
