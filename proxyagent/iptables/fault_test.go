//go:build linux

package iptables

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

var errFault = errors.New("a fault of the test")

// faulty is sets of the real kernel, of which one call fails before it does anything, or after.
type faulty struct {
	Sets
	left int  // calls until the one that fails; below zero none does
	late bool // it fails after it did its work
}

// do lets a call through, or not.
func (s *faulty) do(call func() error) error {
	s.left--
	if s.left != -1 {
		return call()
	}
	if s.late {
		_ = call()
	}
	return errFault
}

func (s *faulty) Create(ctx context.Context, sets ...ipset.Set) error {
	return s.do(func() error { return s.Sets.Create(ctx, sets...) })
}

func (s *faulty) Apply(ctx context.Context, changes []ipset.Change) error {
	return s.do(func() error { return s.Sets.Apply(ctx, changes) })
}

func (s *faulty) Destroy(ctx context.Context, names ...string) error {
	return s.do(func() error { return s.Sets.Destroy(ctx, names...) })
}

func (s *faulty) Counts(ctx context.Context, prefix string) (counts map[string]int, err error) {
	err = s.do(func() (err error) { counts, err = s.Sets.Counts(ctx, prefix); return err })
	return counts, err
}

func (s *faulty) Entries(ctx context.Context, name string) (entries map[ipset.Entry]struct{}, err error) {
	err = s.do(func() (err error) { entries, err = s.Sets.Entries(ctx, name); return err })
	return entries, err
}

// script writes a program that runs another, but does instead for as many runs as arm says.
func script(t *testing.T, p *Proxier, program, instead string) (path string, arm func(times int)) {
	t.Helper()
	keep(t, p)
	path = filepath.Join(t.TempDir(), filepath.Base(program))
	faults := path + ".faults"
	text := fmt.Sprintf("#!/bin/sh\nif [ -s %s ]; then sed -i 1d %s; %s; fi\nexec %s \"$@\"\n", faults, faults, instead, program)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, func(times int) {
		if err := os.WriteFile(faults, []byte(strings.Repeat("fault\n", times)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// keep gives the real programs back before the end.
func keep(t *testing.T, p *Proxier) {
	t.TempDir() // made first, and so taken away last
	programs := p.run
	t.Cleanup(func() { p.run = programs })
}

// TestSyncFinishesWhatFailed fails every call to the sets once, before or after its work, in a
// change and in the first sync after a restart. The next sync completes the Plan, with no new
// Delta.
func TestSyncFinishesWhatFailed(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		kernel := &faulty{Sets: p.options.Sets, left: -1}
		// One variant of each family is enough: what fails is the same for all.
		if late := p.options.Family == model.IPv6; late == (p.options.Mode == NFT) {
			failEach(t, p, kernel)
		}
	})
}

func failEach(t *testing.T, p *Proxier, kernel *faulty) {
	t.Helper()
	kernel.late = p.options.Mode == Legacy
	random, faults := plans.New(5, p.options.Family), 0
	p.options.Sets = kernel
	syncOne(t, p, plans.Whole(random.Plan))
	for start := range 2 { // a change, and then a restart
		for call, failed := 0, true; failed; call += 1 + 4*start*min(1, call/2) { // of the many sets that a start reads, some
			kernel.left = -1
			if start == 1 {
				p = newProxier(t, p.options.Mode, p.options.Family)
				p.options.Sets = kernel
			}
			kernel.left = call
			if failed = syncFails(t, p, kernel, random); failed {
				faults++
			}
		}
	}
	kernel.left = -1
	if faults < 6 {
		t.Errorf("only %d calls could fail", faults)
	}
}

// syncFails syncs a step of which a call may fail, and then again. It reports whether one failed.
func syncFails(t *testing.T, p *Proxier, kernel *faulty, random *plans.Random) bool {
	t.Helper()
	d := random.Step(10)
	if !p.known {
		d = plans.Whole(random.Plan)
	}
	_, err := p.Sync(context.Background(), d)
	kernel.left = -1
	if err == nil {
		agree(t, p)
		return false
	}
	if !errors.Is(err, errFault) {
		t.Fatalf("failed with %v", err)
	}
	if found, err := p.Check(context.Background(), time.Now()); found != nil || err != nil {
		t.Fatalf("a look after a failed sync found %q, %v", found, err)
	}
	if full := syncOne(t, p, model.Delta{}); !full {
		t.Errorf("after a failure the kernel was not looked at")
	}
	agree(t, p)
	noUnwantedSets(t, p)
	return true
}

// noUnwantedSets looks that the kernel has the sets that are wanted, and no other.
func noUnwantedSets(t *testing.T, p *Proxier) {
	t.Helper()
	counts, err := p.options.Sets.Counts(context.Background(), rules.SetPrefix(p.options.Family))
	if err != nil {
		t.Fatal(err)
	}
	if missing, unexpected := p.rules.CompareSets(counts), p.rules.OldSets(); len(missing)+len(unexpected) > 0 {
		t.Errorf("sets that are missing: %v; that are unexpected: %v", missing, unexpected)
	}
}

// TestAStuckRestoreDoesNotStopTheOtherFamily; later, no transaction counts as another program's.
func TestAStuckRestoreDoesNotStopTheOtherFamily(t *testing.T) {
	network.NeedIsolation(t)
	p, random := newProxier(t, NFT, model.IPv6), plans.New(2, model.IPv6)
	t.Cleanup(func() { clean(t, p) })
	p.options.Generations.Timeout = time.Millisecond
	syncOne(t, p, plans.Whole(random.Plan))
	begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- p.options.Generations.Write(func() (int, error) {
			close(begun)
			<-goOn
			return 1, p.run.Restore(context.Background(), []byte("*mangle\n:OTHER-FAMILY - [0:0]\n-X OTHER-FAMILY\nCOMMIT\n"))
		})
	}()
	<-begun
	syncOne(t, p, random.Step(20))
	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	agree(t, p)
	if now, known, err := p.probe(); now != p.last || p.suspect || !known || err != nil {
		t.Errorf("there are changes by others: %v after %v, suspected: %t, known: %t, %v", now, p.last, p.suspect, known, err)
	}
}

// TestProgramsThatFail stands in for save and restore, at first and later.
func TestProgramsThatFail(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		random := plans.New(3, p.options.Family)
		save, failSave := script(t, p, p.run.save, "echo no memory >&2; exit 3")
		restore, failRestore := script(t, p, p.run.restore, "cat >/dev/null; echo line 7 failed >&2; exit 1")
		p.run = runner{save: save, restore: restore}

		failSave(2)
		syncWith(t, p, plans.Whole(random.Plan), "reading the rules: running "+save, "exit status 3: no memory")
		syncWith(t, p, random.Step(20), "reading the rules")
		failRestore(1000)
		syncWith(t, p, random.Step(20), "looking for ports", "running "+restore, "exit status 1: line 7 failed")
		syncWith(t, p, model.Delta{}, "line 7 failed")
		if p.Degraded() != nil {
			t.Errorf("degraded, although everything is refused: %v", p.Degraded())
		}
		failRestore(0)
		if !syncOne(t, p, model.Delta{}) {
			t.Error("after a failure the kernel was not looked at")
		}
		agree(t, p)

		failRestore(4) // which hits a port or two by accident
		syncOne(t, p, random.Step(20))
		syncOne(t, p, random.Step(20))
		if p.Degraded() != nil {
			t.Errorf("degraded by an accident: %v", p.Degraded())
		}
		agree(t, p)

		// Another program takes the lock, perhaps between two tables: what was written has to be read.
		p.run.restore, failRestore = script(t, p, restore, "cat >/dev/null; echo Another app is currently holding the xtables lock. >&2; exit 4")
		failRestore(1)
		if _, err := p.Sync(context.Background(), random.Step(30)); !errors.Is(err, ErrLocked) {
			t.Errorf("got the error %v", err)
		}
		if !syncOne(t, p, random.Step(10)) {
			t.Error("the kernel was not looked at")
		}
		agree(t, p)
		noUnwantedSets(t, p)
	})
}

// syncWith demands that a sync fails, with all of the words.
func syncWith(t *testing.T, p *Proxier, d model.Delta, words ...string) {
	t.Helper()
	_, err := p.Sync(context.Background(), d)
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got the error %v, want one with %q", err, w)
		}
	}
}

// TestChangesDoNotWaitForComparing has a sync come during a long reading, which is then outdated.
func TestChangesDoNotWaitForComparing(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		ctx, random := context.Background(), plans.New(4, p.options.Family)
		syncOne(t, p, plans.Whole(random.Plan))
		syncOne(t, p, random.Step(60))
		if err := p.run.Restore(ctx, []byte("*nat\n:CIPA-VIPS - [0:0]\nCOMMIT\n")); err != nil {
			t.Fatal(err)
		}
		save, slow := script(t, p, p.run.save, "all=$("+p.run.save+` "$@"); echo "$all"; touch $0.read; while [ -e $0.read ]; do sleep 0.01; done; exit 0`)
		p.run.save = save
		slow(1)
		type result struct {
			found []string
			err   error
		}
		checked := make(chan result)
		go func() {
			found, err := p.Check(ctx, time.Now().Add(time.Minute))
			checked <- result{found, err}
		}()
		for _, err := os.Stat(save + ".read"); err != nil; _, err = os.Stat(save + ".read") {
			time.Sleep(time.Millisecond)
		}
		syncOne(t, p, random.Step(60)) // would not end
		if err := os.Remove(save + ".read"); err != nil {
			t.Fatal(err)
		}
		r := <-checked
		if vips := "chain CIPA-VIPS"; r.err != nil || len(r.found) > 1 || len(r.found) == 1 && r.found[0] != vips {
			t.Errorf("found %q, %v; want nothing but %s", r.found, r.err, vips)
		}
		agree(t, p)
	})
}

// TestProgramsEndWithTheContext so that the agent ends soon.
func TestProgramsEndWithTheContext(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		restore, hang := script(t, p, p.run.restore, "exec sleep 60")
		p.run.restore = restore
		hang(1)
		hangs := func() bool {
			left, err := os.Stat(restore + ".faults")
			return err == nil && left.Size() == 0
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan time.Time, 1)
		go func() {
			defer cancel()
			for end := time.Now().Add(time.Minute); !hangs() && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			ended <- time.Now()
		}()
		_, err := p.Sync(ctx, plans.Whole(plans.New(1, p.options.Family).Plan))
		if took := time.Since(<-ended); !errors.Is(err, context.Canceled) || !hangs() || took > 10*time.Second {
			t.Errorf("%s after the end of its context it failed with %v", took, err)
		}
		syncOne(t, p, model.Delta{})
		agree(t, p)
	})
}

// affine is a port with affinity and one endpoint, whose set is the only one of its clients.
func affine(f model.Family) (port model.ServicePort, globals model.Globals, set ipset.Set) {
	port = model.ServicePort{
		Name: plans.Name(), Port: 80, ClusterIPs: []netip.Addr{plans.Endpoints(f, 2)[1].Addr()}, AffinitySeconds: 60, HasEndpoints: true, Cluster: plans.Endpoints(f, 1),
	}
	globals = model.Globals{Family: f, MasqueradeBit: 14, NodePortAny: true}
	r := rules.NewRuleset(f)
	r.Apply(model.Delta{Globals: &globals, Ports: map[model.PortName]*model.ServicePort{port.Name: &port}})
	return port, globals, r.NewSets()[0]
}

// TestSetsOfClientsComeAndGo with endpoints, or by another program. A restart keeps the clients.
func TestSetsOfClientsComeAndGo(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		port, g, set := affine(p.options.Family)
		if err := p.options.Sets.Create(context.Background(), set); err != nil {
			t.Fatal(err)
		}
		restore, fail := script(t, p, p.run.restore, "exit 1")
		p.run.restore = restore
		fail(1000) // so that the set is found unwanted, and wanted before it is gone
		syncWith(t, p, model.Delta{Globals: &g}, "changing")
		fail(0)
		syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{port.Name: &port}})
		agree(t, p)
		noUnwantedSets(t, p)
		client := ipset.Entry{Addr: plans.Endpoints(p.options.Family, 9)[8].Addr()}
		run(t, "ipset", "add", set.Name, client.String())
		p = newProxier(t, p.options.Mode, p.options.Family)
		syncOne(t, p, model.Delta{Globals: &g, Ports: map[model.PortName]*model.ServicePort{port.Name: &port}})
		clients, err := p.options.Sets.Entries(context.Background(), set.Name)
		if _, there := clients[client]; err != nil || !there {
			t.Errorf("after a restart there are the clients %v, %v", clients, err)
		}
		for _, next := range []*model.ServicePort{nil, &port} {
			syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{port.Name: next}})
			agree(t, p)
			noUnwantedSets(t, p)
		}
		iptables(t, p, "-t", "nat", "-F")
		iptables(t, p, "-t", "nat", "-X")
		if err := p.options.Sets.Destroy(context.Background(), set.Name); err != nil {
			t.Fatal(err)
		}
		if found, err := p.Check(context.Background(), time.Now().Add(time.Hour)); err != nil || !slices.Contains(found, "set "+set.Name) {
			t.Errorf("found %q, %v", found, err)
		}
		agree(t, p)
		noUnwantedSets(t, p)
	})
}

// TestSameDamageTwice replaces a rule again after its repair: that is no odd spelling of iptables.
func TestSameDamageTwice(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		_, g, _ := affine(p.options.Family)
		syncOne(t, p, model.Delta{Globals: &g})
		now := time.Now()
		for i := range 3 {
			must(t, oneRule(t, p).Replace("nat", "CIPA-SERVICES", 1, "-s", plans.Endpoints(p.options.Family, 1)[0].Addr().String(), "-j", "RETURN"))
			for range 2 { // with iptables-legacy only the look at everything sees a rule replaced by one of the same size
				now = now.Add(10 * time.Minute)
				if _, err := p.Check(context.Background(), now); err != nil {
					t.Fatal(err)
				}
			}
			text, err := p.run.Save(context.Background(), "nat")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), " -A CIPA-SERVICES -j CIPA-VIPS\n") {
				t.Fatalf("damage number %d was not repaired:\n%s", i+1, text)
			}
		}
	})
}

// TestAnUnknownSpellingIsWrittenOnceMore and then accepted, instead of being repaired for ever.
func TestAnUnknownSpellingIsWrittenOnceMore(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		_, g, _ := affine(p.options.Family)
		keep(t, p)
		save := filepath.Join(t.TempDir(), "save")
		text := fmt.Sprintf("#!/bin/sh\n%s \"$@\" | sed 's/-j CIPA-VIPS/-j CIPA-VIPS -m peculiar/'\n", p.run.save)
		if err := os.WriteFile(save, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		p.run.save = save
		syncOne(t, p, model.Delta{Globals: &g})
		now, repairs := time.Now(), 0
		for range 10 {
			now = now.Add(10 * time.Minute)
			found, err := p.Check(context.Background(), now)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) > 0 {
				repairs++
			}
		}
		if repairs > 2 {
			t.Errorf("a rule that is only spelled in another way was repaired %d times", repairs)
		}
	})
}

// TestMissingPrograms names the package.
func TestMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := New(Options{Mode: NFT, Family: model.IPv6})
	if err == nil || !strings.Contains(err.Error(), "ip6tables-nft-save is needed, install the package iptables") || !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got the error %v", err)
	}
}
