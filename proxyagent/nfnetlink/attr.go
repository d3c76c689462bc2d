package nfnetlink

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// Attribute types carry two flags in their upper bits.
const (
	nested       = 1 << 15
	netByteOrder = 1 << 14
	typeMask     = netByteOrder - 1
)

const headerLen = 4

// Attrs is a sequence of attributes as in a message; appending pads to four bytes. Zero is empty.
type Attrs []byte

// Put appends an attribute.
func (a Attrs) Put(kind uint16, value ...byte) Attrs {
	a = append(header(a, kind, len(value)), value...)
	for len(a)%4 != 0 {
		a = append(a, 0)
	}
	return a
}

// PutNet appends an attribute that says of its value that it is in network byte order.
func (a Attrs) PutNet(kind uint16, value ...byte) Attrs { return a.Put(kind|netByteOrder, value...) }

// PutNet16 appends a number of two bytes in network byte order.
func (a Attrs) PutNet16(kind uint16, value uint16) Attrs {
	return a.PutNet(kind, byte(value>>8), byte(value))
}

// PutNet32 appends a number of four bytes in network byte order.
func (a Attrs) PutNet32(kind uint16, value uint32) Attrs {
	return a.PutNet(kind, byte(value>>24), byte(value>>16), byte(value>>8), byte(value))
}

// PutString appends a string with the zero byte that ends it.
func (a Attrs) PutString(kind uint16, value string) Attrs {
	return a.Put(kind, append([]byte(value), 0)...)
}

// Nest appends an attribute with what inside appends: at most 65,535 bytes, for its length field.
func (a Attrs) Nest(kind uint16, inside func(Attrs) Attrs) Attrs {
	start := len(a)
	a = inside(header(a, kind|nested, 0))
	binary.NativeEndian.PutUint16(a[start:], uint16(len(a)-start))
	return a
}

// All yields the attributes by type, without the flags of the types, until one is malformed.
func (a Attrs) All() iter.Seq2[uint16, Attrs] {
	return func(yield func(uint16, Attrs) bool) {
		for rest := a; len(rest) >= headerLen; {
			length := int(binary.NativeEndian.Uint16(rest))
			if length < headerLen || length > len(rest) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(rest[2:])&typeMask, rest[headerLen:length]) {
				return
			}
			rest = rest[min((length+3)&^3, len(rest)):]
		}
	}
}

// Get returns the value of the first attribute of a type, or nil. A dump calls it a dozen times for
// each flow: an iterator would take half as long again.
func (a Attrs) Get(kind uint16) Attrs {
	for len(a) >= headerLen {
		length := int(binary.NativeEndian.Uint16(a))
		if length < headerLen || length > len(a) {
			break
		}
		if binary.NativeEndian.Uint16(a[2:])&typeMask == kind {
			return a[headerLen:length]
		}
		a = a[min((length+3)&^3, len(a)):]
	}
	return nil
}

// Number reads a number in network byte order, of as many bytes as there are, up to eight.
func (a Attrs) Number() (n uint64) {
	for _, b := range a {
		n = n<<8 | uint64(b)
	}
	return n
}

// Text reads a string up to the zero byte that ends it.
func (a Attrs) Text() string {
	text, _, _ := bytes.Cut(a, []byte{0})
	return string(text)
}

// header appends the header of an attribute whose value has the given length.
func header(a Attrs, kind uint16, length int) Attrs {
	a = binary.NativeEndian.AppendUint16(a, uint16(headerLen+length))
	return binary.NativeEndian.AppendUint16(a, kind)
}
