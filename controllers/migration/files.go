package migration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// Archive keeps values of etcd as they were before they were changed or deleted.
type Archive struct {
	batch.Head `json:",inline"`
	Revision   int64         `json:"revision"` // of etcd at the moment of reading
	Saved      time.Time     `json:"saved"`
	Keys       []ArchivedKey `json:"keys"`
}

// ArchivedKey is one value.
type ArchivedKey struct {
	Key         string `json:"key"` // relative to the API server's prefix
	ModRevision int64  `json:"modRevision"`
	Range       string `json:"range"`  // for the reader
	Value       []byte `json:"value"`  // base64
	SHA256      string `json:"sha256"` // of the value
}

func newArchive(w Snapshot, values []Value) Archive {
	a := Archive{Head: batch.Head{APIVersion: formatVersion, Kind: kindArchive, Cluster: w.Cluster}, Revision: w.Revision, Saved: w.Now.UTC()}
	for _, v := range values {
		a.Keys = append(a.Keys, ArchivedKey{Key: v.Key, ModRevision: v.ModRevision, Range: newStoredBitmap(v).Range, Value: v.Raw, SHA256: digest(v.Raw)})
	}
	return a
}

func digest(value []byte) string { return fmt.Sprintf("%x", sha256.Sum256(value)) }

// save writes the archive durably before etcd is changed. A file with the same values of the same
// cluster, from an earlier try, is as good; any other file is left alone.
func (a Archive) save(file string) error {
	old, err := LoadArchive(file)
	same := func(x, y ArchivedKey) bool { return x.Key == y.Key && bytes.Equal(x.Value, y.Value) }
	switch {
	case err == nil && old.Cluster == a.Cluster && slices.EqualFunc(old.Keys, a.Keys, same):
		return nil
	case err == nil:
		return fmt.Errorf("%s exists and holds other values; choose another file with --archive", file)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s exists and is no archive: %w; choose another file with --archive", file, err)
	}
	text, err := json.MarshalIndent(a, "", "  ")
	if err == nil {
		err = writeDurably(file, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("saving the archive: %w", err)
	}
	return nil
}

// writeDurably puts a file in place in one step: a process that dies meanwhile leaves no half file.
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
func LoadArchive(file string) (a Archive, err error) {
	if err := batch.Load(file, batch.Head{APIVersion: formatVersion, Kind: kindArchive}, &a); err != nil {
		return Archive{}, err
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

// Finalize saves the bitmaps in file and deletes them in one transaction, which fails if one
// changed. The caller makes sure that no API server writes them. Without bitmaps it does nothing.
func Finalize(ctx context.Context, s Sources, file string) (deleted []string, err error) {
	w, err := s.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var values []Value
	var writes []Write
	for _, b := range w.Bitmaps {
		v, err := s.Store.Get(ctx, b.Key)
		if err == nil && v.ModRevision != b.ModRevision {
			err = fmt.Errorf("%s: %w; some API server still writes it", b.Key, ErrConflict)
		}
		if err != nil {
			return nil, err
		}
		values = append(values, v)
		writes = append(writes, Write{Key: b.Key, Guard: v.ModRevision, Delete: true})
		deleted = append(deleted, b.Key)
	}
	if len(writes) == 0 {
		return nil, nil
	}
	if err := newArchive(w, values).save(file); err != nil {
		return nil, err
	}
	if _, err := s.Store.Commit(ctx, writes); err != nil {
		return nil, fmt.Errorf("deleting the bitmaps: %w", err)
	}
	return deleted, nil
}

// Restore writes an archive back, all or nothing. A key that exists with another value is an error.
func Restore(ctx context.Context, s Sources, a Archive) (restored []string, err error) {
	cluster, err := s.Cluster(ctx)
	if err == nil {
		err = a.Of(cluster, "archive")
	}
	if err != nil {
		return nil, err
	}
	var writes []Write
	for _, k := range a.Keys {
		v, err := s.Store.Get(ctx, k.Key)
		switch {
		case err != nil:
			return nil, err
		case !v.Exists():
			writes = append(writes, Write{Key: k.Key, Raw: k.Value})
			restored = append(restored, k.Key)
		case !bytes.Equal(v.Raw, k.Value):
			return nil, fmt.Errorf("%s exists and holds another value; nothing was written", k.Key)
		}
	}
	if len(writes) == 0 {
		return nil, nil
	}
	if _, err := s.Store.Commit(ctx, writes); err != nil {
		return nil, fmt.Errorf("restoring the bitmaps: %w", err)
	}
	return restored, nil
}

// formatVersion is that of everything which is written to files and printed for programs.
const formatVersion = "migration.clusterip-operator.io/v1alpha1"

// Kinds of a Report, and of an Archive.
const (
	KindReport  = "MigrationReport"
	KindPlan    = "MigrationPlan"
	kindArchive = "BitmapArchive"
)

// Report is a plan as programs read it, and as it is kept in a file.
type Report struct {
	batch.Head `json:",inline"`
	Revision   int64          `json:"revision"`
	Allocator  Allocator      `json:"allocator"`
	Ranges     []netip.Prefix `json:"ranges"`
	Counts     Counts         `json:"counts"`
	Bitmaps    []BitmapReport `json:"bitmaps"`
	Findings   []Finding      `json:"findings"`
	Steps      []Step         `json:"steps"`
}

// Counts sum up a Report.
type Counts struct {
	Services     int `json:"services"`
	ClusterIPs   int `json:"clusterIPs"`
	OK           int `json:"ok"`
	IPAddresses  int `json:"ipAddresses"`
	ServiceCIDRs int `json:"serviceCIDRs"`
	Findings     int `json:"findings"`
}

// BitmapReport tells of a bitmap.
type BitmapReport struct {
	Key         string `json:"key"`
	Range       string `json:"range"`
	Used        int    `json:"used"`
	ModRevision int64  `json:"modRevision"`
	Error       string `json:"error,omitempty"`
}

// Report returns the plan for programs.
func (p *Plan) Report(kind string) Report {
	r := Report{
		Head: batch.Head{APIVersion: formatVersion, Kind: kind, Cluster: p.Snapshot.Cluster}, Revision: p.Snapshot.Revision, Allocator: p.Snapshot.Allocator,
		// Programs find a list where there is nothing.
		Ranges: append([]netip.Prefix{}, p.Ranges...), Findings: append([]Finding{}, p.Findings...), Steps: append([]Step{}, p.Steps...), Bitmaps: []BitmapReport{},
		Counts: Counts{
			Services: len(p.Snapshot.Services), ClusterIPs: p.Addresses, OK: p.OK, IPAddresses: len(p.Snapshot.IPAddresses),
			ServiceCIDRs: len(p.Snapshot.ServiceCIDRs), Findings: len(p.Findings),
		},
	}
	for _, s := range p.Snapshot.Bitmaps {
		b := BitmapReport{Key: s.Key, Range: Printable(s.Range), ModRevision: s.ModRevision}
		if s.Err != nil {
			b.Error = Printable(s.Err.Error())
		} else {
			b.Used = s.Bitmap.Len()
		}
		r.Bitmaps = append(r.Bitmaps, b)
	}
	return r
}

// LoadPlan reads a plan file, YAML or JSON. Unknown fields are errors: they may mean something. A
// file of another kind is a batch.KindError.
func LoadPlan(file string) (r Report, err error) {
	if err := batch.Load(file, batch.Head{APIVersion: formatVersion, Kind: KindPlan}, &r); err != nil {
		return Report{}, err
	}
	for i, s := range r.Steps {
		if err := s.validate(); err != nil {
			return Report{}, fmt.Errorf("%s: step %d: %w", file, i+1, err)
		}
	}
	return r, nil
}
