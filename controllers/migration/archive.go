package migration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Archive keeps values of etcd as they were before they were changed or deleted.
type Archive struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Cluster    types.UID `json:"cluster"`
	// Revision of etcd at the moment of reading.
	Revision int64         `json:"revision"`
	Saved    time.Time     `json:"saved"`
	Keys     []ArchivedKey `json:"keys"`
}

// ArchivedKey is one value.
type ArchivedKey struct {
	Key         string `json:"key"` // relative to the API server's prefix
	ModRevision int64  `json:"modRevision"`
	Range       string `json:"range"`  // for the reader
	Value       []byte `json:"value"`  // base64
	SHA256      string `json:"sha256"` // of the value
}

const kindArchive = "BitmapArchive"

// newArchive reads both bitmaps, in whatever state they are.
func newArchive(w Snapshot, values []Value) Archive {
	a := Archive{APIVersion: formatVersion, Kind: kindArchive, Cluster: w.Cluster, Revision: w.Revision, Saved: w.Now.UTC()}
	for _, v := range values {
		a.Keys = append(a.Keys, ArchivedKey{Key: v.Key, ModRevision: v.ModRevision, Range: newStoredBitmap(v).Range, Value: v.Raw, SHA256: digest(v.Raw)})
	}
	return a
}

func digest(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:])
}

// save writes the archive durably before anything is changed in etcd. A file that holds the same values is as good, from an
// earlier try; any other file is left alone.
func (a Archive) save(file string) error {
	old, err := LoadArchive(file)
	switch {
	case err == nil && old.same(a):
		return nil
	case err == nil:
		return fmt.Errorf("%s exists and holds other values; choose another file with --archive", file)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s exists and is no archive: %w; choose another file with --archive", file, err)
	}
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	if err := writeDurably(file, append(text, '\n')); err != nil {
		return fmt.Errorf("saving the archive: %w", err)
	}
	return nil
}

// same reports whether both hold the same values of the same cluster.
func (a Archive) same(b Archive) bool {
	return a.Cluster == b.Cluster && slices.EqualFunc(a.Keys, b.Keys, func(x, y ArchivedKey) bool {
		return x.Key == y.Key && bytes.Equal(x.Value, y.Value)
	})
}

// writeDurably puts a file in place in one step: whoever dies in between leaves no half of it.
func writeDurably(file string, text []byte) error {
	half, err := os.CreateTemp(filepath.Dir(file), ".archive-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(half.Name()) }() // fails when it has been renamed
	_, err = half.Write(text)
	if err = errors.Join(err, half.Sync(), half.Close()); err != nil {
		return err
	}
	if err := os.Link(half.Name(), file); err != nil { // unlike a rename, this never replaces a file
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// LoadArchive reads an archive and checks that it is one.
func LoadArchive(file string) (Archive, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Archive{}, err
	}
	var a Archive
	if err := strictUnmarshal(text, &a); err != nil {
		return Archive{}, fmt.Errorf("reading %s: %w", file, err)
	}
	if a.APIVersion != formatVersion || a.Kind != kindArchive {
		return Archive{}, fmt.Errorf("%s is %s %s, not %s %s", file, a.APIVersion, a.Kind, formatVersion, kindArchive)
	}
	for _, k := range a.Keys {
		switch {
		case k.Key != KeyPrimary && k.Key != KeySecondary:
			return Archive{}, fmt.Errorf("%s holds key %q, which is no bitmap of Service addresses", file, k.Key)
		case digest(k.Value) != k.SHA256:
			return Archive{}, fmt.Errorf("%s was changed: the value of %s does not have its digest", file, k.Key)
		}
	}
	return a, nil
}
