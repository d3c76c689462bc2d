//go:build linux

package socketlb

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// TestScopes connects as a pod, as a process of the host, and as one of another network namespace
// that is no pod: there is no route to a virtual IP, where nothing translates.
func TestScopes(t *testing.T) {
	for scope, want := range map[Scope][3]bool{Pods: {true, false, true}, Host: {true, true, false}, All: {true, true, true}} {
		t.Run(string(scope), func(t *testing.T) {
			if _, err := namespaceCookie(); scope == Host && err != nil {
				t.Skip(err)
			}
			for _, f := range network.Families {
				h := newHost(t, scope)
				s := h.serve(f, 1)
				h.sync(set(port("web", vip(f, 1), s.at)))
				h.wants("a pod", front(f, 1), s, want[0])
				other, err := network.NewNetns("another")
				h.must(err)
				t.Cleanup(func() { h.must(other.Close()) })
				h.must(other.Do(func() error { return h.inside(front(f, 1), want[2]) }))
				h.must(h.cgroup.Enter(os.Getpid()))
				h.wants("a process of the host", front(f, 1), s, want[1])
			}
		})
	}
}

// TestTheCgroupOfPodsIsMadeAgain by a kubelet, say: the programs are attached with the next look.
func TestTheCgroupOfPodsIsMadeAgain(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), s.at)))
		h.must(h.cgroup.Enter(os.Getpid()))
		pods := h.cgroup.Path() + "/kubepods.slice"
		h.must(os.Remove(pods + "/pod1"))
		h.must(os.Remove(pods))
		if st, changed := h.lb.look(); st.Reason != NoPodsCgroup || !changed || !strings.Contains(st.Detail, "kubepods.slice") {
			t.Errorf("without the cgroup it says %+v", st)
		}
		again, err := h.cgroup.Child("kubepods.slice/pod2")
		h.must(err)
		h.must(again.Enter(os.Getpid()))
		h.leaves(front(f, 1))
		if st, changed := h.lb.look(); !st.Active() || !changed {
			t.Errorf("with the cgroup it says %+v", st)
		}
		h.reaches(front(f, 1), s)
		// the same, faster than it looks
		h.must(h.cgroup.Enter(os.Getpid()))
		h.must(os.Remove(pods + "/pod2"))
		h.must(os.Remove(pods))
		again, err = h.cgroup.Child("kubepods.slice/pod3")
		h.must(err)
		h.must(again.Enter(os.Getpid()))
		h.lb.look()
		h.reaches(front(f, 1), s)
	})
}

// TestAnotherDriverOfTheKubelet leaves the old cgroup empty.
func TestAnotherDriverOfTheKubelet(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), s.at)))
		other, err := h.cgroup.Child("kubepods/pod1")
		h.must(err)
		h.must(other.Enter(os.Getpid()))
		h.lb.look()
		h.reaches(front(f, 1), s)
		if st := h.lb.Status(); !strings.HasSuffix(st.Detail, "/kubepods") {
			t.Errorf("it says %+v", st)
		}
	})
}

// TestAnotherProgramAbove is left alone, whether it comes before or after ours.
func TestAnotherProgramAbove(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), s.at)))
		for i, hook := range hooks {
			p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.CGroupSockAddr, AttachType: hook.attach, License: "Apache-2.0", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
			h.must(err)
			l, err := link.AttachCgroup(link.CgroupOptions{Path: h.cgroup.Path(), Attach: hook.attach, Program: p})
			h.must(err)
			if st, changed := h.lb.look(); st.Reason != OtherProgram || !changed || !strings.Contains(st.Detail, "Cilium") {
				t.Errorf("hook %d: it says %+v", i, st)
			}
			h.leaves(front(f, 1))
			if st, changed := h.lb.look(); st.Reason != OtherProgram || changed {
				t.Errorf("hook %d: it says %+v", i, st)
			}
			h.must(l.Close())
			h.must(p.Close())
			h.eventually(func() error { h.lb.look(); return nil })
			h.reaches(front(f, 1), s)
		}
	})
}

// TestARestart ends one translator as a kill does, with all that it has open, and starts another.
func TestARestart(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		d := set(port("web", vip(f, 1), s.at))
		h.sync(d)
		h.reaches(front(f, 1), s)
		h.lb.close()
		h.leaves(front(f, 1))
		h.open(Pods)
		h.leaves(front(f, 1))
		h.sync(d)
		h.reaches(front(f, 1), s)
	})
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	network.NeedIsolation(t)
	for _, c := range []struct {
		root string
		want Reason
		text string
	}{
		{t.TempDir(), NoCgroup2, "is a cgroup2 hierarchy"},
		{"/does/not/exist", NoCgroup2, "is a cgroup2 hierarchy"},
	} {
		lb, err := Open(Options{Scope: Pods, CgroupRoot: c.root})
		if err != nil {
			t.Fatal(err)
		}
		if s, _ := lb.look(); s.Reason != c.want || !strings.Contains(s.Detail, c.text) {
			t.Errorf("%s: it says %+v", c.root, s)
		}
		lb.close()
	}
	if _, hybrid, err := hierarchy("/sys/fs/cgroup"); err == nil && hybrid {
		if _, err := target(Pods, "/sys/fs/cgroup"); err == nil || !strings.Contains(err.Error(), "cgroup v1") {
			t.Errorf("on a machine with cgroup v1 it says %v", err)
		}
	}
}

// TestWithoutCapabilities starts this program with those of the agent's container, which may not
// use BPF, and with the one that it takes.
func TestWithoutCapabilities(t *testing.T) {
	network.NeedIsolation(t)
	for has, want := range map[string]string{
		"net_admin,+net_raw":      "NotPermitted the agent may not use BPF: it takes the capabilities BPF and NET_ADMIN",
		"net_admin,+net_raw,+bpf": "it has what it takes",
	} {
		cmd := exec.Command("setpriv", "--bounding-set=-all,+"+has, "--inh-caps=-all,+"+has, os.Args[0])
		cmd.Env = append(os.Environ(), confined+"=yes")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("with %s it says %v: %s", has, err, out)
		}
	}
}

// TestOnAnOldKernel starts this program where the kernel says that it is one. No map is asked for.
func TestOnAnOldKernel(t *testing.T) {
	network.NeedIsolation(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), confined+"="+old)
	out, err := cmd.CombinedOutput()
	if want := "KernelTooOld it takes Linux 5.10, and this is 2.6."; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("it says %v: %s", err, out)
	}
}

// TestReleases knows which kernels are too old.
func TestReleases(t *testing.T) {
	for release, old := range map[string]bool{"5.4.0-100-generic": true, "4.18.0-553.el8": true, "5.10.0": false, "5.15.1": false, "6.18.44-fc": false, "unknown": false} {
		if before(release, 5, 10) != old {
			t.Errorf("%s is taken for %v", release, !old)
		}
	}
}

func minuteLater() time.Time { return time.Now().Add(time.Minute) }
