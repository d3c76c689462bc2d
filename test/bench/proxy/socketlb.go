package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Translation is what a proxy that translates at connect() has in the kernel.
type Translation struct {
	// Maps is how much memory BPF maps take, in bytes.
	Maps int64
	// ToService and ToOther are nanoseconds that its programs take for a connect(), on average.
	ToService, ToOther float64
}

// enclose makes cgroups as a machine has them, and puts the client into that of pods.
func (s *testNode) enclose() (err error) {
	if s.cgroup, err = network.NewCgroup(); err != nil {
		return err
	}
	s.ends = append(s.ends, s.cgroup.Close)
	pods, err := s.cgroup.Child("kubepods.slice")
	if err != nil {
		return err
	}
	return pods.Enter(s.client.Pid())
}

// socketFlags have our agent translate what the client connects to.
func (s *testNode) socketFlags() []string {
	if !s.who.Socket {
		return nil
	}
	return []string{"--socket-lb-scope=pods", "--cgroup-root=" + s.cgroup.Path()}
}

// timedConnects are enough for an average.
const timedConnects = 2_000

// translation looks at maps and programs. It fails where they do nothing, for rules would be
// measured in their place.
func (b *bench) translation(_ context.Context, s *testNode) (err error) {
	if !s.who.Socket || s.Late > 0 {
		return nil
	}
	before, err := readBPF(s.proxy.Pid())
	if err != nil {
		return err
	}
	s.Translation.Maps = before.maps
	// The kernel counts until this is closed, or this process ends: for all programs of the machine.
	counting, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("having the kernel time BPF programs: %w", err)
	}
	defer func() { err = errors.Join(err, counting.Close()) }()
	if s.Translation.ToService, err = b.programTime(s, b.people.Some(timedConnects)); err == nil {
		s.Translation.ToOther, err = b.programTime(s, b.people.SomeEndpoints(timedConnects))
	}
	return err
}

// programTime is how many nanoseconds the programs take for a connect() to one of these.
func (b *bench) programTime(s *testNode, to []netip.AddrPort) (float64, error) {
	before, err := readBPF(s.proxy.Pid())
	if err != nil {
		return 0, err
	}
	if _, err := s.client.Count(len(to), to...); err != nil {
		return 0, err
	}
	after, err := readBPF(s.proxy.Pid())
	if err != nil {
		return 0, err
	}
	if runs := after.runs - before.runs; runs < int64(len(to)) {
		return 0, fmt.Errorf("%s: the programs ran %d times for %d connections; the end of its log:\n%s", s.who.Name, runs, len(to), s.proxy.LogTail(20))
	}
	return float64(after.nanoseconds-before.nanoseconds) / float64(after.runs-before.runs), nil
}

// objects are the BPF maps and programs that a process has open: the bytes of all maps, and how
// often all programs ran, and for how long, while the kernel counted.
type objects struct{ maps, runs, nanoseconds int64 }

func readBPF(pid int) (o objects, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return o, err
	}
	seen := map[string]bool{}
	for _, file := range files {
		what, err := os.Readlink(file)
		if err != nil || !strings.Contains(what, "bpf-map") && !strings.Contains(what, "bpf-prog") {
			continue // it may be closed meanwhile
		}
		text, err := os.ReadFile(strings.Replace(file, "/fd/", "/fdinfo/", 1))
		if err != nil {
			return o, fmt.Errorf("looking at a BPF object: %w", err)
		}
		if err := o.add(string(text), seen); err != nil {
			return o, err
		}
	}
	return o, nil
}

// add adds what the kernel tells of an object, unless that was seen before.
func (o *objects) add(text string, seen map[string]bool) error {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.TrimSpace(value)
	}
	into := map[string]*int64{"run_cnt": &o.runs, "run_time_ns": &o.nanoseconds}
	id := "program " + fields["prog_id"]
	if n, isMap := fields["map_id"]; isMap {
		id, into = "map "+n, map[string]*int64{"memlock": &o.maps}
	}
	if seen[id] {
		return nil
	}
	seen[id] = true
	for name, sum := range into {
		n, err := strconv.ParseInt(fields[name], 10, 64)
		if err != nil {
			return fmt.Errorf("reading %s of a BPF object: %w", name, err)
		}
		*sum += n
	}
	return nil
}
