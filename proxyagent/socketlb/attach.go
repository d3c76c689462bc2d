//go:build linux

package socketlb

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// attachment are programs at a cgroup. The kernel ends it with the process: nothing is pinned.
type attachment struct {
	path  string
	id    uint64
	open  *os.File
	links []*link.RawLink
}

// queryEffective asks for the programs that a process in the cgroup meets: also those further up.
const queryEffective = 1 << 0

// attach attaches the programs to a cgroup, unless another one is there already. The names of
// connections come first: no connection is translated that would not be told what it asked for.
func attach(path string, id uint64, programs []*ebpf.Program) (a *attachment, err error) {
	a = &attachment{path: path, id: id}
	if a.open, err = os.Open(path); err != nil {
		return nil, fmt.Errorf("opening the cgroup: %w", err)
	}
	defer func() {
		if err != nil {
			a.close()
			a = nil
		}
	}()
	if err := a.check(programs); err != nil {
		return a, err
	}
	a.links = make([]*link.RawLink, len(programs))
	for i, h := range slices.Backward(hooks) {
		a.links[i], err = link.AttachRawLink(link.RawLinkOptions{Target: int(a.open.Fd()), Program: programs[i], Attach: h.attach})
		if err != nil {
			return a, fmt.Errorf("attaching to %s: %w", path, err)
		}
	}
	return a, nil
}

// check fails where a connection of the cgroup meets programs of another one, such as Cilium's,
// which would translate it as well, or lacks one of ours that was attached.
func (a *attachment) check(programs []*ebpf.Program) error {
	for i, h := range hooks {
		found, err := link.QueryPrograms(link.QueryOptions{Target: int(a.open.Fd()), Attach: h.attach, QueryFlags: queryEffective})
		if err != nil {
			return fmt.Errorf("asking for the programs at %s: %w", a.path, err)
		}
		ours, err := idOf(programs[i])
		if err != nil {
			return err
		}
		present := false
		for _, p := range found.Programs {
			if p.ID == ours {
				present = true
				continue
			}
			return unavailable{OtherProgram, fmt.Sprintf("another program (BPF program %d, %s) is at connections of %s or above, as Cilium's is: "+
				"let one of the two translate, and set socketLB.scope to off in the other case", p.ID, h.attach, a.path)}
		}
		if !present && len(a.links) > 0 {
			return errors.New("the kernel has taken a program from the cgroup; it is attached again")
		}
	}
	return nil
}

func idOf(p *ebpf.Program) (ebpf.ProgramID, error) {
	info, err := p.Info()
	if err != nil {
		return 0, fmt.Errorf("asking for the number of a program: %w", err)
	}
	id, _ := info.ID()
	return id, nil
}

// update puts other programs in the place of those that are attached. A nil attachment has none.
func (a *attachment) update(programs []*ebpf.Program) error {
	if a == nil {
		return nil
	}
	for i, l := range a.links {
		if err := l.Update(programs[i]); err != nil && !errors.Is(err, unix.ENOLINK) { // the cgroup has gone
			return fmt.Errorf("putting programs for larger maps in place: %w", err)
		}
	}
	return nil
}

func (a *attachment) close() {
	for _, l := range a.links {
		if l != nil {
			_ = l.Close()
		}
	}
	_ = a.open.Close()
}
