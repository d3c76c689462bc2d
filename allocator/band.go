package allocator

import (
	"net/netip"
	"strconv"
)

// Band is a part of a Range. Addresses that nobody chose are drawn from the dynamic band while it lasts, so
// that the static one stays free for those that somebody chooses.
type Band uint8

const (
	// Dynamic is the upper band, from which addresses are drawn.
	Dynamic Band = iota
	// Static is the lower band, from which people choose addresses.
	Static
)

// String returns "dynamic" or "static", the value of the band label.
func (b Band) String() string {
	switch b {
	case Dynamic:
		return "dynamic"
	case Static:
		return "static"
	default:
		return "Band(" + strconv.Itoa(int(b)) + ")"
	}
}

// Band returns the addresses of one band: the first min(max(16, size/16), 256) usable ones are static, size
// being the number of all addresses of the prefix, and the rest is dynamic. Ranges of up to 16 addresses have
// no bands: all of theirs are dynamic.
//
//	10.96.0.0/16   |network|-- static 256 --|---------- dynamic 65,278 ----------|broadcast|
//	10.96.0.0/27   |network|-- static  16 --|------ dynamic 14 ------|broadcast|
//	10.96.0.0/28   |network|---------- dynamic 14 ----------|broadcast|
func (r Range) Band(b Band) Span {
	iv, ok := r.band(b)
	return r.span(iv, ok)
}

// BandOf returns the band of a, and false if a is not a usable address of the range.
func (r Range) BandOf(a netip.Addr) (b Band, ok bool) {
	if !r.Contains(a) {
		return Dynamic, false
	}
	if r.Band(Static).Contains(a) {
		return Static, true
	}
	return Dynamic, true
}

// band is Band in numbers; it returns false where the band is empty.
func (r Range) band(b Band) (interval, bool) {
	iv, ok := r.usable()
	if !ok {
		return interval{}, false
	}
	offset := r.staticSize()
	switch b {
	case Dynamic:
		return interval{iv.first.plus(offset), iv.last}, true
	case Static:
		return interval{iv.first, iv.first.plus(offset - 1)}, offset > 0
	default:
		return interval{}, false
	}
}

// staticSize is the number of addresses of the static band.
//
// An IPv4 /1 has no bands, although the formula would give it 256 addresses: the API server takes the size of
// such a prefix for 0, and bands are worth something only where everybody draws the line at the same place.
func (r Range) staticSize() uint64 {
	const least, share, most = 16, 16, 256
	if r.is4() && r.hostBits() == 31 {
		return 0
	}
	size := ones(r.hostBits()).lo // one less than it is, which a /64 could not say
	if size < least {
		return 0
	}
	return min(max(least, size/share+1), most)
}
