package migration

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
)

// noon is when every snapshot of a table is taken.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// byValue lets cmp compare addresses by ==, errors by text, and takes no list for an empty one.
var byValue = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}),
	cmp.Comparer(func(a, b *bitmap.Bitmap) bool { return a == b || a != nil && a.Equal(b) }),
	cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }),
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// nets reads prefixes that are separated by commas; "" is nil.
func nets(text string) (out []netip.Prefix) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		out = append(out, netip.MustParsePrefix(part))
	}
	return out
}

func nsName(name string) types.NamespacedName {
	if name == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// aService is of namespace ns, an hour old, and holds the addresses. A text that is no address is
// an invalid one, an address in another spelling a misspelt one.
func aService(name string, ips ...string) Service {
	s := Service{Name: nsName(name), UID: types.UID("service-" + name), Created: noon.Add(-time.Hour)}
	for _, text := range ips {
		switch a, err := netip.ParseAddr(text); {
		case err != nil:
			s.Invalid = append(s.Invalid, text)
		case a.String() != text:
			s.Misspelt = append(s.Misspelt, text)
			fallthrough
		default:
			s.Addresses = append(s.Addresses, a)
		}
	}
	return s
}

func aged(s Service, age time.Duration) Service { s.Created = noon.Add(-age); return s }

// anIP is an IPAddress as the API server makes it, an hour old; without service it has no parent.
func anIP(text, service string) relation.IPAddress {
	a := addr(text)
	return relation.IPAddress{
		Address: a, UID: types.UID("ip-" + text), ResourceVersion: "7", Created: noon.Add(-time.Hour),
		ManagedBy: v1alpha1.ManagedByAPIServer, Family: allocator.FamilyOf(a).String(), Service: nsName(service),
	}
}

func labelled(ip relation.IPAddress, manager, family string) relation.IPAddress {
	ip.ManagedBy, ip.Family = manager, family
	return ip
}

func made(ip relation.IPAddress, ago time.Duration) relation.IPAddress {
	ip.Created = noon.Add(-ago)
	return ip
}

func finalized(ip relation.IPAddress) relation.IPAddress {
	ip.Finalizers = []string{"example.com/mine"}
	return ip
}

func byAPIServer(ip relation.IPAddress) relation.IPAddress { ip.ByAPIServer = true; return ip }

func dying(ip relation.IPAddress) relation.IPAddress { ip.Deleting = true; return ip }

// aCIDR is a ServiceCIDR that no API server made.
func aCIDR(name, cidrs string) ServiceCIDR {
	return ServiceCIDR{Name: name, UID: types.UID("cidr-" + name), ResourceVersion: "9", CIDRs: nets(cidrs)}
}

// aBitmap is what is stored for a range with these addresses in use.
func aBitmap(key, prefix string, used ...string) StoredBitmap {
	m := must(bitmap.New(netip.MustParsePrefix(prefix)))
	for _, a := range used {
		must(a, m.Add(addr(a)))
	}
	return StoredBitmap{Key: key, ModRevision: 5, Range: prefix, Bitmap: m}
}

// broken is a bitmap that could not be read.
func broken(key string, err error) StoredBitmap {
	return StoredBitmap{Key: key, ModRevision: 5, Err: err}
}

func textsOf[T any](all []T, text func(T) string) (out []string) {
	for _, x := range all {
		out = append(out, text(x))
	}
	return out
}

// findingText is a Finding in a line: kind, address, those involved.
func findingText(f Finding) string {
	words := []string{string(f.Kind)}
	if f.Address.IsValid() {
		words = append(words, f.Address.String())
	}
	if len(f.Objects) > 0 {
		words = append(words, "("+strings.Join(f.Objects, ", ")+")")
	}
	return strings.Join(words, " ")
}

// stepText is a Step in a line, with everything that guards it.
func stepText(s Step) string {
	words := []string{string(s.Do)}
	if s.Address.IsValid() {
		words = append(words, s.Address.String())
	}
	if s.Service != "" {
		words = append(words, "for "+s.Service)
	}
	if s.UID != "" {
		words = append(words, fmt.Sprintf("if %s@%s", s.UID, s.ResourceVersion))
	}
	if len(s.CIDRs) > 0 {
		words = append(words, "with "+prefixes(s.CIDRs))
	}
	if s.Key != "" {
		words = append(words, s.Key)
	}
	return strings.Join(words, " ")
}

// mustEqual fails the test with a diff.
func mustEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, byValue); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// mustSay wants an error with a piece of text, or none for "".
func mustSay(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func oneOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// shuffled returns the same snapshot in another order, except for bitmaps, which have theirs.
func shuffled(w Snapshot, r *rand.Rand) Snapshot {
	w.Services, w.IPAddresses = slices.Clone(w.Services), slices.Clone(w.IPAddresses)
	w.ServiceCIDRs, w.Unreadable = slices.Clone(w.ServiceCIDRs), slices.Clone(w.Unreadable)
	r.Shuffle(len(w.Services), func(i, j int) { w.Services[i], w.Services[j] = w.Services[j], w.Services[i] })
	r.Shuffle(len(w.IPAddresses), func(i, j int) { w.IPAddresses[i], w.IPAddresses[j] = w.IPAddresses[j], w.IPAddresses[i] })
	r.Shuffle(len(w.ServiceCIDRs), func(i, j int) { w.ServiceCIDRs[i], w.ServiceCIDRs[j] = w.ServiceCIDRs[j], w.ServiceCIDRs[i] })
	r.Shuffle(len(w.Unreadable), func(i, j int) { w.Unreadable[i], w.Unreadable[j] = w.Unreadable[j], w.Unreadable[i] })
	return w
}

// silent is told of progress, and counts.
type silent struct {
	total, done int
	ended       bool
}

var _ batch.Progress = (*silent)(nil)

func (s *silent) Begin(_ string, total int) { s.total += total }
func (s *silent) Done(n int)                { s.done += n }
func (s *silent) End()                      { s.ended = true }
