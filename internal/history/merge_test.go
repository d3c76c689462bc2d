package history

import (
	"net/netip"
	"testing"
)

// page is what was written when noon was a minute ago, unless a test says otherwise.
func page(records ...Record) Page { return Page{Seen: noon, Records: records} }

// merged is the ledger of a replica that has seen records, and begins to lead an hour after noon.
func merged(a netip.Addr, written Page, seen ...Record) *Ledger {
	l := NewLedger(5)
	for _, r := range seen {
		if r.Open() {
			l.Begin(r, noon)
		} else {
			l.End(r, noon)
		}
	}
	l.Written(ShardOf(a))
	l.Merge(ShardOf(a), written, minute(60))
	return l
}

func expectDue(t *testing.T, l *Ledger, want bool) {
	t.Helper()
	if shard, _ := l.Due(all); (shard >= 0) != want {
		t.Errorf("to be written: %v, want %v", shard >= 0, want)
	}
}

func TestMerge(t *testing.T) {
	web, api := in("shop", "web"), in("bank", "api")
	for name, tc := range map[string]struct {
		written, seen []Record
		want          []string
		wantDue       bool
	}{
		"nothing has changed": {
			written: []Record{began(families["IPv4"], web, Changed, -60)}, seen: []Record{began(families["IPv4"], web, Found, -90)},
			want: []string{"shop/web web changed 2026-11-28T11:00:00Z"},
		},
		"the Service went meanwhile": {
			written: []Record{began(families["IPv4"], web, Created, -60)}, wantDue: true,
			want: []string{"shop/web web created 2026-11-28T11:00:00Z unseen 2026-11-28T12:00:00Z/2026-11-28T13:00:00Z"},
		},
		"another Service came after it": {
			written: []Record{began(families["IPv4"], web, Created, -60)}, seen: []Record{began(families["IPv4"], api, Found, 30)}, wantDue: true,
			want: []string{
				"bank/api api created 2026-11-28T12:30:00Z",
				"shop/web web created 2026-11-28T11:00:00Z unseen 2026-11-28T12:00:00Z/2026-11-28T12:30:00Z",
			},
		},
		"a Service that was there before has it now": {
			written: []Record{began(families["IPv4"], web, Created, -60)}, seen: []Record{began(families["IPv4"], api, Found, -90)}, wantDue: true,
			want: []string{
				"bank/api api unseen 2026-11-28T12:00:00Z/2026-11-28T13:00:00Z",
				"shop/web web created 2026-11-28T11:00:00Z unseen 2026-11-28T12:00:00Z/2026-11-28T13:00:00Z",
			},
		},
		"a Service of the same name came after it": {
			written: []Record{began(families["IPv4"], web, Created, -60)}, wantDue: true,
			seen: []Record{{Address: families["IPv4"], Service: web, UID: "new", Came: Found, From: At(minute(30))}},
			want: []string{
				"shop/web new created 2026-11-28T12:30:00Z",
				"shop/web web created 2026-11-28T11:00:00Z unseen 2026-11-28T12:00:00Z/2026-11-28T12:30:00Z",
			},
		},
		"the replica saw it go, which the leader could not write any more": {
			written: []Record{began(families["IPv4"], web, Created, -60)}, wantDue: true,
			seen: []Record{began(families["IPv4"], web, Found, -60).until(Deleted, 2)},
			want: []string{"shop/web web created 2026-11-28T11:00:00Z deleted 2026-11-28T12:02:00Z"},
		},
		"both saw it go": {
			written: []Record{began(families["IPv4"], web, Created, -60).until(Deleted, -1)},
			seen:    []Record{began(families["IPv4"], web, Found, -60).until(Deleted, -1)},
			want:    []string{"shop/web web created 2026-11-28T11:00:00Z deleted 2026-11-28T11:59:00Z"},
		},
		"it had the address before, and has it again": {
			written: []Record{began(families["IPv4"], web, Created, -60).until(Renumbered, -50), began(families["IPv4"], web, Renumbered, -40)},
			seen:    []Record{began(families["IPv4"], web, Found, -60)},
			want: []string{
				"shop/web web renumbered 2026-11-28T11:20:00Z",
				"shop/web web created 2026-11-28T11:00:00Z renumbered 2026-11-28T11:10:00Z",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBothFamilies(t, func(t *testing.T, a netip.Addr) {
				l := merged(a, page(of(a, tc.written)...), of(a, tc.seen)...)
				expect(t, l, a, tc.want...)
				expectDue(t, l, tc.wantDue)
				again := merged(a, l.Page(ShardOf(a), minute(60)), of(a, tc.seen)...) // as after a conflict
				expect(t, again, a, tc.want...)
			})
		})
	}
}

// of are records of another address.
func of(a netip.Addr, records []Record) (out []Record) {
	for _, r := range records {
		r.Address = a
		out = append(out, r)
	}
	return out
}

func TestTheFirstPageSaysWhatWasFound(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		l := merged(a, Page{}, began(a, in("shop", "web"), Found, -60))
		expect(t, l, a, "shop/web web found 2026-11-28T11:00:00Z")
		expectDue(t, l, true)
	})
}
