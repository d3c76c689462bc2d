package nfnetlink

import (
	"bytes"
	"encoding/binary"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAttrsRoundTrip writes attributes of every kind and reads them back.
func TestAttrsRoundTrip(t *testing.T) {
	attrs := Attrs(nil).
		Put(1, 7).
		PutNet16(2, 0x1234).
		PutNet32(3, 0x12345678).
		PutString(4, "CIPA-CIP").
		Nest(5, func(a Attrs) Attrs { return a.Put(1, 1, 2, 3, 4, 5).Nest(2, func(a Attrs) Attrs { return a }) }).
		Put(6)
	if len(attrs)%4 != 0 {
		t.Errorf("%d bytes", len(attrs))
	}
	got := maps.Collect(attrs.All())
	if n := len(got); n != 6 {
		t.Fatalf("%d attributes: %v", n, got)
	}
	if b := got[1].Byte(); b != 7 {
		t.Errorf("Byte: %d", b)
	}
	if n := got[2].Net16(); n != 0x1234 {
		t.Errorf("Net16: %x", n)
	}
	if n := got[3].Net32(); n != 0x12345678 {
		t.Errorf("Net32: %x", n)
	}
	if s := got[4].Text(); s != "CIPA-CIP" {
		t.Errorf("Text: %q", s)
	}
	if diff := cmp.Diff(map[uint16]Attrs{1: {1, 2, 3, 4, 5}, 2: {}}, maps.Collect(got[5].All())); diff != "" {
		t.Errorf("nested (-want +got):\n%s", diff)
	}
	if len(got[6]) != 0 {
		t.Errorf("empty: %v", got[6])
	}
}

// TestAttrsOnTheWire pins the bytes: length, type with its flags, value, padding.
func TestAttrsOnTheWire(t *testing.T) {
	attrs := Attrs(nil).Nest(7, func(a Attrs) Attrs { return a.PutNet16(4, 80) })
	var want []byte
	for _, n := range []uint16{12, 7 | 1<<15, 6, 4 | 1<<14} {
		want = binary.NativeEndian.AppendUint16(want, n)
	}
	want = append(want, 0, 80, 0, 0)
	if !bytes.Equal(attrs, want) {
		t.Errorf("%v, want %v", []byte(attrs), want)
	}
}

func TestValuesOfOtherLengths(t *testing.T) {
	for _, value := range []Attrs{nil, {1}, {1, 2, 3}, {1, 2, 3, 4, 5}} {
		if value.Net16() != 0 || value.Net32() != 0 {
			t.Errorf("%v is read as a number", value)
		}
	}
	if b := Attrs(nil).Byte(); b != 0 {
		t.Errorf("Byte of nothing: %d", b)
	}
	if s := (Attrs("abc")).Text(); s != "abc" {
		t.Errorf("Text without an end: %q", s)
	}
}

// FuzzAll reads anything: never past the end, and always to an end.
func FuzzAll(f *testing.F) {
	f.Add([]byte(Attrs(nil).Put(1, 7).PutString(2, "x")))
	f.Add([]byte{3, 0, 1, 0})
	f.Add([]byte{5, 0, 1, 0, 9})
	f.Add([]byte{255, 255, 1, 0, 9})
	f.Fuzz(func(t *testing.T, message []byte) {
		read := 0
		for _, value := range Attrs(message).All() {
			read += headerLen + len(value)
			for range value.All() {
				read += 0
			}
		}
		if read > len(message) {
			t.Errorf("read %d of %d bytes", read, len(message))
		}
	})
}
