//go:build linux

package socketlb

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Options say what a Translator does.
type Options struct {
	// Scope is whose connections it translates; not Off.
	Scope Scope
	// CgroupRoot is the folder where the machine's cgroups are. Scopes host and all begin there.
	CgroupRoot string
	// LocalAddrs lists the node's addresses; nil: none. Virtual IPs among them are left to rules.
	LocalAddrs func() ([]netip.Addr, error)
}

// Translator has programs at connect() lead connections to endpoints. Make it with [Open], make a
// [Backend] for each family, and Run it. Its methods may be called concurrently.
type Translator struct {
	options Options
	turns   bool
	cookie  uint64
	notes   *ebpf.Map

	mu       sync.Mutex // for all below, and for which maps there are
	memories map[model.Family]*memory
	programs []*ebpf.Program // one for each hook
	attached *attachment     // nil while it is not
	status   Status
}

// Open makes maps and programs, and attaches none yet. It fails where the kernel lacks what it
// takes, or the agent may not: Unavailable says what is the matter.
func Open(o Options) (*Translator, error) {
	if err := errors.Join(prepareKernel(), permitted()); err != nil {
		return nil, err
	}
	t := &Translator{options: o, memories: map[model.Family]*memory{}, status: Status{Scope: o.Scope, Reason: Starting, Detail: "the programs are not attached yet"}}
	if err := t.make(); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// Unavailable is the Status where Open failed.
func Unavailable(s Scope, err error) Status {
	u, known := errors.AsType[unavailable](err)
	if !known {
		u = unavailable{KernelRefuses, err.Error()}
	}
	return Status{Scope: s, Reason: u.reason, Detail: u.text}
}

func (t *Translator) make() (err error) {
	if t.options.Scope == Host {
		if t.cookie, err = namespaceCookie(); err != nil {
			return err
		}
	}
	if t.notes, err = newNotes(); err != nil {
		return fmt.Errorf("making the map of notes at sockets: %w", err)
	}
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		m := &memory{family: f, translator: t}
		if _, err := m.resize(1, 1); err != nil {
			return fmt.Errorf("making maps of %s: %w", f, err)
		}
		t.memories[f] = m
	}
	t.turns = true
	if t.programs, err = t.load(); err != nil && !errors.Is(err, unix.EPERM) { // atomic operations return values since Linux 5.12, and on arm since 5.18 or later
		t.turns = false
		t.programs, err = t.load()
	}
	return err
}

// prepareKernel fails before Linux 5.10, a long-term version that has all it takes. Before 5.11
// maps count as locked memory.
func prepareKernel() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("asking for the version of the kernel: %w", err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	if before(release, 5, 10) {
		return unavailable{KernelTooOld, fmt.Sprintf("it takes Linux 5.10, and this is %s", release)}
	}
	if !before(release, 5, 11) {
		return nil
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}); err != nil {
		return unavailable{NotPermitted, fmt.Sprintf("before Linux 5.11 maps count as locked memory, whose limit cannot be raised (it takes the capability SYS_RESOURCE): %v", err)}
	}
	return nil
}

// permitted fails where the agent may not use BPF, by its capabilities or by the seccomp profile of
// its container. The library would take that for a kernel that lacks what it asks for. The map is
// of a kind that takes the capability on all kernels.
func permitted() error {
	attributes := struct{ kind, key, value, entries, flags uint32 }{kind: unix.BPF_MAP_TYPE_LPM_TRIE, key: 8, value: 4, entries: 1, flags: unix.BPF_F_NO_PREALLOC}
	fd, _, problem := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes))
	switch problem {
	case 0:
		return unix.Close(int(fd))
	case unix.EPERM, unix.EACCES, unix.ENOSYS:
		return unavailable{NotPermitted, "the agent may not use BPF: it takes the capabilities BPF and NET_ADMIN (before Linux 5.8 SYS_ADMIN), and a seccomp profile that knows them: " + problem.Error()}
	default:
		return nil // the library says more
	}
}

// before reports whether a release, such as 5.10.0-8-amd64, is older than a version. One that is no
// version is not: the kernel says itself what it lacks.
func before(release string, major, minor int) bool {
	var is [2]int
	n, _ := fmt.Sscanf(release, "%d.%d", &is[0], &is[1])
	return n == 2 && slices.Compare(is[:], []int{major, minor}) < 0
}

// load loads the programs for the maps that there are.
func (t *Translator) load() (all []*ebpf.Program, err error) {
	c := code{tables: map[model.Family]descriptors{}, notes: t.notes.FD(), turns: t.turns, onlyNode: t.options.Scope == Host, cookie: t.cookie}
	for f, m := range t.memories {
		c.tables[f] = descriptors{m.fronts.FD(), m.slots.FD(), m.places.FD()}
	}
	for _, h := range hooks {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: h.name, Type: ebpf.CGroupSockAddr, AttachType: h.attach, License: "Apache-2.0", Instructions: h.code(c)})
		if err != nil {
			closeAll(all)
			return nil, fmt.Errorf("loading the program %s: %w", h.name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func closeAll(all []*ebpf.Program) {
	for _, p := range all {
		_ = p.Close()
	}
}

// grow gives a memory larger maps. Connections meet the programs of the old maps or those of the
// new ones, which hold the same.
func (t *Translator) grow(m *memory, slots, places int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := *m
	old, err := m.resize(slots, places)
	if err != nil {
		return fmt.Errorf("making larger maps of %s: %w", m.family, err)
	}
	next, err := t.load()
	if err == nil {
		if err = t.attached.update(next); err != nil {
			closeAll(next)
			t.detach() // some hooks may have the new programs
		}
	}
	if err != nil {
		m.close()
		*m = before
		return err
	}
	closeAll(t.programs)
	t.programs = next
	old()
	return nil
}

// Run attaches the programs where the scope says, looks once in a period whether they are still
// there and alone, and takes them away when ctx ends: rules serve then.
func (t *Translator) Run(ctx context.Context, period time.Duration) {
	again := time.NewTicker(period)
	defer again.Stop()
	for {
		if s, changed := t.look(); changed {
			log := logr.FromContextOrDiscard(ctx).WithValues("scope", s.Scope, "reason", s.Reason, "detail", s.Detail)
			if s.Active() {
				log.Info("Connections are translated at connect()")
			} else {
				log.Info("Connections are not translated at connect(), and rules serve all")
			}
		}
		select {
		case <-ctx.Done():
			t.close()
			return
		case <-again.C:
		}
	}
}

// look attaches the programs if they are not, and reports whether the status changed.
func (t *Translator) look() (Status, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := Status{Scope: t.options.Scope, Reason: Attached}
	if err := t.ensure(); err != nil {
		t.detach()
		u, known := errors.AsType[unavailable](err)
		if !known {
			u = unavailable{AttachFailed, err.Error()}
		}
		next.Reason, next.Detail = u.reason, u.text
	} else {
		next.Detail = "attached to " + t.attached.path
	}
	changed := next != t.status
	t.status = next
	return next, changed
}

// ensure has the programs attached to the cgroup of the scope, which may be another one than before
// at the same path.
func (t *Translator) ensure() error {
	path, err := target(t.options.Scope, t.options.CgroupRoot)
	if err != nil {
		return err
	}
	id, err := identity(path)
	if err != nil {
		return err
	}
	if t.attached == nil || t.attached.path != path || t.attached.id != id {
		t.detach()
		if t.attached, err = attach(path, id, t.programs); err != nil {
			return err
		}
	}
	return t.attached.check(t.programs)
}

func (t *Translator) detach() {
	if t.attached != nil {
		t.attached.close()
	}
	t.attached = nil
}

// Status is whether connections are translated now.
func (t *Translator) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// close takes the programs away. The maps go with the process: a Backend may still write them.
func (t *Translator) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.detach()
	closeAll(t.programs)
	t.programs = nil
	t.status = Status{Scope: t.options.Scope, Reason: Starting, Detail: "the agent ends"}
}
