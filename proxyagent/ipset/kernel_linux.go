package ipset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// destroyTries and destroyPause are how often and after what pause a set in use is destroyed again:
// after iptables-nft returns, the kernel keeps references of its rules for some milliseconds.
const (
	destroyTries = 20
	destroyPause = 25 * time.Millisecond
)

// Kernel are the sets of one network namespace, for many goroutines. Its zero value is of no use.
//
// Costs: one message for each set that is created or destroyed, one for about 400 entries of a set
// that change, one dump for Counts (an answer of about 150 bytes for each set) and for Entries.
type Kernel struct{ conn *nfnetlink.Conn }

// Open opens the sets in the network namespace of the calling thread, which all threads of a
// process share unless one asks for another. It fails when the kernel does not know netfilter.
func Open() (*Kernel, error) {
	conn, err := nfnetlink.Open()
	if err != nil {
		return nil, err
	}
	return &Kernel{conn: conn}, nil
}

// Close frees the connection to the kernel. The sets stay.
func (k *Kernel) Close() { k.conn.Close() }

// Create creates sets. One that exists with its entries is kept when it is of the same kind;
// otherwise the error is ErrOtherKind for that one, and the rest are created all the same.
func (k *Kernel) Create(ctx context.Context, sets ...Set) error {
	var wrong []error
	for _, s := range sets {
		if ctx.Err() != nil {
			return errors.Join(append(wrong, ctx.Err())...)
		}
		if err := k.create(ctx, s); err != nil {
			wrong = append(wrong, fmt.Errorf("creating the set %q of type %s: %w", s.Name, s.Type, err))
		}
	}
	return errors.Join(wrong...)
}

func (k *Kernel) create(ctx context.Context, s Set) error {
	err := k.do(ctx, nl.IPSET_CMD_CREATE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, creation(s))
	if !errors.Is(err, syscall.EEXIST) {
		return err
	}
	there, err := k.header(ctx, s.Name)
	if err == nil && !there.fits(s) {
		return ErrOtherKind
	}
	return err
}

// Apply puts entries into sets and takes them out, in the order of the changes. It goes on after
// some that fail, about 400 together: the kernel does not say which of them it refuses.
func (k *Kernel) Apply(ctx context.Context, changes []Change) error {
	var wrong []error
	for _, b := range batches(changes) {
		if ctx.Err() != nil {
			return errors.Join(append(wrong, ctx.Err())...)
		}
		command, verb := uint8(nl.IPSET_CMD_ADD), "adding"
		if b.delete {
			command, verb = nl.IPSET_CMD_DEL, "deleting"
		}
		// Without NLM_F_EXCL: what is there already is fine.
		if err := k.do(ctx, command, 0, addition(b.set, b.entries)); err != nil {
			wrong = append(wrong, fmt.Errorf("%s %v and %d more in the set %q: %w", verb, b.entries[0], len(b.entries)-1, b.set, err))
		}
	}
	return errors.Join(wrong...)
}

// Destroy destroys sets with their entries. A missing one is fine. One that a rule still refers to
// after half a second gives ErrInUse, and the rest are destroyed all the same.
func (k *Kernel) Destroy(ctx context.Context, names ...string) error {
	var wrong []error
	for try := 1; len(names) > 0; try++ {
		var busy []string
		for _, name := range names {
			switch err := k.destroy(ctx, name); {
			case errors.Is(err, ErrInUse) && try < destroyTries && ctx.Err() == nil:
				busy = append(busy, name)
			case err != nil && !errors.Is(err, ErrMissing):
				wrong = append(wrong, fmt.Errorf("destroying the set %q: %w", name, err))
			}
		}
		if names = busy; len(names) > 0 {
			time.Sleep(destroyPause)
		}
	}
	return errors.Join(wrong...)
}

func (k *Kernel) destroy(ctx context.Context, name string) error {
	if name == "" {
		return nil // the kernel would take it as a request for all sets of the machine
	}
	return k.do(ctx, nl.IPSET_CMD_DESTROY, 0, begin(name))
}

// Counts returns how many entries each set with the prefix has, without reading them. In sets that
// expire, entries whose time has come do not count.
func (k *Kernel) Counts(ctx context.Context, prefix string) (map[string]int, error) {
	var counts map[string]int
	err := k.list(ctx, "", listHeader, func() { counts = make(map[string]int) }, func(answer nfnetlink.Attrs) {
		if h := readHeader(answer); strings.HasPrefix(h.name, prefix) {
			counts[h.name] = h.elements
		}
	})
	if err != nil {
		return nil, fmt.Errorf("counting the entries of the sets %s*: %w", prefix, err)
	}
	return counts, nil
}

// Entries returns all entries of a set, and ErrMissing when there is no such set.
func (k *Kernel) Entries(ctx context.Context, name string) (map[Entry]struct{}, error) {
	var entries map[Entry]struct{}
	err := k.list(ctx, name, 0, func() { entries = make(map[Entry]struct{}) }, func(answer nfnetlink.Attrs) {
		for _, data := range answer.Get(nl.IPSET_ATTR_ADT).All() {
			entries[readEntry(data)] = struct{}{}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading the set %q: %w", name, err)
	}
	return entries, nil
}

func (k *Kernel) header(ctx context.Context, name string) (header, error) {
	var h header
	err := k.list(ctx, name, listHeader, func() {}, func(answer nfnetlink.Attrs) { h = readHeader(answer) })
	if err != nil {
		return h, fmt.Errorf("reading the properties: %w", err)
	}
	return h, nil
}

// list reads one set, or all if name is empty. It calls start before each try.
func (k *Kernel) list(ctx context.Context, name string, flags uint32, start func(), each func(nfnetlink.Attrs)) error {
	attrs := begin(name).PutNet32(nl.IPSET_ATTR_FLAGS, flags)
	return meaning(nfnetlink.Again(ctx, func() error {
		start()
		return k.conn.Dump(request(nl.IPSET_CMD_LIST, 0, attrs), each)
	}))
}

func (k *Kernel) do(ctx context.Context, command uint8, flags uint16, attrs nfnetlink.Attrs) error {
	return meaning(nfnetlink.Again(ctx, func() error { return k.conn.Do(request(command, flags, attrs)) }))
}

func request(command uint8, flags uint16, attrs nfnetlink.Attrs) nfnetlink.Request {
	return nfnetlink.Request{Subsystem: unix.NFNL_SUBSYS_IPSET, Command: command, Flags: flags, Attrs: attrs}
}

// meaning turns an answer of the kernel into our error where there is one, and keeps the number.
func meaning(err error) error {
	number, answered := errors.AsType[syscall.Errno](err)
	switch {
	case !answered:
		return err
	case number == syscall.ENOENT:
		return ErrMissing
	case number == nl.IPSET_ERR_BUSY, number == nl.IPSET_ERR_REFERENCED:
		return ErrInUse
	case number > nl.IPSET_ERR_PRIVATE:
		return fmt.Errorf("%w: %w", model.ErrRefused, nl.IPSetError(number))
	case number == syscall.EPERM:
		return fmt.Errorf("%w: CAP_NET_ADMIN is needed", err)
	default:
		return model.Refused(err)
	}
}
