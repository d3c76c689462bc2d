package inspect

import (
	"encoding/xml"
	"errors"
	"net/netip"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

func chartOf(t *testing.T, cidr, part string) Chart {
	t.Helper()
	r := allocator.MustParseRange(cidr)
	pool := allocator.NewPool()
	for a, state := range map[string]allocator.State{"10.96.0.1": allocator.Allocated, "10.96.0.2": allocator.Reserved, "10.96.0.40": allocator.Allocated, "fd00::5": allocator.Allocated} {
		pool.Observe(netip.MustParseAddr(a), state)
	}
	return NewChart(Part{r, netip.MustParsePrefix(part)}, mapBits, pool.Usage, []netip.Addr{netip.MustParseAddr("10.96.0.40")})
}

func TestMap(t *testing.T) {
	for name, tc := range map[string]struct{ cidr, part, want string }{
		"a whole range": {"10.96.0.0/25", "10.96.0.0/25", "10.96.0.0/25, 1 address in a cell\n" +
			"10.96.0.0  .█R..............|.......................!.......................\n" +
			"10.96.0.64 ................................................................\n"},
		"a part of it":            {"10.96.0.0/25", "10.96.0.32/28", "10.96.0.32/28, 1 address in a cell\n10.96.0.32 ........!.......\n"},
		"without a static band":   {"10.96.0.0/28", "10.96.0.0/28", "10.96.0.0/28, 1 address in a cell\n10.96.0.0 .|█R.............\n"},
		"more than one in a cell": {"10.96.0.0/20", "10.96.0.0/20", "10.96.0.0/20, 2 addresses in a cell\n10.96.0.0    ▒R..................!"},
		"a /64":                   {"fd00::/64", "fd00::/64", "fd00::/64, 2^53 addresses in a cell\nfd00::           ░|.."},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			chartOf(t, tc.cidr, tc.part).draw(&b)
			if !strings.HasPrefix(b.String(), tc.want) {
				t.Errorf("got\n%s\nwant\n%s", b.String(), tc.want)
			}
			if lines := strings.Count(b.String(), "\n"); lines > 1<<mapBits/mapWidth+1 {
				t.Errorf("%d lines", lines)
			}
		})
	}
}

func TestMapForPrograms(t *testing.T) {
	for name, tc := range map[string]struct{ cidr, part, format, want string }{
		"cells": {"10.96.0.0/25", "10.96.0.0/25", "jsonpath={.kind} {.items[*].cidr} {.items[0].cells[0:3].cidr}", "AddressMap 10.96.0.0/25 10.96.0.0/32 10.96.0.1/32 10.96.0.2/32"},
		"one that is allocated": {"10.96.0.0/25", "10.96.0.0/25", "jsonpath={.items[0].cells[?(@.allocated>0)]}",
			`{"allocated":1,"band":"static","cidr":"10.96.0.1/32","cooling":0,"free":0,"reserved":0} {"allocated":1,"band":"dynamic","cidr":"10.96.0.40/32","cooling":0,"free":0,"reserved":0,"wrong":true}`},
		"the network address": {"10.96.0.0/25", "10.96.0.0/32", "jsonpath={.items[0].cells}", `[{"allocated":0,"cidr":"10.96.0.0/32","cooling":0,"free":1,"reserved":0}]`},
		"cells of a /64, of which the first begins with an address of no band": {"fd00::/64", "fd00::/64", "jsonpath={.items[0].cells[0:2]}",
			`{"allocated":1,"cidr":"fd00::/75","cooling":0,"free":9007199254740991,"reserved":0} {"allocated":0,"band":"dynamic","cidr":"fd00::20:0:0:0/75","cooling":0,"free":9007199254740992,"reserved":0}`},
		"columns": {"fd00::/112", "fd00::/127", "custom-columns=CIDR:.cidr,SECOND:.cells[1].cidr", "CIDR         SECOND\nfd00::/127   fd00::1/128\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := (drawn{charts: []Chart{chartOf(t, tc.cidr, tc.part)}}).print(&b, tc.format); err != nil || b.String() != tc.want {
				t.Errorf("error %v, got\n%s\nwant\n%s", err, b.String(), tc.want)
			}
		})
	}
	var b strings.Builder
	if err := (drawn{partial: "some"}).print(&b, "yaml"); err != nil || b.String() != "items: []\nkind: AddressMap\npartial: some\n" {
		t.Errorf("error %v:\n%s", err, b.String())
	}
}

func TestHowAMapIsDrawn(t *testing.T) {
	for _, tc := range []struct{ file, format, want string }{
		{"", "", ""}, {"", "yaml", ""}, {t.TempDir() + "/map.svg", "", ""},
		{"map.svg", "json", "--svg writes a picture, and --output json prints none"}, {"", "wide", `--output "wide" is none of`}, {"/none/map.svg", "", "there is no folder /none"},
	} {
		if err := validDrawing(tc.file, tc.format); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("--svg=%s -o %s: error %v, want %q", tc.file, tc.format, err, tc.want)
		}
	}
}

func TestMapAsAPicture(t *testing.T) {
	var b strings.Builder
	if err := drawSVG(&b, []Chart{chartOf(t, "10.96.0.0/25", "10.96.0.0/25"), chartOf(t, "fd00::/64", "fd00::/64")}); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal([]byte(b.String()), &struct{}{}); err != nil {
		t.Errorf("it is no XML: %v", err)
	}
	for _, piece := range []string{`class="reserved static"`, `class="wrong"`, `class="allocated static" fill-opacity="1.00"><title>10.96.0.1-10.96.0.1: 1 allocated`} {
		if !strings.Contains(b.String(), piece) {
			t.Errorf("%s is missing", piece)
		}
	}
	if strings.Contains(b.String(), `static"><title>10.96.0.127-`) {
		t.Error("the broadcast address has a frame")
	}
	if rects := strings.Count(b.String(), "</rect>"); rects != 128+2048 {
		t.Errorf("%d cells", rects)
	}
}

func TestWhatIsDrawn(t *testing.T) {
	all := []networkingv1.ServiceCIDR{*plugintest.ServiceCIDR("one", "10.96.0.0/20"), *plugintest.ServiceCIDR("two", "fd00::/112")}
	for what, want := range map[string]string{"one": "10.96.0.0/20", "10.96.4.9/24": "10.96.4.0/24", "fd00::1:0/112": "", "10.0.0.0/8": "", "three": ""} {
		got, err := RangesToDraw(what, all)
		if want == "" != errors.Is(err, ErrNothing) || want != "" && got[0].part.String() != want {
			t.Errorf("%s: got %v, error %v; want %q", what, got, err, want)
		}
	}
}

func TestWhatMapIsAsked(t *testing.T) {
	for text, want := range map[string]string{"kubernetes": "kubernetes", "range/kubernetes": "kubernetes", "10.96.4.9/24": "10.96.4.9/24", "fd00::/64": "fd00::/64"} {
		if got, err := mapArgument(text); err != nil || got != want {
			t.Errorf("%s: %q, error %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"10.96.4.0/33": "behind the slash of an IPv4 address is a number from 0 to 32", "fd00::/129": "an IPv6 address is a number from 0 to 128", "10.96.4.0/": "not \"\"", "10.96.4.0/024": "is no CIDR",
		"10.96.4/24": "is neither a CIDR nor the name", "fe80::1%eth0/64": "is neither", "a/b": "is neither", "svc/web": "names no ServiceCIDR", "10.96.0.1": "is an address, not a CIDR; write 10.96.0.1/BITS",
	} {
		if _, err := mapArgument(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
