package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// UseCgroups has sockets of the node and its pods belong to cgroups of a machine's: those that are
// made from now on, in pods below "kubepods", on the node beside that. It returns their root, which
// is the node's. Other hosts have none of this node. The Topology removes what it makes.
func (b *Topology) UseCgroups() (root string, err error) {
	process, err := shared.enter()
	if err != nil {
		return "", err
	}
	b.leave = shared.exit
	if b.cgroup, err = process.threaded(fmt.Sprintf("node-%d", cgroups.Add(1))); err != nil {
		return "", err
	}
	if b.Node.threads, err = b.Node.threadsIn(b.cgroup, "host"); err != nil {
		return "", err
	}
	return b.cgroup.path, b.MakePods()
}

// MakePods makes the cgroups of the pods, see RemovePods.
func (b *Topology) MakePods() error {
	all, err := b.cgroup.threaded("kubepods")
	if err != nil {
		return err
	}
	for _, n := range b.pods() {
		if n.threads, err = n.threadsIn(all, n.Host()); err != nil {
			return err
		}
	}
	return nil
}

// pods are those on the node.
func (b *Topology) pods() []*Namespace { return []*Namespace{b.Pod1, b.Pod2} }

// RemovePods removes the cgroup of all pods, as before a kubelet with another driver. Until
// [Topology.MakePods] nothing may happen in the pods.
func (b *Topology) RemovePods() error {
	for _, n := range b.pods() {
		n.threads.close()
	}
	return Cgroup{filepath.Join(b.cgroup.path, "kubepods")}.remove()
}

// threadsIn are those of a namespace in a new cgroup.
func (n *Namespace) threadsIn(c Cgroup, name string) (*threads, error) {
	own, err := c.threaded(name)
	return &threads{of: n.Netns, cgroup: own, reached: map[netip.AddrPort]int{}}, err
}

// closeCgroups ends the threads that are in them.
func (b *Topology) closeCgroups() (err error) {
	for _, n := range b.Namespaces() {
		if n != nil && n.threads != nil {
			n.threads.close()
		}
	}
	if b.cgroup.path != "" {
		err = b.cgroup.remove()
	}
	if b.leave != nil {
		err = errors.Join(err, b.leave())
	}
	return err
}

// threaded makes a cgroup in it that takes threads of this process, not the process as a whole.
func (c Cgroup) threaded(name string) (Cgroup, error) {
	child, err := c.Child(name)
	if err == nil {
		err = os.WriteFile(filepath.Join(child.path, "cgroup.type"), []byte("threaded"), 0)
	}
	if err != nil {
		return child, fmt.Errorf("making the cgroup %s: %w", child.path, err)
	}
	return child, nil
}

// shared is the cgroup of this process, in which those of all Topologies are.
var shared processCgroup

type processCgroup struct {
	mu    sync.Mutex
	users int
	Cgroup
}

func (p *processCgroup) enter() (Cgroup, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == 0 {
		c, err := NewCgroup()
		if err != nil {
			return c, err
		}
		if err := c.Enter(os.Getpid()); err != nil {
			return c, errors.Join(err, c.Close())
		}
		p.Cgroup = c
	}
	p.users++
	return p.Cgroup, nil
}

func (p *processCgroup) exit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users > 0 {
		return nil
	}
	return p.Close()
}

// threads are those of this process in a network namespace and a cgroup. A function runs on one
// that no other has: to move a thread each time would take milliseconds.
type threads struct {
	of     Netns
	cgroup Cgroup

	mu      sync.Mutex
	idle    []chan func()
	all     []chan func()
	closed  bool
	reached map[netip.AddrPort]int
}

// InCgroup reports whether sockets that are made in it belong to a cgroup of the node or its pods.
func (n *Namespace) InCgroup() bool { return n.threads != nil }

// Reached is how many connections over TCP to an address Dial has made from a namespace with a
// cgroup. It is 0 of one without.
func (n *Namespace) Reached(to netip.AddrPort) int {
	if n.threads == nil {
		return 0
	}
	n.threads.mu.Lock()
	defer n.threads.mu.Unlock()
	return n.threads.reached[to]
}

// note counts a connection, but not of a socket that is bound to loopback: rules lead that.
func (t *threads) note(p Probe, r Result) {
	if t == nil || p.Source.Addr().IsLoopback() || p.Protocol != model.TCP || r.Outcome != Connected {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reached[p.To]++
}

func (t *threads) do(f func() error) (err error) {
	w, err := t.worker()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	w <- func() { err = f(); close(done) }
	<-done
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = append(t.idle, w)
	return err
}

func (t *threads) worker() (chan func(), error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fmt.Errorf("the network namespace %s is closed", t.of.name)
	}
	if n := len(t.idle); n > 0 {
		w := t.idle[n-1]
		t.idle = t.idle[:n-1]
		return w, nil
	}
	w, ready := make(chan func()), make(chan error)
	go t.run(w, ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	t.all = append(t.all, w)
	return w, nil
}

// run leaves the thread locked, so that it ends with the goroutine.
func (t *threads) run(work chan func(), ready chan error) {
	runtime.LockOSThread()
	err := unix.Setns(int(t.of.file.Fd()), unix.CLONE_NEWNET)
	if err == nil {
		err = os.WriteFile(filepath.Join(t.cgroup.path, "cgroup.threads"), []byte(strconv.Itoa(unix.Gettid())), 0)
	}
	if ready <- err; err != nil {
		return
	}
	for f := range work {
		f()
	}
}

// close ends the threads. None of them may be in use.
func (t *threads) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, w := range t.all {
		close(w)
	}
	t.all, t.idle = nil, nil
}
