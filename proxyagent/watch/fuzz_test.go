package watch

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// FuzzAddresses puts text wherever an address may stand. Addresses that the API takes come out in
// one spelling, all else is counted, and the good one beside it always comes out.
func FuzzAddresses(f *testing.F) {
	for _, seed := range []string{"10.0.0.1", "010.0.0.1", "fd00::1", "fe80::1%eth0", "::ffff:1.2.3.4", "1.2.3.4/8", "x\ny", "", "::", "0.0.0.0/0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, bad := convertService(newService("web", "10.96.0.1", loadBalancer(text, "192.0.2.1"), sources(text, "10.0.0.0/8", "fd00::/8"),
			func(s *corev1.Service) { s.Spec.ExternalIPs = []string{text, "192.0.2.1"} }))
		for _, list := range [][]netip.Addr{s.model.ExternalIPs, s.model.LoadBalancerIPs} {
			if !slices.Contains(list, netip.MustParseAddr("192.0.2.1")) {
				t.Errorf("lost the good address beside %q: %v", text, list)
			}
			for _, a := range list {
				checkAddr(t, a)
			}
		}
		for _, p := range s.model.SourceRanges {
			if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
				t.Errorf("source range %v of %q", p, text)
			}
		}
		checkMalformed(t, &bad)

		e, bad := convertSlice(newSlice("web-1", "web", at(text, "10.0.0.1")))
		if n := len(e.addresses); n == 0 || e.addresses[n-1].addr != netip.MustParseAddr("10.0.0.1") || n+bad.count != 2 {
			t.Errorf("beside %q: %v, malformed %q", text, e.addresses, &bad)
		}
		for _, a := range e.addresses {
			checkAddr(t, a.addr)
			if !a.addr.Is4() || a.addr.IsLinkLocalUnicast() {
				t.Errorf("address %v of %q", a.addr, text)
			}
		}
		checkMalformed(t, &bad)
	})
}

func checkAddr(t *testing.T, a netip.Addr) {
	t.Helper()
	if !a.IsValid() || a.Zone() != "" || a.Is4In6() || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
		t.Errorf("let %v pass", a)
	}
	if again, ok := parseAddr(a.String()); !ok || again != a {
		t.Errorf("%v becomes %v", a, again)
	}
}

// checkMalformed wants one short printable line.
func checkMalformed(t *testing.T, bad *malformed) {
	t.Helper()
	text := bad.String()
	if (bad.count == 0) != (text == "") || len(text) > 1200 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		t.Errorf("%d malformed pieces are shown as %q", bad.count, text)
	}
}
