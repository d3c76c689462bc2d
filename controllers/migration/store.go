package migration

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
)

// Store is the storage of an API server, which only package etcdstore reaches. Keys are relative to the API server's
// prefix ("ranges/serviceips" is /registry/ranges/serviceips); a key that begins with a slash is taken as it is.
// Its methods wait for a store that is away, with back-off, until their context ends, and may be called concurrently.
type Store interface {
	// Get reads a key. A key that does not exist is a Value with ModRevision 0 and no error.
	Get(ctx context.Context, key string) (Value, error)
	// List visits all keys below a prefix, which is a folder ("ranges/"), in ascending order, page by page, all as they were at one revision (0: now),
	// which it returns. It ends early with the error of visit.
	List(ctx context.Context, prefix string, at int64, visit func(Value) error) (revision int64, err error)
	// Watch shows each change below a prefix, again a folder, after a revision, in order, until ctx ends or see returns an error.
	// A deleted key is a Value with ModRevision of its deletion and without Raw. ErrCompacted means: list again.
	Watch(ctx context.Context, prefix string, after int64, see func(Value) error) error
	// Commit writes all or nothing, in one transaction, and returns its revision. ErrConflict means that a guard did not hold and nothing was written.
	Commit(ctx context.Context, writes []Write) (revision int64, err error)
}

// MaxWrites is how many writes a Commit takes at most: etcd's default --max-txn-ops.
const MaxWrites = 128

var (
	// ErrConflict says that a key was not as the guard of a Write wanted it.
	ErrConflict = errors.New("the key was changed by somebody else")
	// ErrCompacted says that the store has forgotten what happened after a revision.
	ErrCompacted = errors.New("the store has forgotten the changes after that revision")
	// ErrEncrypted is in Value.Err when the API server encrypts what it stores (EncryptionConfiguration).
	ErrEncrypted = errors.New("the value is encrypted at rest")
)

// Value is what the store has for a key.
type Value struct {
	Key string // relative to the prefix, like that of a Write
	Raw []byte // as it is stored; nil for a key that does not exist
	// CreateRevision and ModRevision are of the key's creation and of its last change.
	CreateRevision, ModRevision int64
	// Object is what Raw holds, decoded, with the ModRevision as its resourceVersion: a typed object of k8s.io/api core/v1, or
	// networking/v1 whatever version the value was stored in. It is nil with Err set when that was not possible.
	Object     runtime.Object
	APIVersion string // that the value was stored in, "networking.k8s.io/v1beta1"
	Err        error  // ErrEncrypted, or what is wrong with the bytes
}

// Exists reports whether the key has a value.
func (v Value) Exists() bool { return v.Raw != nil }

// Write is one change of a Commit.
type Write struct {
	Key   string
	Guard int64 // the ModRevision that the key must have; 0: it must not exist
	// Object is stored as kube-apiserver stores it (protobuf in its envelope), in APIVersion: v1 of its group if that is empty.
	Object     runtime.Object
	APIVersion string
	// Raw is stored as it is. Exactly one of Object and Raw is set, or Delete.
	Raw    []byte
	Delete bool
}
