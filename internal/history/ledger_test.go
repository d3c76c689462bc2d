package history

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var (
	noon     = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	families = map[string]netip.Addr{"IPv4": netip.MustParseAddr("10.96.0.7"), "IPv6": netip.MustParseAddr("fd00::7")}
)

func minute(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }

func in(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// began is a record of a Service whose UID is its name.
func began(a netip.Addr, service types.NamespacedName, came string, at int) Record {
	return Record{Address: a, Service: service, UID: types.UID(service.Name), Came: came, From: At(minute(at))}
}

// until is a record that has ended.
func (r Record) until(ended string, at int) Record {
	r.Ended, r.To = ended, At(minute(at))
	return r
}

// lines are what is kept of an address, the latest first.
func (l *Ledger) lines(a netip.Addr) (out []string) {
	for _, r := range l.Page(ShardOf(a), noon).Of(a) {
		out = append(out, strings.TrimPrefix(r.String(), a.String()+" "))
	}
	return out
}

func expect(t *testing.T, l *Ledger, a netip.Addr, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, l.lines(a)); diff != "" {
		t.Errorf("of %s (-want +got):\n%s", a, diff)
	}
}

func inBothFamilies(t *testing.T, test func(t *testing.T, a netip.Addr)) {
	for family, a := range families {
		t.Run(family, func(t *testing.T) { test(t, a) })
	}
}

func TestOwnersFollowEachOther(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		l := NewLedger(5)
		web, api := in("shop", "web"), in("bank", "api")
		l.Begin(began(a, web, Created, 0), noon)
		l.Begin(began(a, web, Found, 0), noon) // known
		l.End(began(a, web, Found, 0).until(Deleted, 5), noon)
		l.Begin(began(a, api, Created, 6), noon)
		expect(t, l, a,
			"bank/api api created 2026-11-28T12:06:00Z",
			"shop/web web created 2026-11-28T12:00:00Z deleted 2026-11-28T12:05:00Z")
	})
}

func TestAFormerAddressKeepsTheUID(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		l := NewLedger(5)
		web := in("shop", "web")
		l.Begin(began(a, web, Created, 0), noon)
		held := began(a, web, Former, 1)
		held.UID = ""
		l.Begin(held, noon)
		l.End(began(a, web, Found, 0).until(Renumbered, 1), noon)
		l.End(held.until(Released, 9), noon)
		expect(t, l, a,
			"shop/web web former 2026-11-28T12:01:00Z released 2026-11-28T12:09:00Z",
			"shop/web web created 2026-11-28T12:00:00Z renumbered 2026-11-28T12:01:00Z")
	})
}

func TestAnAddressHasSoManyFormerOwners(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		l := NewLedger(3)
		victim := in("bank", "api")
		l.End(began(a, victim, Created, 0).until(Deleted, 1), noon)
		for i := range 100 { // a tenant that takes the address over and over
			one := in("noisy", fmt.Sprintf("s%03d", i))
			l.Begin(began(a, one, Created, 2*i+2), noon)
			l.End(began(a, one, Created, 2*i+2).until(Deleted, 2*i+3), noon)
		}
		got := l.lines(a)
		if len(got) != 3 || !strings.HasPrefix(got[0], "noisy/s099") || !strings.HasPrefix(got[1], "noisy/s098") || !strings.HasPrefix(got[2], "bank/api") {
			t.Errorf("kept %q, want the last two of the noisy namespace, and the only one of the other", got)
		}
	})
}

// TestAShardHasABound has a tenant fill a shard, with the longest names that there are.
func TestAShardHasABound(t *testing.T) {
	l := NewLedger(5)
	victim := in("bank", "api")
	quiet, present := netip.MustParseAddr("10.96.0.7"), netip.MustParseAddr("fd00::7")
	l.End(began(quiet, victim, Created, 0).until(Deleted, 1), noon)
	l.Begin(began(present, victim, Created, 0), noon)
	long := strings.Repeat("n", 63)
	for i := range 20_000 {
		a := netip.AddrFrom4([4]byte{10, byte(97 + i/1024), byte(i / 4), byte(7 + 64*(i%4))})
		l.End(began(a, in(long, fmt.Sprintf("%s%05d", long[:58], i)), Created, 2+i).until(Deleted, 2+i), noon)
	}
	data := l.Page(7, noon).Data()
	if n := len(data["owners"]); n > MostBytes || n < MostBytes/8*6 || n != l.shards[7].bytes {
		t.Errorf("the shard has %d bytes, and counts %d; want at most %d", n, l.shards[7].bytes, MostBytes)
	}
	expect(t, l, quiet, "bank/api api created 2026-11-28T12:00:00Z deleted 2026-11-28T12:01:00Z")
	expect(t, l, present, "bank/api api created 2026-11-28T12:00:00Z")
	// What is left of the other tenant's is the latest.
	last := netip.AddrFrom4([4]byte{10, byte(97 + 19_999/1024), byte(19_999 / 4 % 256), byte(7 + 64*(19_999%4))})
	if len(l.lines(last)) == 0 {
		t.Error("the latest owner is forgotten")
	}
}

func TestServicesBeyondTheBoundAreForgottenToo(t *testing.T) {
	l := NewLedger(5)
	for i := range 2000 {
		a := netip.AddrFrom4([4]byte{10, 97, byte(i / 4), byte(64 * (i % 4))})
		l.Begin(began(a, in(fmt.Sprintf("n%d", i%7), fmt.Sprintf("a-service-of-a-long-name-%05d", i)), Found, i), noon)
	}
	if n := l.shards[0].bytes; n > MostBytes {
		t.Errorf("the shard has %d bytes", n)
	}
}

// TestBytes counts the bytes of random changes, and none may be lost over a page.
func TestBytes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
	l := NewLedger(2)
	for i := range 3000 {
		a := netip.AddrFrom4([4]byte{10, 96, byte(random.IntN(2)), byte(random.IntN(8))})
		r := began(a, in(fmt.Sprintf("n%d", random.IntN(3)), fmt.Sprintf("s%d", random.IntN(4))), Created, i)
		if random.IntN(2) == 0 {
			l.Begin(r, noon)
		} else {
			l.End(r.until(Deleted, i), noon)
		}
	}
	for shard := range Shards {
		p := l.Page(shard, noon)
		data := p.Data()
		if len(data["owners"]) != l.shards[shard].bytes {
			t.Errorf("seed %d: shard %d counts %d bytes, and has %d", seed, shard, l.shards[shard].bytes, len(data["owners"]))
		}
		again, err := ReadPage(data)
		if diff := cmp.Diff(p, again, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || err != nil {
			t.Errorf("seed %d: shard %d reads otherwise (%v):\n%s", seed, shard, err, diff)
		}
	}
}

func TestWhatChangedIsDue(t *testing.T) {
	l := NewLedger(5)
	if shard, _ := l.Due(all); shard != -1 {
		t.Errorf("shard %d is due, and nothing has changed", shard)
	}
	web := in("shop", "web")
	l.Begin(began(netip.MustParseAddr("10.96.0.9"), web, Created, 0), minute(2))
	l.Begin(began(netip.MustParseAddr("fd00::7"), web, Created, 0), minute(1))
	l.Begin(began(netip.MustParseAddr("10.96.0.7"), web, Created, 0), minute(3))
	if shard, since := l.Due(all); shard != 7 || !since.Equal(minute(1)) {
		t.Errorf("shard %d is due since %v, want 7 since %v", shard, since, minute(1))
	}
	l.Written(7)
	l.Begin(began(netip.MustParseAddr("10.96.0.7"), web, Found, 0), minute(4)) // known
	if shard, _ := l.Due(all); shard != 9 {
		t.Errorf("shard %d is due, want 9", shard)
	}
	l.Written(9)
	if shard, _ := l.Due(all); shard != -1 {
		t.Errorf("shard %d is due, and all is written", shard)
	}
}

func TestMalformedLinesAreToldAndTheOthersRead(t *testing.T) {
	good := began(families["IPv6"], in("shop", "web"), Created, 0)
	p, err := ReadPage(map[string]string{"seen": "2026-11-28T12:00:00Z", "owners": good.String() + "\nnonsense\n10.96.0.300 a/b - created 2026-11-28T12:00:00Z\n10.96.0.3 a/b - created yesterday\n"})
	if err == nil || len(p.Records) != 1 || p.Records[0] != good {
		t.Errorf("read %v, %v", p, err)
	}
	p, err = ReadPage(map[string]string{"seen": "yesterday", "owners": good.String() + "\n"})
	if err == nil || len(p.Records) != 1 || !p.Seen.Equal(good.last()) {
		t.Errorf("without the time: seen %v, %d records, error %v; want one record, and until then", p.Seen, len(p.Records), err)
	}
	if _, err := ReadPage(nil); err == nil {
		t.Error("a ConfigMap without data is no page")
	}
}

// all shards may be written.
func all(int) bool { return true }

// Who chooses addresses may have thousands of one ConfigMap: it pays for them itself.
func TestPresentOwnersOfANamespacePushOutNoOthers(t *testing.T) {
	l := NewLedger(5)
	bank := began(netip.MustParseAddr("fd00::7"), in("bank", "api"), Created, 0)
	l.Begin(bank, minute(0))
	bank.Ended, bank.To = Deleted, At(minute(1))
	l.End(bank, minute(1))
	for n := range 3000 {
		a := netip.MustParseAddr("fd00:0:0:1::7").As16()
		a[8], a[9] = byte(n>>8), byte(n)
		l.Begin(began(netip.AddrFrom16(a), in("evil", fmt.Sprintf("%059d", n)), Created, 2), minute(2))
	}
	if got := l.shards[7].records[bank.Address]; len(got) != 1 || l.shards[7].bytes > MostBytes {
		t.Errorf("of bank there is %v, in %d bytes", got, l.shards[7].bytes)
	}
}
