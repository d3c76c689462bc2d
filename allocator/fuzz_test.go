package allocator_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/internal/golden"
)

// FuzzSet makes steps of bytes: the first one chooses the world, then six bytes are one step.
func FuzzSet(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, insertOne, 0, 0, 0, 0, 0, askFree, 0, 0, 0, 0, 0})                  // the network address, and nothing is free
	f.Add([]byte{3, insertMany, 0xff, 0xf0, 0, 0, 15, askFree, 0xff, 0, 0xff, 0xff, 9}) // up to 255.255.255.255
	f.Add([]byte{8, insertOne, 0xff, 0xff, 0, 0, 0, askCounts, 0, 0, 0xff, 0xff, 0})    // the last address of IPv6 in all of it
	f.Add([]byte{6, insertMany, 0, 0, 0, 0, 200, deleteMany, 0, 0, 0, 0, 199})          // a tree grows, and shrinks from the left
	f.Add([]byte{6, insertMany, 0, 0, 0, 0, 200, deleteMany, 0, 200, 0, 1, 199})        // and from the right
	f.Add([]byte{10, insertMany, 0x3f, 0, 0, 0, 255, askFree, 0x3f, 0, 0x40, 1, 3})     // across the middle of 128 bits
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		mustPass(t, setSteps(data[1:min(len(data), 300)]), runSet(worlds[int(data[0])%len(worlds)], 1))
	})
}

// FuzzPool makes steps of bytes, seven for each.
func FuzzPool(f *testing.F) {
	const yield = 2
	for _, steps := range [][]poolStep{
		{},
		{{draw}},                   // no tier at all
		{{draw, 0, 0, 1}},          // a tier without addresses
		{{draw, 0, 0xff, 3, 0, 4}}, // two families
		{{draw, 9, 0xff, 3}},       // three tiers of three spans
		{{draw, 9, 0xff, 3, 0, 1}}, // of IPv6
		{{cool, 5, 0, 0, 0, 0, 9}, {cool, 6, 0, 0, 0, 0, 8}, {draw, 5, 1, 1, 0, yield}, {draw, 5, 1, 1, 0, yield}}, // the second comes first
		{{assume, 9, 0, 0, 0, 1}, {release, 9, 0, 0, 0, 1}, {assume, 9, 0, 0, 0, 1}},                               // late news
		{{assume, 9, 0, 0, 0, 1}, {observeReserved, 9, 0, 0, 0, 1}, {assume, 9, 0, 0, 0, 1}},                       // early news
		{{draw, 0, 3, 0b1101, 5}, {draw, 0, 3, 0b0111, 8}, {draw, 1, 0xff, 0xe7, 0xff, 0xf}},                       // exclusions
	} {
		var data []byte
		for _, s := range steps {
			data = append(data, s[:]...)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		mustPass(t, poolSteps(data[:min(len(data), 420)]), runPool(1))
	})
}

// FuzzParseRange: nothing panics, what is accepted can be written and read again and is what its definition says,
// and what is refused is told what to do.
func FuzzParseRange(f *testing.F) {
	for _, text := range []string{
		"10.96.0.0/16", "fd00:10:96::/112", "",
		"0.0.0.0/0", "0.0.0.0/1", "255.255.255.255/32", "255.255.255.254/31", // the ends of IPv4
		"::/63", "::/64", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", // the ends of IPv6
		"::ffff:10.96.0.0/112", "::ffff:0:0/95", "::10.96.0.0/112", // what looks like IPv4 in IPv6; the last one is none
		"fe80::%eth0/64", "10.96.0.0%eth0/16", // zones
		"10.96.0.0/016", "010.96.0.0/16", "10.96.0.0/+16", "10.96/16", // spellings that other parsers accept
		"10.96.0.0/16\x00", "10.96.0.0/16 ", "１０.96.0.0/16", "1:2:3:4:5:6:7:8/９", // things behind, and digits of other scripts
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := allocator.ParseRange(text)
		if err != nil {
			checkRefusal(t, text, r, err)
			return
		}
		again, err := allocator.ParseRange(r.String())
		if err != nil || again != r {
			t.Fatalf("%q is %s, which is read as %s, %v", text, r, again, err)
		}
		if p, err := netip.ParsePrefix(text); err != nil || p.Masked() != r.Prefix() {
			t.Fatalf("%q is the prefix %s, %v, not %s", text, p, err, r.Prefix())
		}
		want := golden.Range{Prefix: r.Prefix()}
		if golden.Span(r.Span()) != want.Usable() || golden.Span(r.Band(allocator.Static)) != want.Static() {
			t.Fatalf("%q has the addresses %s, of which %s are static", text, r.Span(), r.Band(allocator.Static))
		}
	})
}

func checkRefusal(t *testing.T, text string, r allocator.Range, err error) {
	t.Helper()
	var refused *allocator.RangeError
	if !errors.As(err, &refused) || r != (allocator.Range{}) {
		t.Fatalf("%q: %s, %v", text, r, err)
	}
	if !strings.Contains(refused.Reason, "write ") && !strings.Contains(refused.Reason, "choose ") {
		t.Fatalf("%q: %v does not say what to do", text, err)
	}
}
