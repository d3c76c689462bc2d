//go:build linux

package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/cmd/proxyagent-trace/trace"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func TestMistakesOnTheCommandLine(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"nothing":             {nil, "accepts 2 arg"},
		"from nowhere":        {[]string{"here", "10.0.0.1:80"}, `SRC "here": it has to be an address, or the word node`},
		"to no port":          {[]string{"node", "10.0.0.1"}, `DST "10.0.0.1"`},
		"an unknown protocol": {[]string{"node", "10.0.0.1:1", "--protocol", "icmp"}, `--protocol "icmp": it has to be tcp, udp or sctp`},
	} {
		root := newRoot()
		root.SetArgs(tc.args)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want …%s…", name, err, tc.want)
		}
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[[3]string]trace.Options{
		{"node", "10.0.0.1:80", "tcp"}:     {Dst: netip.MustParseAddrPort("10.0.0.1:80"), Protocol: model.TCP},
		{"fd00::7", "[fd00::1]:53", "udp"}: {Src: netip.MustParseAddr("fd00::7"), Dst: netip.MustParseAddrPort("[fd00::1]:53"), Protocol: model.UDP},
	} {
		got, err := traceOptions(args[0], args[1], args[2])
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); err != nil || diff != "" {
			t.Errorf("%v: %v (-want +got):\n%s", args, err, diff)
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs([]string{"--help"})
	root.SetOut(&out)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"SRC DST:PORT", "--protocol", "tcp, udp or sctp", "--in-interface"} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("%q is missing in\n%s", word, &out)
		}
	}
}
