package ipset

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
)

// hashFull is IPSET_ERR_HASH_FULL of linux/netfilter/ipset/ip_set_hash.h; the other types do not use the number for anything that we ask.
const hashFull = nl.IPSET_ERR_TYPE_SPECIFIC

// unfit are the answers to an entry that a set of this type or family cannot hold.
var unfit = map[syscall.Errno]bool{
	nl.IPSET_ERR_PROTOCOL: true, nl.IPSET_ERR_IPADDR_IPV4: true, nl.IPSET_ERR_IPADDR_IPV6: true, nl.IPSET_ERR_INVALID_CIDR: true,
	nl.IPSET_ERR_INVALID_FAMILY: true, nl.IPSET_ERR_TYPE_SPECIFIC + 1: true, nl.IPSET_ERR_TYPE_SPECIFIC + 2: true,
	nl.IPSET_ERR_TYPE_SPECIFIC + 3: true,
}

// meaning turns an answer of the kernel into an error of this package where there is one, and keeps the number.
func meaning(err error) error {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return err
	}
	switch {
	case number == syscall.ENOENT:
		return ErrMissing
	case number == nl.IPSET_ERR_BUSY, number == nl.IPSET_ERR_REFERENCED:
		return ErrInUse
	case number == hashFull:
		return ErrFull
	case unfit[number]:
		return fmt.Errorf("%w: %w", ErrEntry, nl.IPSetError(number))
	case number > nl.IPSET_ERR_PRIVATE:
		return nl.IPSetError(number)
	case number == syscall.EPERM:
		return fmt.Errorf("%w: CAP_NET_ADMIN is needed", err)
	default:
		return err
	}
}

// complaints collect what goes wrong, and stay readable when everything does.
type complaints struct {
	first []error
	more  int
}

func (c *complaints) add(err error) {
	if len(c.first) < maxComplaints {
		c.first = append(c.first, err)
		return
	}
	c.more++
}

func (c *complaints) join() error {
	if c.more > 0 {
		return errors.Join(append(c.first, fmt.Errorf("and %d more like these", c.more))...)
	}
	return errors.Join(c.first...)
}

// valid returns the changes that can be asked of the kernel, as it would give them back, and complains about the others.
func (c *complaints) valid(changes []Change) []Change {
	valid := make([]Change, 0, len(changes))
	for _, change := range changes {
		err := errors.Join(change.Entry.check(), checkName(change.Set))
		if err != nil {
			c.add(fmt.Errorf("%s %v in the set %q: %w", verb(change.Delete), change.Entry, change.Set, err))
			continue
		}
		change.Entry = change.Entry.normal()
		valid = append(valid, change)
	}
	return valid
}
