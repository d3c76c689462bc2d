package sysctl

import (
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// defaults are those of kube-proxy.
var defaults = Want{MaxPerCore: 32768, Min: 131072, TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour}

func TestTargetsAreThoseOfKubeProxy(t *testing.T) {
	maximum := func(n int) []Target {
		return []Target{{Key: ConntrackMax, Value: n}, {Key: ConntrackBuckets, Value: n / 4, AtLeast: true}}
	}
	for name, tc := range map[string]struct {
		want  Want
		cores int
		goal  []Target
	}{
		"nothing is asked for": {Want{}, 8, nil},
		"the defaults on a small machine": {defaults, 2, append(maximum(131072),
			Target{Key: TCPEstablishedTimeout, Value: 86400}, Target{Key: TCPCloseWaitTimeout, Value: 3600})},
		"each core counts":                          {Want{MaxPerCore: 32768, Min: 131072}, 16, maximum(524288)},
		"a little more":                             {Want{MaxPerCore: 32768}, 33, maximum(1048576)},
		"exactly the most":                          {Want{MaxPerCore: 32768}, 32, maximum(1048576)},
		"hundreds of cores are cut":                 {Want{MaxPerCore: 32768, Min: 131072}, 256, maximum(1048576)},
		"also below the minimum, as in kube-proxy":  {Want{MaxPerCore: 32768, Min: 2000000}, 256, maximum(1048576)},
		"a large minimum on a small machine is not": {Want{MaxPerCore: 32768, Min: 2000000}, 2, maximum(2000000)},
		"a minimum alone asks for nothing":          {Want{Min: 131072}, 8, nil},
		"all of the rest": {
			Want{UDP: 30 * time.Second, UDPStream: 90 * time.Second, BeLiberal: true, RouteLocalnet: true}, 1,
			[]Target{
				{Key: TCPBeLiberal, Value: 1}, {Key: UDPTimeout, Value: 30}, {Key: UDPStreamTimeout, Value: 90},
				{Key: RouteLocalnet, Value: 1},
			},
		},
		"parts of seconds are cut, but not to nothing": {
			Want{UDP: 2900 * time.Millisecond, UDPStream: time.Millisecond}, 1,
			[]Target{{Key: UDPTimeout, Value: 2}, {Key: UDPStreamTimeout, Value: 1}},
		},
		"negative numbers ask for nothing": {Want{MaxPerCore: -1, TCPEstablished: -time.Hour}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.goal, Targets(tc.want, tc.cores)); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyWhatDiffersIsWritten(t *testing.T) {
	targets := []Target{
		{Key: ConntrackMax, Value: 131072},
		{Key: ConntrackBuckets, Value: 32768, AtLeast: true},
		{Key: TCPCloseWaitTimeout, Value: 3600},
	}
	for name, tc := range map[string]struct {
		current map[Key]int
		want    []Write
	}{
		"all is right": {map[Key]int{ConntrackMax: 131072, ConntrackBuckets: 32768, TCPCloseWaitTimeout: 3600}, nil},
		"all is too small": {
			map[Key]int{ConntrackMax: 1000, ConntrackBuckets: 250, TCPCloseWaitTimeout: 60},
			[]Write{{ConntrackMax, 1000, 131072}, {ConntrackBuckets, 250, 32768}, {TCPCloseWaitTimeout, 60, 3600}},
		},
		"larger values are lowered, the hash table is not": {
			map[Key]int{ConntrackMax: 262144, ConntrackBuckets: 65536, TCPCloseWaitTimeout: 7200},
			[]Write{{ConntrackMax, 262144, 131072}, {TCPCloseWaitTimeout, 7200, 3600}},
		},
		"what is not known is left alone": {map[Key]int{ConntrackBuckets: 1}, []Write{{ConntrackBuckets, 1, 32768}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Decide(tc.current, targets)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCoresAreCountedOnTheMachine(t *testing.T) {
	for list, want := range map[string]int{
		"0": 1, "0-3": 4, "0-3,8-11": 8, "0,2,4-5": 4, "": 0, "x": 0, "3-1": 0, "0-": 0, "0-1,": 0, "-1": 0,
	} {
		if got := countCores(list); got != want {
			t.Errorf("%q counts as %d cores, want %d", list, got, want)
		}
	}
	if Cores("") < 1 {
		t.Error("this machine has no cores")
	}
	if got := Cores(t.TempDir()); got != runtime.NumCPU() {
		t.Errorf("without sysfs there are %d cores, want those of the process, %d", got, runtime.NumCPU())
	}
}
