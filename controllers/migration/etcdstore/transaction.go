package etcdstore

import (
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// write is a migration.Write as etcd understands it.
type write struct {
	key    string // absolute
	guard  int64
	value  []byte
	remove bool
}

// transaction is a Commit in the words of etcd: if the guards hold, then the changes, else reads of all keys, in the order of the
// writes, that tell why not. etcd's limit of operations is for each of the three.
type transaction struct {
	writes  []write
	guards  []clientv3.Cmp
	changes []clientv3.Op
	reads   []clientv3.Op
}

// newTransaction joins all that is wrong with the writes.
func (s *Store) newTransaction(writes []migration.Write) (*transaction, error) {
	if len(writes) > migration.MaxWrites {
		return nil, fmt.Errorf("%d writes are more than the %d that a transaction takes", len(writes), migration.MaxWrites)
	}
	t := &transaction{}
	seen := map[string]bool{}
	var complaints []error
	for _, w := range writes {
		key := s.keys.absolute(w.Key)
		value, err := valueOf(w)
		switch {
		case w.Key == "":
			err = errors.New("a write has no key")
		case err != nil:
			err = fmt.Errorf("%s: %w", key, err)
		case seen[key]:
			err = fmt.Errorf("%s: it is there twice", key)
		}
		complaints = append(complaints, err)
		seen[key] = true
		t.add(write{key: key, guard: w.Guard, value: value, remove: w.Delete})
	}
	return t, errors.Join(complaints...)
}

// valueOf returns the bytes that a write wants to store, none for a deletion.
func valueOf(w migration.Write) ([]byte, error) {
	chosen := 0
	for _, is := range []bool{w.Object != nil, w.Raw != nil, w.Delete} {
		if is {
			chosen++
		}
	}
	switch {
	case chosen != 1:
		return nil, errors.New("exactly one of an object, bytes and a deletion must be given")
	case w.Guard < 0:
		return nil, fmt.Errorf("there is no revision %d", w.Guard)
	case w.Delete && w.Guard == 0:
		return nil, errors.New("a key that must not exist cannot be deleted")
	case w.Object != nil:
		return encode(w.Object, w.APIVersion)
	}
	return w.Raw, nil
}

// add guards by the revision of the last change. A key that does not exist has 0 there.
func (t *transaction) add(w write) {
	change := clientv3.OpPut(w.key, string(w.value))
	if w.remove {
		change = clientv3.OpDelete(w.key)
	}
	t.writes = append(t.writes, w)
	t.guards = append(t.guards, clientv3.Compare(clientv3.ModRevision(w.key), "=", w.guard))
	t.changes = append(t.changes, change)
	t.reads = append(t.reads, clientv3.OpGet(w.key))
}

// String names the first of the keys.
func (t *transaction) String() string {
	switch len(t.writes) {
	case 0:
		return "nothing"
	case 1:
		return t.writes[0].key
	}
	return fmt.Sprintf("%s and %d more keys", t.writes[0].key, len(t.writes)-1)
}

func (t *transaction) onlyDeletes() bool {
	for _, w := range t.writes {
		if !w.remove {
			return false
		}
	}
	return true
}

// cannotHaveHappened reports whether the present state of a key proves that the transaction took no effect: it is as it was before,
// or it was to be deleted and never was.
func (t *transaction) cannotHaveHappened(now []*mvccpb.KeyValue) bool {
	for i, w := range t.writes {
		if kv := now[i]; kv != nil && (kv.ModRevision == w.guard || (w.remove && kv.CreateRevision <= w.guard)) {
			return true
		}
	}
	return false
}

// shownKeys is how many keys a conflict names.
const shownKeys = 5

// conflict is ErrConflict with the keys whose guards did not hold.
func (t *transaction) conflict(now []*mvccpb.KeyValue) error {
	var changed []string
	for i, w := range t.writes {
		if is := now[i].GetModRevision(); is != w.guard {
			changed = append(changed, fmt.Sprintf("%s is %s, not %s", w.key, at(is), at(w.guard)))
		}
	}
	more := ""
	if n := len(changed) - shownKeys; n > 0 {
		changed, more = changed[:shownKeys], fmt.Sprintf(", and %d more", n)
	}
	return fmt.Errorf("writing %s: %w: %s%s", t, migration.ErrConflict, strings.Join(changed, ", "), more)
}

// at says at which revision a key is.
func at(revision int64) string {
	if revision == 0 {
		return "absent"
	}
	return fmt.Sprintf("at revision %d", revision)
}
