package ipset

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func TestMain(m *testing.M) { network.Isolate(m) }

// open returns the sets of the namespace, of which those of the test are gone afterwards.
func open(t testing.TB) *Kernel {
	t.Helper()
	network.NeedIsolation(t)
	k, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer k.Close()
		counts, err := k.Counts(context.Background(), "")
		if err != nil {
			t.Error(err)
		}
		for name := range counts {
			if err := k.Destroy(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
	})
	return k
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command is a program with a lock of its own.
func command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "XTABLES_LOCKFILE="+filepath.Join(t.TempDir(), "lock"))
	return c
}

// run runs a program, whose lines it returns.
func run(t testing.TB, name string, args ...string) []string {
	t.Helper()
	c := command(t, name, args...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c, err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func ip(addr string) Entry { return Entry{Addr: netip.MustParseAddr(addr)} }

func port(addr string, p model.Protocol, number uint16) Entry {
	return Entry{Addr: netip.MustParseAddr(addr), Protocol: p, Port: number}
}

func from(e Entry, source string) Entry {
	e.Source = netip.MustParsePrefix(source)
	return e
}

func entriesOf(t testing.TB, k *Kernel, set string) map[Entry]struct{} {
	t.Helper()
	entries, err := k.Entries(t.Context(), set)
	must(t, err)
	return entries
}

func setOf(entries ...Entry) map[Entry]struct{} {
	all := make(map[Entry]struct{})
	for _, e := range entries {
		all[e] = struct{}{}
	}
	return all
}

func adds(set string, entries ...Entry) []Change {
	var changes []Change
	for _, e := range entries {
		changes = append(changes, Change{Set: set, Entry: e})
	}
	return changes
}

var sameEntries = cmpopts.EquateComparable(Entry{})

// lastDigits are those of a timeout that change while the test runs.
var lastDigits = regexp.MustCompile(`(timeout \d+)\d\d$`)

// TestRoundTrip puts entries into sets of every kind, and asks us and the ipset program for them.
func TestRoundTrip(t *testing.T) {
	v4, v6 := port("10.96.0.1", model.TCP, 80), port("fd00::a", model.SCTP, 80)
	for _, tc := range []struct {
		set     Set
		entries []Entry
		expires string // what ipset prints of a timeout
	}{
		{Set{"v4ip", HashIP, model.IPv4, 0}, []Entry{ip("10.0.0.1"), ip("255.255.255.255")}, ""},
		{Set{"v6ip", HashIP, model.IPv6, 0}, []Entry{ip("fd00::1"), ip("::ffff:1.2.3.4")}, ""},
		{Set{"v4port", HashIPPort, model.IPv4, 0}, []Entry{v4, port("10.96.0.1", model.UDP, 80), port("10.96.0.1", model.SCTP, 65535)}, ""},
		{Set{"v6port", HashIPPort, model.IPv6, 0}, []Entry{v6, port("fd00::a", model.TCP, 80), port("fd00::a", model.UDP, 80)}, ""},
		{Set{"v4hairpin", HashIPPortIP, model.IPv4, 0}, []Entry{from(v4, "10.96.0.1/32")}, ""},
		{Set{"v6hairpin", HashIPPortIP, model.IPv6, 0}, []Entry{from(v6, "fd00::a/128")}, ""},
		{Set{"v4net", HashIPPortNet, model.IPv4, 0}, []Entry{from(v4, "10.0.0.0/8"), from(v4, "192.0.2.1/32"), from(v4, "128.0.0.0/1")}, ""},
		{Set{"v6net", HashIPPortNet, model.IPv6, 0}, []Entry{from(v6, "fd00::/64"), from(v6, "fd00::5/128")}, ""},
		{Set{"ports", BitmapPort, 0, 0}, []Entry{{Port: 0}, {Port: 30080}, {Port: 65535}}, ""},
		{Set{"v4ages", HashIP, model.IPv4, 10850}, []Entry{ip("10.0.0.1")}, " timeout 108xx"},
		{Set{"v6ages", HashIP, model.IPv6, 799}, []Entry{ip("fd00::1")}, " timeout 7xx"},
	} {
		t.Run(tc.set.Name, func(t *testing.T) {
			k := open(t)
			must(t, k.Create(t.Context(), tc.set))
			must(t, k.Apply(t.Context(), adds(tc.set.Name, tc.entries...)))
			if diff := cmp.Diff(setOf(tc.entries...), entriesOf(t, k, tc.set.Name), sameEntries); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			lines := run(t, "ipset", "save", "-sorted", tc.set.Name)[1:]
			for i := range lines {
				lines[i] = strings.TrimPrefix(lines[i], "add "+tc.set.Name+" ")
				lines[i] = lastDigits.ReplaceAllString(lines[i], "${1}xx")
			}
			var want []string
			for _, e := range tc.entries {
				want = append(want, strings.ToLower(e.String())+tc.expires)
			}
			if diff := cmp.Diff(want, lines, cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("ipset save (-want +got):\n%s", diff)
			}
			must(t, k.Create(t.Context(), tc.set)) // Again: keeps the entries.
			must(t, k.Apply(t.Context(), adds(tc.set.Name, tc.entries...)))
			wantCounts := map[string]int{tc.set.Name: len(tc.entries)}
			if counts, err := k.Counts(t.Context(), tc.set.Name); err != nil || !cmp.Equal(counts, wantCounts) {
				t.Errorf("Counts: %v, %v, want %v", counts, err, wantCounts)
			}
			gone := adds(tc.set.Name, tc.entries...)
			for i := range gone {
				gone[i].Delete = true
			}
			must(t, k.Apply(t.Context(), gone))
			must(t, k.Apply(t.Context(), gone))
			if left := entriesOf(t, k, tc.set.Name); len(left) > 0 {
				t.Errorf("left after all were deleted: %v", left)
			}
		})
	}
}

func TestCreateOfOtherKinds(t *testing.T) {
	k := open(t)
	run(t, "ipset", "create", "small", "hash:ip", "maxelem", "10")
	run(t, "ipset", "create", "narrow", "bitmap:port", "range", "30000-32767")
	run(t, "ipset", "create", "newest", "hash:ip,port", "maxelem", "1048576", "comment", "counters")
	run(t, "ipset", "create", "foreign", "hash:net")
	must(t, k.Create(t.Context(), Set{"four", HashIP, model.IPv4, 0}, Set{"ages", HashIP, model.IPv4, 60}))
	must(t, k.Apply(t.Context(), adds("four", ip("10.0.0.1"))))
	for name, tc := range map[string]struct {
		set     Set
		wantErr error
	}{
		"the same":                           {Set{"four", HashIP, model.IPv4, 0}, nil},
		"another family":                     {Set{"four", HashIP, model.IPv6, 0}, ErrOtherKind},
		"another type":                       {Set{"four", HashIPPort, model.IPv4, 0}, ErrOtherKind},
		"ports":                              {Set{"four", BitmapPort, 0, 0}, ErrOtherKind},
		"shall expire now":                   {Set{"four", HashIP, model.IPv4, 60}, ErrOtherKind},
		"shall not expire any more":          {Set{"ages", HashIP, model.IPv4, 0}, ErrOtherKind},
		"shall expire later":                 {Set{"ages", HashIP, model.IPv4, 61}, nil},
		"too small":                          {Set{"small", HashIP, model.IPv4, 0}, ErrOtherKind},
		"not all ports":                      {Set{"narrow", BitmapPort, 0, 0}, ErrOtherKind},
		"made by a newer program, with more": {Set{"newest", HashIPPort, model.IPv4, 0}, nil},
		"a type that we do not use":          {Set{"foreign", HashIP, model.IPv4, 0}, ErrOtherKind},
	} {
		t.Run(name, func(t *testing.T) {
			other := Set{Name: "other", Type: HashIP, Family: model.IPv4}
			err := k.Create(t.Context(), tc.set, other)
			if !errors.Is(err, tc.wantErr) || err != nil && !strings.Contains(err.Error(), `"`+tc.set.Name+`"`) {
				t.Errorf("Create: %v, want %v with the name", err, tc.wantErr)
			}
			if err := k.Destroy(t.Context(), "other"); err != nil {
				t.Error(err)
			}
		})
	}
	if diff := cmp.Diff(setOf(ip("10.0.0.1")), entriesOf(t, k, "four"), sameEntries); diff != "" {
		t.Errorf("entries of a set that was refused (-want +got):\n%s", diff)
	}
}

// TestOneBadEntryIsFound has good entries before and after every kind of bad one, which does not
// stop those of other sets.
func TestOneBadEntryIsFound(t *testing.T) {
	k := open(t)
	must(t, k.Create(t.Context(), Set{"ports", HashIPPort, model.IPv4, 0}, Set{"nets", HashIPPortNet, model.IPv4, 0}))
	a, b := port("10.0.0.1", model.TCP, 1), port("10.0.0.2", model.TCP, 2)
	net := from(a, "10.0.0.0/8")
	for name, tc := range map[string]struct {
		bad     Change
		want    string
		refused bool
	}{
		"everything as a network":    {Change{Set: "nets", Entry: from(a, "0.0.0.0/0")}, "0.0.0.0/0", true},
		"the other family":           {Change{Set: "ports", Entry: port("fd00::1", model.TCP, 1)}, "10.0.0.1,TCP:1 and 2 more", true},
		"a part is missing":          {Change{Set: "ports", Entry: ip("10.0.0.4")}, "10.0.0.1,TCP:1 and 2 more", true},
		"a set that is not there":    {Change{Set: "nowhere", Entry: a}, ErrMissing.Error(), false},
		"a name that is too long":    {Change{Set: strings.Repeat("n", 32), Entry: a}, "nnn", true},
		"deleting what cannot be in": {Change{Set: "ports", Entry: ip("10.0.0.4"), Delete: true}, "deleting", true},
	} {
		t.Run(name, func(t *testing.T) {
			changes := []Change{{Set: "ports", Entry: a}, tc.bad, {Set: "ports", Entry: b}, {Set: "nets", Entry: net}}
			err := k.Apply(t.Context(), changes)
			if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, model.ErrRefused) != tc.refused {
				t.Errorf("Apply: %v, want an error with %q", err, tc.want)
			}
			if _, there := entriesOf(t, k, "nets")[net]; !there {
				t.Error("another set lacks its entry")
			}
			if tc.refused {
				refused, err := model.Bisect(changes, func(some ...Change) error { return k.Apply(t.Context(), some) })
				if err != nil || len(refused) != 1 || refused[tc.bad] == nil {
					t.Errorf("found %v, %v; want %v", refused, err, tc.bad)
				}
				if diff := cmp.Diff(setOf(a, b), entriesOf(t, k, "ports"), sameEntries); diff != "" {
					t.Errorf("ports (-want +got):\n%s", diff)
				}
			}
			for i := range changes {
				changes[i].Delete = true
			}
			_ = k.Apply(t.Context(), changes) // Clears the sets; the bad change fails again.
		})
	}
}

// TestDestroy has sets that rules of both variants of iptables refer to.
func TestDestroy(t *testing.T) {
	for _, iptables := range []string{"iptables-nft", "iptables-legacy"} {
		t.Run(iptables, func(t *testing.T) {
			k := open(t)
			must(t, k.Create(t.Context(), Set{"used", HashIP, model.IPv4, 0}, Set{"free", HashIP, model.IPv6, 0}))
			rule := func(verb string) []string {
				return []string{"-w", "-t", "nat", verb, "OUTPUT", "-m", "set", "--match-set", "used", "dst", "-j", "RETURN"}
			}
			run(t, iptables, rule("-A")...)
			err := k.Destroy(t.Context(), "missing", "used", "free")
			if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), `"used"`) || strings.Contains(err.Error(), "missing") {
				t.Errorf("Destroy: %v, want %v for the one", err, ErrInUse)
			}
			if counts, err := k.Counts(t.Context(), ""); err != nil || !cmp.Equal(counts, map[string]int{"used": 0}) {
				t.Errorf("left: %v, %v", counts, err)
			}
			// The reference is given up while Destroy waits, as the kernel does it for iptables-nft.
			deletion, deleted := command(t, iptables, rule("-D")...), make(chan error, 1)
			time.AfterFunc(100*time.Millisecond, func() { deleted <- deletion.Run() })
			start := time.Now()
			err = k.Destroy(t.Context(), "used")
			took := time.Since(start)
			must(t, <-deleted)
			if errors.Is(err, ErrInUse) && took >= (destroyTries-1)*destroyPause { // the program took longer than Destroy waits
				err = k.Destroy(t.Context(), "used")
			}
			if err != nil {
				t.Errorf("Destroy, which took %s: %v", took, err)
			}
			must(t, k.Create(t.Context(), Set{"free", HashIP, model.IPv6, 0}))
			must(t, k.Destroy(t.Context(), "", "used")) // no name is not all names
			if counts, err := k.Counts(t.Context(), ""); err != nil || !cmp.Equal(counts, map[string]int{"free": 0}) {
				t.Errorf("left: %v, %v", counts, err)
			}
		})
	}
}

// TestManyAtOnce has goroutines that change sets while other goroutines read them.
func TestManyAtOnce(t *testing.T) {
	k := open(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			name := fmt.Sprint("set", i)
			for range 5 {
				err := errors.Join(k.Create(t.Context(), Set{name, HashIPPort, model.IPv4, 0}), k.Apply(t.Context(), adds(name, many(500)...)))
				entries, missing := k.Entries(t.Context(), name)
				counts, uncounted := k.Counts(t.Context(), name)
				if err = errors.Join(err, missing, uncounted, k.Destroy(t.Context(), name)); err != nil || len(entries) != 500 || counts[name] != 500 {
					t.Errorf("%s: %d entries, counts %v, %v", name, len(entries), counts, err)
				}
			}
		})
	}
	all.Wait()
}

// many are n different entries for HashIPPort.
func many(n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		addr := netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})
		entries[i] = Entry{Addr: addr, Protocol: model.TCP, Port: 80}
	}
	return entries
}

// TestBulk writes and reads more entries than fit into one message.
func TestBulk(t *testing.T) {
	k := open(t)
	must(t, k.Create(t.Context(), Set{"bulk", HashIPPort, model.IPv4, 0}))
	must(t, k.Apply(t.Context(), adds("bulk", many(30000)...)))
	if diff := cmp.Diff(setOf(many(30000)...), entriesOf(t, k, "bulk"), sameEntries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
