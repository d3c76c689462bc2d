package ipset

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func ip(addr string) Entry { return Entry{Addr: netip.MustParseAddr(addr)} }

func port(addr string, p model.Protocol, number uint16) Entry {
	return Entry{Addr: netip.MustParseAddr(addr), Protocol: p, Port: number}
}

func from(e Entry, source string) Entry {
	e.Source = netip.MustParsePrefix(source)
	return e
}

func TestEntryCheckAndString(t *testing.T) {
	web := port("10.96.0.1", model.TCP, 80)
	for name, tc := range map[string]struct {
		entry   Entry
		wantErr error
		want    string
	}{
		"an address":                          {ip("10.0.0.1"), nil, "10.0.0.1"},
		"an address of IPv6":                  {ip("fd00::1"), nil, "fd00::1"},
		"a port":                              {Entry{Port: 30080}, nil, "30080"},
		"the port zero":                       {Entry{}, nil, "0"},
		"address and port":                    {web, nil, "10.96.0.1,TCP:80"},
		"with a second address":               {from(web, "10.0.0.9/32"), nil, "10.96.0.1,TCP:80,10.0.0.9"},
		"with a network":                      {from(web, "10.0.0.0/8"), nil, "10.96.0.1,TCP:80,10.0.0.0/8"},
		"with everything":                     {from(web, "0.0.0.0/0"), ErrEntry, "10.96.0.1,TCP:80,0.0.0.0/0"},
		"with everything of IPv6":             {from(port("fd00::1", model.UDP, 53), "::/0"), ErrEntry, "fd00::1,UDP:53,::/0"},
		"with a network of the other family":  {from(web, "fd00::/64"), ErrEntry, "10.96.0.1,TCP:80,fd00::/64"},
		"the address zero":                    {port("0.0.0.0", model.TCP, 80), ErrEntry, "0.0.0.0,TCP:80"},
		"with a zone":                         {ip("fe80::1%eth0"), ErrEntry, "fe80::1%eth0"},
		"a port without protocol":             {port("10.0.0.1", 0, 80), ErrEntry, "10.0.0.1"},
		"a protocol without port":             {port("10.0.0.1", model.TCP, 0), ErrEntry, "10.0.0.1,TCP:0"},
		"a source without port":               {from(ip("10.0.0.1"), "10.0.0.0/8"), ErrEntry, "10.0.0.1"},
		"a source without anything else":      {from(Entry{}, "10.0.0.0/8"), ErrEntry, "0"},
		"a protocol and port without address": {Entry{Protocol: model.UDP, Port: 53}, ErrEntry, "53"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.entry.check(); !errors.Is(err, tc.wantErr) {
				t.Errorf("check: %v, want %v", err, tc.wantErr)
			}
			if got := tc.entry.String(); got != tc.want {
				t.Errorf("String: %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSetCheck(t *testing.T) {
	long := strings.Repeat("n", 31)
	for name, tc := range map[string]struct {
		set     Set
		wantErr error
	}{
		"the longest name":        {Set{Name: long, Type: HashIP, Family: model.IPv4}, nil},
		"a name of 32 bytes":      {Set{Name: long + "n", Type: HashIP, Family: model.IPv4}, ErrSet},
		"no name":                 {Set{Type: HashIP, Family: model.IPv4}, ErrSet},
		"no family":               {Set{Name: "a", Type: HashIP}, ErrSet},
		"ports need no family":    {Set{Name: "a", Type: BitmapPort}, nil},
		"a type that we know not": {Set{Name: "a", Type: "hash:mac", Family: model.IPv4}, ErrSet},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.set.check(); !errors.Is(err, tc.wantErr) {
				t.Errorf("check: %v, want %v", err, tc.wantErr)
			}
		})
	}
}

func TestBatches(t *testing.T) {
	a, b := ip("10.0.0.1"), ip("10.0.0.2")
	for name, tc := range map[string]struct {
		changes []Change
		want    []batch
	}{
		"nothing": {nil, nil},
		"sets in the order in which they are named": {
			[]Change{{Set: "Z", Entry: a}, {Set: "A", Entry: a}, {Set: "Z", Entry: b}},
			[]batch{{set: "Z", entries: []Entry{a, b}}, {set: "A", entries: []Entry{a}}},
		},
		"what comes is there before anything goes": {
			[]Change{{Set: "S", Entry: a, Delete: true}, {Set: "S", Entry: b}},
			[]batch{{set: "S", entries: []Entry{b}}, {set: "S", delete: true, entries: []Entry{a}}},
		},
		"added, then deleted": {
			[]Change{{Set: "S", Entry: a}, {Set: "S", Entry: a, Delete: true}},
			[]batch{{set: "S", delete: true, entries: []Entry{a}}},
		},
		"deleted, then added": {
			[]Change{{Set: "S", Entry: a, Delete: true}, {Set: "S", Entry: a}},
			[]batch{{set: "S", entries: []Entry{a}}},
		},
		"one entry of two sets": {
			[]Change{{Set: "S", Entry: a}, {Set: "T", Entry: a, Delete: true}},
			[]batch{{set: "S", entries: []Entry{a}}, {set: "T", delete: true, entries: []Entry{a}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, batches(tc.changes), cmp.AllowUnexported(batch{}), cmpopts.EquateComparable(Entry{})); diff != "" {
				t.Errorf("batches (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBatchesDoWhatChangesDo carries out random changes one by one, and as batches.
func TestBatchesDoWhatChangesDo(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var changes []Change
		for range random.IntN(2000) {
			changes = append(changes, Change{
				Set:    fmt.Sprint("S", random.IntN(3)),
				Entry:  Entry{Port: uint16(random.IntN(1500))},
				Delete: random.IntN(3) == 0,
			})
		}
		want, got := oneByOne(changes), make(map[Change]bool)
		for _, b := range batches(changes) {
			if len(b.entries) == 0 || len(b.entries) > maxBatch {
				t.Fatalf("seed %d: a batch of %d", seed, len(b.entries))
			}
			for _, e := range b.entries {
				if _, twice := got[Change{Set: b.set, Entry: e}]; twice {
					t.Fatalf("seed %d: %v changes twice", seed, e)
				}
				got[Change{Set: b.set, Entry: e}] = !b.delete
			}
		}
		if !maps.Equal(want, got) {
			t.Fatalf("seed %d: %s", seed, cmp.Diff(want, got, cmpopts.EquateComparable(Change{})))
		}
	}
}

// oneByOne is whether each entry that is named is there at the end.
func oneByOne(changes []Change) map[Change]bool {
	there := make(map[Change]bool)
	for _, c := range changes {
		there[Change{Set: c.Set, Entry: c.Entry}] = !c.Delete
	}
	return there
}
