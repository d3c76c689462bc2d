package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// machine is a directory that stands in for /proc/sys.
func machine(t *testing.T, settings map[Key]string) Kernel {
	t.Helper()
	k := Kernel{SysRoot: t.TempDir()}
	for key, text := range settings {
		if err := os.MkdirAll(filepath.Dir(k.path(key)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(k.path(key), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// fresh are the settings of a machine that nobody set, with the line ends of the kernel.
func fresh() map[Key]string {
	return map[Key]string{
		ConntrackMax: "65536\n", ConntrackBuckets: "16384\n", TCPEstablishedTimeout: "432000\n", TCPCloseWaitTimeout: "60\n",
		TCPBeLiberal: "0\n", UDPTimeout: "30\n", UDPStreamTimeout: "120\n", RouteLocalnet: "0\n",
	}
}

func TestSettingsAreReadDecidedAndWritten(t *testing.T) {
	k := machine(t, fresh())
	w := defaults
	w.RouteLocalnet = true
	written, err := k.Apply(Targets(w, 2))
	if err != nil {
		t.Fatal(err)
	}
	want := []Write{
		{ConntrackMax, 65536, 131072}, {ConntrackBuckets, 16384, 32768},
		{TCPEstablishedTimeout, 432000, 86400}, {TCPCloseWaitTimeout, 60, 3600}, {RouteLocalnet, 0, 1},
	}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	for _, w := range want {
		if n, err := k.get(w.Key); err != nil || n != w.After {
			t.Errorf("%s is %d (%v), want %d", w.Key, n, err, w.After)
		}
	}
	if n, _ := k.get(UDPTimeout); n != 30 {
		t.Errorf("a time-out that nobody asked for became %d", n)
	}
	again, err := k.Apply(Targets(w, 2))
	if err != nil || len(again) > 0 {
		t.Errorf("a second time writes %v, error %v", again, err)
	}
}

func TestOneSettingThatCannotBeReadKeepsNoOtherBack(t *testing.T) {
	settings := fresh()
	delete(settings, ConntrackMax)
	settings[TCPEstablishedTimeout] = "many"
	k := machine(t, settings)
	written, err := k.Apply(Targets(defaults, 2))
	want := []Write{{ConntrackBuckets, 16384, 32768}, {TCPCloseWaitTimeout, 60, 3600}}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	for _, part := range []string{
		"reading the kernel setting net/netfilter/nf_conntrack_max: ", "the kernel module nf_conntrack is not loaded",
		"setting conntrack.maxPerCore to 0 in the configuration",
		"reading the kernel setting net/netfilter/nf_conntrack_tcp_timeout_established: ", `"many"`,
	} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
	if _, err := os.Stat(k.path(ConntrackMax)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a setting that the kernel does not have was made")
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		key  Key
		err  error
		want string
	}{
		"a container without privileges": {TCPCloseWaitTimeout, syscall.EROFS,
			" (mount it writable or set it on the host, or leave it alone by setting conntrack.tcpCloseWaitTimeout to 0s in the configuration)"},
		"another network namespace": {ConntrackMax, syscall.EACCES,
			" (only root of the host's own network namespace may: set it there, or leave it alone by setting conntrack.maxPerCore to 0" +
				" in the configuration)"},
		"no connection tracking": {UDPTimeout, syscall.ENOENT,
			" (the kernel module nf_conntrack is not loaded: load it on the host, or leave it alone by setting conntrack.udpTimeout to 0s" +
				" in the configuration)"},
		"nothing to be done": {RouteLocalnet, syscall.EIO, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := remedy(tc.key, tc.err); got != tc.want {
				t.Errorf("the remedy is\n%q, want\n%q", got, tc.want)
			}
		})
	}
}

func TestEverySettingHasAFieldThatLeavesItAlone(t *testing.T) {
	w := Want{MaxPerCore: 1, TCPEstablished: 1, TCPCloseWait: 1, UDP: 1, UDPStream: 1, BeLiberal: true, RouteLocalnet: true}
	for _, target := range Targets(w, 1) {
		if fieldOf(target.Key) == fieldOf("") {
			t.Errorf("%s has none", target.Key)
		}
	}
}

func TestWhetherTheKernelIsLiberal(t *testing.T) {
	for text, want := range map[string]bool{"0\n": false, "1\n": true, "2": true} {
		got, err := machine(t, map[Key]string{TCPBeLiberal: text}).BeLiberal()
		if err != nil || got != want {
			t.Errorf("%q means %t (%v), want %t", text, got, err, want)
		}
	}
	if got, err := machine(t, nil).BeLiberal(); got || err != nil {
		t.Errorf("without connection tracking: %t, %v", got, err)
	}
	if _, err := machine(t, map[Key]string{TCPBeLiberal: "perhaps"}).BeLiberal(); err == nil {
		t.Error("junk is no error")
	}
}
