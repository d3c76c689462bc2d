package history

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	// Shards is how many ConfigMaps there are at most.
	Shards = 64
	// MostBytes is how large the lines of one are at most.
	MostBytes = 128 << 10
	// namePrefix begins the name of each.
	namePrefix = "clusterip-operator-history-"
	// keySeen and keyOwners are the keys of a ConfigMap: until when it is complete, and its lines.
	keySeen, keyOwners = "seen", "owners"
)

// ShardOf says in which ConfigMap an address is: by its last six bits, which differ most.
func ShardOf(a netip.Addr) int {
	bytes := a.AsSlice()
	return int(bytes[len(bytes)-1]) % Shards
}

// NameOf is the name of a ConfigMap.
func NameOf(shard int) string { return fmt.Sprintf("%s%02d", namePrefix, shard) }

// Page is what a ConfigMap holds. The zero Page is that of one that is not there.
type Page struct {
	// Seen is the time up to which nothing is missing.
	Seen    time.Time
	Records []Record
}

// Data is the data of the ConfigMap.
func (p Page) Data() map[string]string {
	var lines strings.Builder
	for _, r := range p.Records {
		lines.WriteString(r.String() + "\n")
	}
	return map[string]string{keySeen: p.Seen.UTC().Format(time.RFC3339), keyOwners: lines.String()}
}

// ReadPage reads the data of a ConfigMap. Beside an error, which is about lines that are no
// records, it returns all that are.
func ReadPage(data map[string]string) (p Page, err error) {
	var errs []error
	seen, spoilt := time.Parse(time.RFC3339, data[keySeen])
	if spoilt != nil {
		errs = append(errs, fmt.Errorf("reading until when the history is complete: %w", spoilt))
	}
	p.Seen = seen
	for line := range strings.Lines(data[keyOwners]) {
		r, err := parse(strings.TrimSpace(line))
		if err != nil {
			errs = append(errs, fmt.Errorf("reading a line of the history: %w", err))
			continue
		}
		p.Records = append(p.Records, r)
		if spoilt != nil && r.last().After(p.Seen) { // at least until then
			p.Seen = r.last()
		}
	}
	return p, errors.Join(errs[:min(len(errs), 3)]...)
}

// Of returns the records of an address, the latest first.
func (p Page) Of(a netip.Addr) (out []Record) {
	for _, r := range slices.Backward(p.Records) { // times are to the second; these came one by one
		if r.Address == a {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Record) int {
		if a.Open() != b.Open() {
			if a.Open() {
				return -1
			}
			return 1
		}
		return b.last().Compare(a.last())
	})
	return out
}
