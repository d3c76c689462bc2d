package history

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// How a Service came to an address, and how it lost it.
const (
	// Created: with the Service.
	Created = "created"
	// Found: the Service had it when the history began. From is then the creation of the Service,
	// which may have got the address later.
	Found = "found"
	// Changed: the Service was there before, or is still there, as with a second family.
	Changed = "changed"
	// Renumbered: in an exchange of ClusterIPs by `kubectl clusterip renumber`.
	Renumbered = "renumbered"
	// Additional: beside the ClusterIPs of the Service.
	Additional = "additional"
	// Former: the same, as what it had before it was renumbered.
	Former = "former"
	// Deleted: with the Service.
	Deleted = "deleted"
	// Released: an additional or former address.
	Released = "released"
	// Unseen: while the history was not kept, as when no replica ran.
	Unseen = "unseen"
)

// What the leader logs of each change of hands.
const (
	LineGot  = "A Service has an address"
	LineLost = "A Service no longer has an address"
)

// Moment is a time to the second, or one between two: after After and not later than At. A zero At
// has not come.
type Moment struct{ After, At time.Time }

// At returns the moment of a time.
func At(t time.Time) Moment { return Moment{At: t.UTC().Truncate(time.Second)} }

// Between returns a moment that is not known better.
func Between(after, at time.Time) Moment {
	m := At(at)
	m.After = after.UTC().Truncate(time.Second)
	return m
}

// String writes a moment as ISO 8601 does, an interval with a slash.
func (m Moment) String() string {
	if m.After.IsZero() {
		return m.At.Format(time.RFC3339)
	}
	return m.After.Format(time.RFC3339) + "/" + m.At.Format(time.RFC3339)
}

func parseMoment(text string) (m Moment, err error) {
	after, at, between := strings.Cut(text, "/")
	if !between {
		at = after
	} else if m.After, err = time.Parse(time.RFC3339, after); err != nil {
		return m, err
	}
	m.At, err = time.Parse(time.RFC3339, at)
	return m, err
}

// Record is a Service that has, or had, an address.
type Record struct {
	Address netip.Addr
	Service types.NamespacedName
	// UID of the Service; empty if it is not known.
	UID types.UID
	// From is when the Service got the address, Came how.
	From Moment
	Came string
	// To is when the Service lost it, Ended how; both zero while it has it.
	To    Moment
	Ended string
}

// Open reports whether the Service has the address still.
func (r Record) Open() bool { return r.Ended == "" }

// Beside reports whether the address is none of the Service's ClusterIPs.
func (r Record) Beside() bool { return r.Came == Additional || r.Came == Former }

// same reports whether two records are of the same Service and address, at whatever times.
func (r Record) same(other Record) bool {
	return r.Address == other.Address && r.Service == other.Service && r.Beside() == other.Beside() &&
		(r.UID == other.UID || r.UID == "" || other.UID == "")
}

// last is when it was last heard of the record.
func (r Record) last() time.Time {
	if r.Open() {
		return r.From.At
	}
	return r.To.At
}

// noUID stands for a UID that is not known.
const noUID = "-"

// String is the line of a record.
func (r Record) String() string {
	uid := string(r.UID)
	if uid == "" {
		uid = noUID
	}
	line := fmt.Sprintf("%s %s %s %s %s", r.Address, r.Service, uid, r.Came, r.From)
	if !r.Open() {
		line += fmt.Sprintf(" %s %s", r.Ended, r.To)
	}
	return line
}

// parse reads a line.
func parse(line string) (r Record, err error) {
	words := strings.Fields(line)
	if len(words) != 5 && len(words) != 7 {
		return r, fmt.Errorf("%.100q has %d words, and no record has", line, len(words))
	}
	if r.Address, err = netip.ParseAddr(words[0]); err != nil {
		return r, err
	}
	r.Service.Namespace, r.Service.Name, _ = strings.Cut(words[1], "/")
	if words[2] != noUID {
		r.UID = types.UID(words[2])
	}
	r.Came = words[3]
	if r.From, err = parseMoment(words[4]); err != nil || len(words) == 5 {
		return r, err
	}
	r.Ended = words[5]
	r.To, err = parseMoment(words[6])
	return r, err
}
