package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// defaults are those of kube-proxy.
var defaults = Want{MaxPerCore: 32768, Min: 131072, TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour}

func TestTargetsAreThoseOfKubeProxy(t *testing.T) {
	maximum := func(n int, more ...target) []target {
		return append([]target{{key: conntrackMax, value: n, atLeast: true}, {key: conntrackBuckets, value: n / 4, atLeast: true}}, more...)
	}
	for name, tc := range map[string]struct {
		want  Want
		cores int
		goal  []target
	}{
		"nothing is asked for": {Want{}, 8, []target{}},
		"the defaults on a small machine": {
			defaults, 2, maximum(131072, target{key: tcpEstablishedTimeout, value: 86400}, target{key: tcpCloseWaitTimeout, value: 3600}),
		},
		"each core counts":                          {Want{MaxPerCore: 32768, Min: 131072}, 16, maximum(524288)},
		"hundreds of cores are cut":                 {Want{MaxPerCore: 32768, Min: 131072}, 256, maximum(1048576)},
		"also below the minimum, as in kube-proxy":  {Want{MaxPerCore: 32768, Min: 2000000}, 256, maximum(1048576)},
		"a large minimum on a small machine is not": {Want{MaxPerCore: 32768, Min: 2000000}, 2, maximum(2000000)},
		"a minimum alone asks for nothing":          {Want{Min: 131072}, 8, []target{}},
		"the switches": {
			Want{BeLiberal: true, RouteLocalnet: true}, 1, []target{{key: tcpBeLiberal, value: 1}, {key: routeLocalnet, value: 1}},
		},
		"parts of seconds are cut, but not to nothing": {
			Want{UDP: 2900 * time.Millisecond, UDPStream: time.Millisecond}, 1,
			[]target{{key: udpTimeout, value: 2}, {key: udpStreamTimeout, value: 1}},
		},
		"negative numbers ask for nothing": {Want{MaxPerCore: -1, TCPEstablished: -time.Hour}, 1, []target{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.goal, targets(tc.want, tc.cores), cmp.AllowUnexported(target{}, key{})); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCoresAreCountedOnTheMachine(t *testing.T) {
	ours := runtime.NumCPU()
	for list, want := range map[string]int{
		"0": 1, "0-3": 4, "0-3,8-11": 8, "0,2,4-5": 4, "": ours, "x": ours, "3-1": ours, "0-": ours, "0-1,": ours, "-1": ours,
	} {
		online := filepath.Join(t.TempDir(), "online")
		if err := os.WriteFile(online, []byte(list+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := cores(online); got != want {
			t.Errorf("%q counts as %d cores, want %d", list, got, want)
		}
	}
	if got := cores("/nonexistent"); got != runtime.NumCPU() {
		t.Errorf("without sysfs there are %d cores, want those of the process, %d", got, runtime.NumCPU())
	}
}

// machine is a folder that stands for /proc/sys.
func machine(t *testing.T, settings map[key]string) Kernel {
	t.Helper()
	k := Kernel(t.TempDir())
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

// TestOnlyWhatDiffersIsWritten has the kernel's line ends, which go where something is written.
func TestOnlyWhatDiffersIsWritten(t *testing.T) {
	timeouts := Want{TCPCloseWait: time.Hour}
	maximum := Want{MaxPerCore: 1, Min: 4000}
	type settings = map[key]string
	for name, tc := range map[string]struct {
		want          Want
		before, after settings
	}{
		"it is right":     {timeouts, settings{tcpCloseWaitTimeout: "3600\n"}, nil},
		"it is too small": {timeouts, settings{tcpCloseWaitTimeout: "60\n"}, settings{tcpCloseWaitTimeout: "3600"}},
		"it is too large": {timeouts, settings{tcpCloseWaitTimeout: "432000\n"}, settings{tcpCloseWaitTimeout: "3600"}},
		"not asked for":   {Want{}, settings{udpTimeout: "30\n"}, nil},
		"the maximum is raised": {
			maximum, settings{conntrackMax: "9\n", conntrackBuckets: "9\n"}, settings{conntrackMax: "4000", conntrackBuckets: "1000"},
		},
		"nor lowered": {maximum, settings{conntrackMax: "8000\n", conntrackBuckets: "2000\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k := machine(t, tc.before)
			if err := k.Apply(tc.want); err != nil {
				t.Error(err)
			}
			for key, want := range tc.before {
				if after, changed := tc.after[key]; changed {
					want = after
				}
				if text, err := os.ReadFile(k.path(key)); string(text) != want {
					t.Errorf("%s is %q (%v), want %q", key, text, err, want)
				}
			}
		})
	}
}

func TestOneSettingThatCannotBeReadKeepsNoOtherBack(t *testing.T) {
	k := machine(t, map[key]string{conntrackBuckets: "16384\n", tcpEstablishedTimeout: "many", tcpCloseWaitTimeout: "60\n"})
	err := k.Apply(defaults)
	for _, part := range []string{
		"reading the kernel setting net/netfilter/nf_conntrack_max: ", "the kernel module nf_conntrack is not loaded",
		"setting conntrack.maxPerCore to 0 in the configuration",
		"reading the kernel setting net/netfilter/nf_conntrack_tcp_timeout_established: ", `"many"`,
	} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
	if n, err := k.get(tcpCloseWaitTimeout); n != 3600 {
		t.Errorf("a setting that can be set is %d, %v", n, err)
	}
	if _, err := os.Stat(k.path(conntrackMax)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a setting that the kernel does not have was made")
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for _, tc := range []struct {
		key  key
		err  error
		want string
	}{
		{tcpCloseWaitTimeout, syscall.EROFS,
			" (mount it writable or set it on the host, or leave it alone by setting conntrack.tcpCloseWaitTimeout to 0s in the configuration)"},
		{conntrackMax, syscall.EACCES,
			" (only root of the host's own network namespace may: set it there, or leave it alone by setting conntrack.maxPerCore to 0" +
				" in the configuration)"},
		{udpTimeout, syscall.ENOENT,
			" (the kernel module nf_conntrack is not loaded: load it on the host, or leave it alone by setting conntrack.udpTimeout to 0s" +
				" in the configuration)"},
		{routeLocalnet, syscall.EIO, ""},
	} {
		if got := remedy(tc.key, tc.err); got != tc.want {
			t.Errorf("the remedy is\n%q, want\n%q", got, tc.want)
		}
	}
	for _, target := range targets(Want{MaxPerCore: 4, TCPEstablished: 1, TCPCloseWait: 1, UDP: 1, UDPStream: 1, BeLiberal: true, RouteLocalnet: true}, 1) {
		if target.key.unset == "" {
			t.Errorf("no field leaves %s alone", target.key)
		}
	}
}

func TestWhetherTheKernelIsLiberal(t *testing.T) {
	for text, want := range map[string]bool{"0\n": false, "1\n": true, "2": true} {
		got, err := machine(t, map[key]string{tcpBeLiberal: text}).BeLiberal()
		if err != nil || got != want {
			t.Errorf("%q means %t (%v), want %t", text, got, err, want)
		}
	}
	if got, err := machine(t, nil).BeLiberal(); got || err != nil {
		t.Errorf("without connection tracking: %t, %v", got, err)
	}
	if _, err := machine(t, map[key]string{tcpBeLiberal: "perhaps"}).BeLiberal(); err == nil {
		t.Error("malformed text is no error")
	}
}
