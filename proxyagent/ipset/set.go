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

// maxName is the length of a name that the kernel takes, without the zero byte at its end.
const maxName = 31

// Set is an IP set without its entries. Its zero value is none.
type Set struct {
	// Name has 1 to 31 bytes. All families and types share one space of names.
	Name string
	Type Type
	// Family is that of the addresses; BitmapPort has none and ignores it.
	Family model.Family
	// Timeout is zero when entries stay until they are deleted. Otherwise they leave after so many seconds, unless a rule of iptables says
	// another number when it adds them. A set that exists keeps its Timeout when both are not zero.
	Timeout uint32
}

var (
	// ErrOtherKind says that a set of this name exists with another type, family, limit or expiry.
	ErrOtherKind = errors.New("a set of another kind has this name")
	// ErrMissing says that there is no set of this name.
	ErrMissing = errors.New("there is no such set")
	// ErrInUse says that a rule refers to the set.
	ErrInUse = errors.New("a rule still refers to the set")
	// ErrFull says that the set has reached its limit of entries.
	ErrFull = errors.New("the set is full")
	// ErrEntry says that an entry cannot be in any set, or not in one of this type and family.
	ErrEntry = errors.New("the entry does not fit")
	// ErrSet says that the kernel would not take such a set.
	ErrSet = errors.New("not a valid set")
)

// revisions are the oldest revisions of each type that know all protocols: every kernel since 3.0 has them.
var revisions = map[Type]uint8{HashIP: 0, HashIPPort: 1, HashIPPortIP: 1, HashIPPortNet: 2, BitmapPort: 0}

// check returns what is wrong with s, before the kernel refuses it with less detail.
func (s Set) check() error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	if _, ok := revisions[s.Type]; !ok {
		return fmt.Errorf("the type %q is not known: %w", s.Type, ErrSet)
	}
	if s.Type != BitmapPort && s.Family != model.IPv4 && s.Family != model.IPv6 {
		return fmt.Errorf("the family is %v: %w", s.Family, ErrSet)
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("the name has %d bytes, not 1 to %d: %w", len(name), maxName, ErrSet)
	}
	return nil
}

// hashSize is how many buckets a set has at first. The kernel doubles them when needed, and copies all entries then: sets that are filled
// by us begin large enough for a middle-sized cluster.
//
// Those that expire are filled by rules, and an entry that a rule adds never makes a set grow: it is lost when its bucket has 12 already. With
// 1,024 buckets that begins at some 4,000 entries, for 8 KiB of a set of which there may be thousands.
func (s Set) hashSize() uint32 {
	if s.Timeout != 0 {
		return 1024
	}
	return 4096
}
