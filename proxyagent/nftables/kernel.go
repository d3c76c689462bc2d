//go:build linux

package nftables

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
)

// kernel is our table of one family. The library only writes; reading has a connection of its own:
// the library cannot read all of our rules, makes several times as much garbage as there are
// elements, and does not notice when a table changes while it reads.
type kernel struct {
	conn   *nftables.Conn
	socket *netlink.Conn // that of conn
	table  *nftables.Table
}

// socketBuffer is the least size of the socket's buffers.
const socketBuffer = 1 << 20

// answerTimeout limits a transaction of the kernel, which may have to finish other ones first.
const answerTimeout = time.Minute

func open(f model.Family) (*kernel, error) {
	k := &kernel{table: &nftables.Table{Name: tables.Name, Family: nftables.TableFamily(f.Number())}}
	return k, k.connect()
}

func (k *kernel) connect() error {
	keep := func(c *netlink.Conn) error {
		k.socket = c
		return k.room(0)
	}
	c, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(keep))
	if err != nil {
		return fmt.Errorf("reaching nf_tables: %w", err)
	}
	k.conn = c
	return nil
}

// room makes the socket's buffers large enough for a transaction and its answers: answers that do
// not fit are lost although the kernel has done it.
func (k *kernel) room(size int) error {
	size = max(socketBuffer, size)
	return errors.Join(k.socket.SetWriteBuffer(size), k.socket.SetReadBuffer(size))
}

// reconnect is for after a failure: unread answers may wait in the socket.
func (k *kernel) reconnect() error {
	k.close()
	return k.connect()
}

// flush sends what was gathered. Without a deadline it would wait forever for missing answers, and
// a deadline left set would end what comes later.
func (k *kernel) flush() error {
	err := errors.Join(k.socket.SetDeadline(time.Now().Add(answerTimeout)), k.conn.Flush(), k.socket.SetDeadline(time.Time{}))
	if first, said := errors.AsType[syscall.Errno](err); said {
		return model.Refused(first) // of many: each message that leans on it fails too
	}
	return err
}

func (k *kernel) close() { _ = k.conn.CloseLasting() }

// set describes one of our sets.
func (k *kernel) set(name tables.Set) *nftables.Set {
	schema, written := tables.Remembering[name]
	if !written {
		schema = tables.Schemas[name]
	}
	s := &nftables.Set{
		Table: k.table, Name: string(name),
		KeyType: k.fields(schema.Key), Concatenation: len(schema.Key) > 1,
		Dynamic: written, HasTimeout: written, Size: schema.Most,
	}
	switch schema.Kind {
	case tables.Member:
	case tables.Verdict:
		s.IsMap, s.DataType = true, nftables.TypeVerdict
	default:
		s.IsMap, s.DataType = true, k.fields(tables.Types[schema.Kind])
	}
	return s
}

func (k *kernel) fields(of string) nftables.SetDatatype {
	types := map[rune]nftables.SetDatatype{'A': nftables.TypeIPAddr, 'P': nftables.TypeInetProto, 'S': nftables.TypeInetService, 'I': nftables.TypeMark}
	if k.table.Family == nftables.TableFamilyIPv6 {
		types['A'] = nftables.TypeIP6Addr
	}
	var all []nftables.SetDatatype
	for _, c := range of {
		all = append(all, types[c])
	}
	if len(all) == 1 {
		return all[0]
	}
	return nftables.MustConcatSetType(all...)
}
