package ipset

import (
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func ip(addr string) Entry { return Entry{Addr: netip.MustParseAddr(addr)} }

func port(addr string, p model.Protocol, number uint16) Entry {
	return Entry{Addr: netip.MustParseAddr(addr), Protocol: p, Port: number}
}

func from(e Entry, source string) Entry {
	e.Source = netip.MustParsePrefix(source)
	return e
}

func TestEntryString(t *testing.T) {
	web := port("10.96.0.1", model.TCP, 80)
	for want, entry := range map[string]Entry{
		"fd00::1":                     ip("fd00::1"),
		"30080":                       {Port: 30080},
		"10.96.0.1,TCP:80":            web,
		"10.96.0.1,TCP:80,10.0.0.9":   from(web, "10.0.0.9/32"),
		"10.96.0.1,TCP:80,10.0.0.0/8": from(web, "10.0.0.0/8"),
	} {
		if got := entry.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
