package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// printed is what a command wrote.
type printed struct{ out, err bytes.Buffer }

func (p *printed) streams() streams { return streams{Out: &p.out, ErrOut: &p.err} }

// command runs a command line in a place without any cluster.
func command(t *testing.T, args ...string) (code int, p *printed) {
	t.Helper()
	t.Setenv("KUBECONFIG", "/dev/null")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	p = &printed{}
	root := newRoot(p.streams())
	root.SetArgs(args)
	return exitCode(root.ExecuteContext(t.Context()), p.streams()), p
}

func mustPrint(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// found is a finding about an address.
func found(k migration.Kind, address string, objects ...string) migration.Finding {
	f := migration.Finding{Kind: k, Objects: objects, Means: "what follows from " + string(k) + ".", Plan: "do something"}
	if address != "" {
		f.Address = addr(address)
	}
	return f
}
