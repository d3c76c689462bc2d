package migration

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// troubledCluster is a random snapshot: a healthy cluster in which some things were then done. It
// is small, so that addresses meet.
type troubledCluster struct {
	Snapshot
	flag []netip.Prefix // what its API server is started with
	done []string       // what was done
}

// String tells the story, for tests that fail.
func (s troubledCluster) String() string {
	return fmt.Sprintf("flag %s; done: %s\n%+v", prefixes(s.flag), strings.Join(s.done, ", "), s.Snapshot)
}

var flags = []string{"10.0.0.0/28", "10.0.1.0/29", "fd00::/124", "10.0.0.0/28,fd00::/124", "fd00::/112,10.0.0.0/28", "10.0.0.0/26,fd00::/120"}

// randomCluster is healthy but for some troubles. Mostly nothing but the cluster tells the range.
func randomCluster(r *rand.Rand, trouble int) *troubledCluster {
	s := &troubledCluster{flag: nets(oneOf(r, flags...))}
	s.Now, s.Revision = noon, 11
	s.Allocator, s.Served = AllocatorBitmap, r.IntN(3) > 0
	s.ServiceCIDRs = []ServiceCIDR{{Name: defaultName, UID: "default", ResourceVersion: "9", CIDRs: s.flag}}
	s.add("kubernetes", s.flag[0].Addr().Next())
	s.Services[0].Name.Namespace, s.IPAddresses[0].Service.Namespace = "default", "default"
	for i := range r.IntN(8) {
		var ips []netip.Addr
		for _, p := range s.flag {
			if a := s.free(r, p); r.IntN(4) > 0 && a.IsValid() {
				ips = append(ips, a)
			}
		}
		s.add(fmt.Sprintf("s%d", i), ips...)
	}
	for i, p := range s.flag {
		m := must(bitmap.New(p))
		s.claimed(func(a netip.Addr) { _ = m.Add(a) }) // the other family has no place in it
		s.Bitmaps = append(s.Bitmaps, StoredBitmap{Key: bitmapKeys[i], ModRevision: 5, Range: p.String(), Bitmap: m})
	}
	for range r.IntN(trouble + 1) {
		name := oneOf(r, troubleNames...)
		troubles[name](r, s)
		s.done = append(s.done, name)
	}
	return s
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// add makes a Service with its IPAddresses, as they should be.
func (s *troubledCluster) add(name string, ips ...netip.Addr) {
	svc := Service{Name: nsName(name), UID: types.UID("service-" + name), Created: noon.Add(-time.Hour), Addresses: ips}
	s.Services = append(s.Services, svc)
	for _, a := range ips {
		s.IPAddresses = append(s.IPAddresses, anIP(a.String(), name))
	}
}

// claimed visits every address of every Service.
func (s *troubledCluster) claimed(visit func(netip.Addr)) {
	for _, x := range s.Services {
		for _, a := range x.Addresses {
			visit(a)
		}
	}
}

// free is an address of the prefix without a Service and an IPAddress, zero if none is at hand.
func (s *troubledCluster) free(r *rand.Rand, p netip.Prefix) netip.Addr {
	offer := must(allocator.NewRange(p))
	for range 20 {
		a := p.Addr()
		for range 1 + r.IntN(14) {
			a = a.Next()
		}
		taken := slices.ContainsFunc(s.IPAddresses, func(ip relation.IPAddress) bool { return ip.Address == a })
		s.claimed(func(b netip.Addr) { taken = taken || a == b })
		if !taken && offer.Contains(a) {
			return a
		}
	}
	return netip.Addr{}
}

// troubles are what may have happened to a cluster.
var troubles = map[string]func(*rand.Rand, *troubledCluster){
	"an IPAddress is lost": func(r *rand.Rand, s *troubledCluster) {
		s.touchIP(r, func(ip *relation.IPAddress) { ip.Address = netip.Addr{} })
		s.IPAddresses = slices.DeleteFunc(s.IPAddresses, func(ip relation.IPAddress) bool { return !ip.Address.IsValid() })
	},
	"an IPAddress names another": func(r *rand.Rand, s *troubledCluster) {
		s.touchIP(r, func(ip *relation.IPAddress) {
			ip.Service = nsName(oneOf(r, "s0", "s1", "s2", "kubernetes", "nobody", ""))
		})
	},
	"an IPAddress is labelled": func(r *rand.Rand, s *troubledCluster) {
		s.touchIP(r, func(ip *relation.IPAddress) {
			ip.ManagedBy = oneOf(r, "", v1alpha1.ManagedByAPIServer, v1alpha1.ManagedByOperator, "example.com")
			ip.Family = oneOf(r, "", "IPv4", "IPv6")
		})
	},
	"an IPAddress is being deleted": func(r *rand.Rand, s *troubledCluster) {
		s.touchIP(r, func(ip *relation.IPAddress) { ip.Deleting = true })
	},
	"an IPAddress is reserved": func(r *rand.Rand, s *troubledCluster) {
		if a := s.free(r, oneOf(r, s.flag...)); a.IsValid() {
			ip := labelled(anIP(a.String(), oneOf(r, "", "nobody", "s0")), oneOf(r, "", "example.com", v1alpha1.ManagedByOperator, v1alpha1.ManagedByAPIServer), "")
			s.IPAddresses = append(s.IPAddresses, ip)
		}
	},
	"a Service is gone": func(r *rand.Rand, s *troubledCluster) {
		i := r.IntN(len(s.Services))
		s.Services = slices.Delete(s.Services, i, i+1)
		s.add("spare")
	},
	"a Service is new": func(r *rand.Rand, s *troubledCluster) {
		if a := s.free(r, oneOf(r, s.flag...)); a.IsValid() {
			s.Services = append(s.Services, Service{Name: nsName("new"), UID: "new", Created: s.Now, Addresses: []netip.Addr{a}})
			s.Services = compactServices(s.Services)
		}
	},
	"a Service takes another's address": func(r *rand.Rand, s *troubledCluster) {
		var all []netip.Addr
		s.claimed(func(a netip.Addr) { all = append(all, a) })
		if len(all) > 0 {
			age := time.Duration(r.IntN(3)) * time.Hour
			s.Services = append(s.Services, Service{Name: nsName(oneOf(r, "thief", "a-thief")), UID: "thief", Created: s.Now.Add(-age), Addresses: []netip.Addr{oneOf(r, all...)}})
			s.Services = compactServices(s.Services)
		}
	},
	"a Service is out of range": func(r *rand.Rand, s *troubledCluster) {
		a := oneOf(r, addr("192.0.2.1"), addr("2001:db8::1"), s.flag[0].Addr())
		if slices.ContainsFunc(s.IPAddresses, func(ip relation.IPAddress) bool { return ip.Address == a }) {
			return
		}
		s.add("far-"+a.String(), a)
		if r.IntN(2) == 0 {
			s.IPAddresses = s.IPAddresses[:len(s.IPAddresses)-1]
		}
		s.Services = compactServices(s.Services)
	},
	"a Service is invalid": func(r *rand.Rand, s *troubledCluster) {
		i := r.IntN(len(s.Services))
		s.Services[i].Invalid = append(s.Services[i].Invalid, oneOf(r, "nonsense", "10.0.0.400"))
	},
	"a ClusterIP is misspelt": func(r *rand.Rand, s *troubledCluster) {
		if svc := &s.Services[r.IntN(len(s.Services))]; len(svc.Addresses) > 0 && svc.Addresses[0].Is6() && len(svc.Misspelt) == 0 {
			svc.Misspelt = []string{svc.Addresses[0].StringExpanded()}
		}
	},
	"a ServiceCIDR is added": func(r *rand.Rand, s *troubledCluster) {
		c := aCIDR("more", oneOf(r, "192.0.2.0/24", "192.0.2.0/24,2001:db8::/64"))
		c.Deleting = r.IntN(3) == 0
		s.ServiceCIDRs = append(s.ServiceCIDRs, c)
	},
	"the default ServiceCIDR is not there": func(_ *rand.Rand, s *troubledCluster) {
		s.ServiceCIDRs = slices.DeleteFunc(s.ServiceCIDRs, func(c ServiceCIDR) bool { return c.Name == defaultName })
	},
	"the default ServiceCIDR is another": func(r *rand.Rand, s *troubledCluster) {
		s.touchDefault(func(c *ServiceCIDR) {
			turned := slices.Clone(s.flag)
			slices.Reverse(turned)
			c.CIDRs = oneOf(r, turned, s.flag[:1], nets("10.77.0.0/24"), append(slices.Clone(s.flag[:1]), nets("fd77::/64")...))
		})
	},
	"the default ServiceCIDR is held": func(r *rand.Rand, s *troubledCluster) {
		s.touchDefault(func(c *ServiceCIDR) { c.Finalizers, c.Deleting = []string{"example.com/held"}, r.IntN(2) == 0 })
	},
	"a bit leaks": func(r *rand.Rand, s *troubledCluster) {
		s.touchBitmap(r, func(b *StoredBitmap) {
			if a := s.free(r, b.Bitmap.Prefix()); a.IsValid() {
				_ = b.Bitmap.Add(a)
			}
		})
	},
	"a bit is missing": func(r *rand.Rand, s *troubledCluster) {
		s.touchBitmap(r, func(b *StoredBitmap) {
			for a := range b.Bitmap.All() {
				b.Bitmap.Remove(a)
				return
			}
		})
	},
	"a bitmap is lost": func(r *rand.Rand, s *troubledCluster) {
		if len(s.Bitmaps) > 0 {
			i := r.IntN(len(s.Bitmaps))
			s.Bitmaps = slices.Delete(s.Bitmaps, i, i+1)
		}
	},
	"a bitmap is empty": func(r *rand.Rand, s *troubledCluster) {
		s.touchBitmap(r, func(b *StoredBitmap) {
			if r.IntN(2) == 0 {
				b.Bitmap = must(bitmap.New(b.Bitmap.Prefix()))
			} else {
				b.Bitmap, b.Range, b.Err = nil, "", bitmap.ErrUnset
			}
		})
	},
	"a bitmap is broken": func(r *rand.Rand, s *troubledCluster) {
		s.touchBitmap(r, func(b *StoredBitmap) { b.Bitmap, b.Err = nil, oneOf(r, ErrEncrypted, errors.New("broken")) })
	},
	"a bitmap is foreign": func(r *rand.Rand, s *troubledCluster) {
		s.touchBitmap(r, func(b *StoredBitmap) {
			b.Range = oneOf(r, "10.88.0.0/24", "fd88::/112", s.flag[0].String())
			b.Bitmap = must(bitmap.New(netip.MustParsePrefix(b.Range)))
		})
	},
	"bitmaps are swapped": func(_ *rand.Rand, s *troubledCluster) {
		if len(s.Bitmaps) == 2 {
			s.Bitmaps[0], s.Bitmaps[1] = s.Bitmaps[1], s.Bitmaps[0]
			s.Bitmaps[0].Key, s.Bitmaps[1].Key = KeyPrimary, KeySecondary
		}
	},
	"an object is broken": func(_ *rand.Rand, s *troubledCluster) {
		s.Unreadable = append(s.Unreadable, Value{Key: fmt.Sprintf("ipaddresses/x%d", len(s.Unreadable)), Err: errors.New("broken")})
	},
	"the range is told":         func(_ *rand.Rand, s *troubledCluster) { s.Given = s.flag },
	"nobody looked for bitmaps": func(_ *rand.Rand, s *troubledCluster) { s.Bitmaps, s.Revision = nil, 0 },
}

var troubleNames = slices.Sorted(maps.Keys(troubles))

// compactServices drops Services whose name is there already.
func compactServices(all []Service) (out []Service) {
	for _, s := range all {
		if !slices.ContainsFunc(out, func(o Service) bool { return o.Name == s.Name }) {
			out = append(out, s)
		}
	}
	return out
}

func (s *troubledCluster) touchIP(r *rand.Rand, do func(*relation.IPAddress)) {
	if len(s.IPAddresses) > 0 {
		do(&s.IPAddresses[r.IntN(len(s.IPAddresses))])
	}
}

func (s *troubledCluster) touchDefault(do func(*ServiceCIDR)) {
	if c := s.defaultCIDR(); c != nil {
		do(c)
	}
}

// touchBitmap changes one that can be read.
func (s *troubledCluster) touchBitmap(r *rand.Rand, do func(*StoredBitmap)) {
	if len(s.Bitmaps) > 0 {
		if b := &s.Bitmaps[r.IntN(len(s.Bitmaps))]; b.Bitmap != nil {
			b.Bitmap = b.Bitmap.Clone()
			do(b)
		}
	}
}

// planDiff compares what two plans say, not what they were made of.
func planDiff(want, got Plan) string {
	want.Snapshot, got.Snapshot = Snapshot{}, Snapshot{}
	return cmp.Diff(want, got, byValue)
}

// carriedOut is the snapshot after all steps of its plan were taken without looking at more.
func carriedOut(p Plan) Snapshot {
	w := p.Snapshot
	w.IPAddresses, w.ServiceCIDRs, w.Bitmaps = slices.Clone(w.IPAddresses), slices.Clone(w.ServiceCIDRs), slices.Clone(w.Bitmaps)
	for _, s := range p.Steps {
		at := slices.IndexFunc(w.IPAddresses, func(ip relation.IPAddress) bool { return ip.Address == s.Address })
		if at >= 0 && (w.IPAddresses[at].UID != s.UID || w.IPAddresses[at].ResourceVersion != s.ResourceVersion) {
			panic("the guard of " + stepText(s) + " does not hold")
		}
		switch s.Do {
		case CreateServiceCIDR:
			w.ServiceCIDRs = append(w.ServiceCIDRs, ServiceCIDR{Name: defaultName, CIDRs: s.CIDRs})
		case ReplaceServiceCIDR:
			w.ServiceCIDRs = slices.DeleteFunc(w.ServiceCIDRs, func(c ServiceCIDR) bool { return c.UID == s.UID })
			w.ServiceCIDRs = append(w.ServiceCIDRs, ServiceCIDR{Name: defaultName, CIDRs: s.CIDRs})
		case CreateIPAddress:
			if at >= 0 {
				panic(stepText(s) + ", which exists")
			}
			w.IPAddresses = append(w.IPAddresses, written(s))
		case RelabelIPAddress:
			w.IPAddresses[at].ManagedBy, w.IPAddresses[at].Family = v1alpha1.ManagedByAPIServer, allocator.FamilyOf(s.Address).String()
		case ReplaceIPAddress:
			w.IPAddresses[at] = written(s)
		case DeleteIPAddress:
			w.IPAddresses = slices.Delete(w.IPAddresses, at, at+1)
		case RepairBitmap:
			w.repaired(s.Key, rangeAt(p.Ranges, s.Key))
		default:
			panic("nobody knows how to " + string(s.Do))
		}
	}
	return w
}

func written(s Step) relation.IPAddress {
	ip := anIP(s.Address.String(), "")
	ip.Service = upstream.Service(s.ipAddress())
	return ip
}

// repaired sets exactly the bits that Services hold.
func (w *Snapshot) repaired(key string, prefix netip.Prefix) {
	at := slices.IndexFunc(w.Bitmaps, func(b StoredBitmap) bool { return b.Key == key })
	if w.Bitmaps[at].Bitmap != nil {
		prefix = w.Bitmaps[at].Bitmap.Prefix()
	}
	m := must(bitmap.New(prefix))
	(&troubledCluster{Snapshot: *w}).claimed(func(a netip.Addr) { _ = m.Add(a) })
	w.Bitmaps[at].Bitmap, w.Bitmaps[at].Range, w.Bitmaps[at].Err = m, prefix.String(), nil
}

// Once a plan is carried out, nothing is left to do, and what is still found had no step.
func TestAPlanIsDoneOnce(t *testing.T) {
	steps := map[Action]int{}
	for seed := range uint64(2500) {
		r := seeded(seed)
		s, o := randomCluster(r, 5), Options{RepairBitmap: r.IntN(2) == 0}
		first := NewPlan(s.Snapshot, o)
		for _, step := range first.Steps {
			steps[step.Do]++
		}
		after := NewPlan(carriedOut(first), o)
		if slices.ContainsFunc(s.Bitmaps, func(b StoredBitmap) bool { return b.Bitmap == nil }) {
			after = NewPlan(carriedOut(after), o) // a bitmap that was never used tells more when it was repaired
		}
		if len(after.Steps) > 0 {
			t.Fatalf("seed %d: after\n  %s\nit wants\n  %s\n%s", seed, strings.Join(textsOf(first.Steps, stepText), "\n  "), strings.Join(textsOf(after.Steps, stepText), "\n  "), s)
		}
		if len(first.Blocked()) > 0 || slices.ContainsFunc(s.Bitmaps, func(b StoredBitmap) bool { return b.Bitmap == nil }) {
			continue
		}
		if diff := cmp.Diff(kindsAndPlaces(unsettled(first)), kindsAndPlaces(after.StopFlip())); diff != "" {
			t.Fatalf("seed %d: what is left unsettled, and what is found afterwards (-want +got):\n%s\n%s", seed, diff, s)
		}
		if o.RepairBitmap {
			mustHaveTheBitsOfServices(t, after)
		}
	}
	for _, do := range Actions {
		if steps[do] < 20 {
			t.Errorf("%s came up %d times only", do, steps[do])
		}
	}
}

func kindsAndPlaces(all []Finding) []string {
	return textsOf(all, func(f Finding) string { return string(f.Kind) + " " + f.Address.String() })
}

func mustHaveTheBitsOfServices(t *testing.T, p Plan) {
	t.Helper()
	blocked := textsOf(p.Blocked(), findingText)
	for i, b := range p.Snapshot.Bitmaps {
		if b.Bitmap == nil || slices.ContainsFunc(blocked, func(text string) bool { return strings.Contains(text, b.Key) }) {
			continue
		}
		want := must(bitmap.New(b.Bitmap.Prefix()))
		(&troubledCluster{Snapshot: p.Snapshot}).claimed(func(a netip.Addr) { _ = want.Add(a) })
		if !want.Equal(p.Snapshot.Bitmaps[i].Bitmap) {
			t.Fatalf("%s\n%s has %v, the Services %v", &troubledCluster{Snapshot: p.Snapshot}, b.Key, slices.Collect(b.Bitmap.All()), slices.Collect(want.All()))
		}
	}
}
