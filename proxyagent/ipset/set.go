package ipset

import (
	"errors"
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Type is a type of set by the kernel's name: what its entries are made of. Its zero value is none.
type Type string

const (
	// HashIP holds addresses.
	HashIP Type = "hash:ip"
	// HashIPPort holds addresses with protocol and port.
	HashIPPort Type = "hash:ip,port"
	// HashIPPortIP holds addresses with protocol and port, and a second address.
	HashIPPortIP Type = "hash:ip,port,ip"
	// HashIPPortNet holds addresses with protocol and port, and a network.
	HashIPPortNet Type = "hash:ip,port,net"
	// BitmapPort holds ports, of any protocol and family.
	BitmapPort Type = "bitmap:port"
)

// maxElements is the limit of a set of hash type. It reserves nothing.
const maxElements = 1 << 20

// Set is an IP set without its entries. Its zero value is none.
type Set struct {
	// Name has 1 to 31 bytes. All families and types share one space of names.
	Name string
	Type Type
	// Family is that of the addresses; BitmapPort has none and ignores it.
	Family model.Family
	// Timeout is zero when entries stay until deleted. Otherwise they leave after so many seconds, or
	// those that an iptables rule gives when adding. If neither is zero, a set keeps its Timeout.
	Timeout uint32
}

var (
	// ErrOtherKind says that a set of this name exists with another type, family, limit or expiry.
	ErrOtherKind = fmt.Errorf("%w: a set of another kind has this name", model.ErrRefused)
	// ErrMissing says that there is no set of this name.
	ErrMissing = errors.New("there is no such set")
	// ErrInUse says that a rule refers to the set.
	ErrInUse = fmt.Errorf("%w: a rule still refers to the set", model.ErrRefused)
)

// revisions are the oldest of each type that know all protocols: every kernel since 3.0 has them.
var revisions = map[Type]uint8{HashIP: 0, HashIPPort: 1, HashIPPortIP: 1, HashIPPortNet: 2, BitmapPort: 0}

// hashSize is how many buckets a set has at first. The kernel doubles them when needed and then
// copies all entries: sets that we fill begin large enough for a middle-sized cluster.
//
// Those that expire are filled by rules, and an entry that a rule adds never makes a set grow: it
// is lost when its bucket has 12. With 1,024 buckets, or 8 KiB for each of maybe thousands of sets,
// that begins at some 4,000 entries.
func (s Set) hashSize() uint32 {
	if s.Timeout != 0 {
		return 1024
	}
	return 4096
}
