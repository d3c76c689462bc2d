// Package plugintest is what the tests of several commands share. Only tests import it.
package plugintest

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// Printed is what a command wrote.
type Printed struct{ Out, Err bytes.Buffer }

// Streams returns the streams of a command that writes there.
func (p *Printed) Streams() cli.Streams { return cli.Streams{Out: &p.Out, ErrOut: &p.Err} }

// MustPrint compares what a command wrote with what it should. A line break may come before that,
// so that a raw string begins on a line of its own.
func MustPrint(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

// Found returns a finding about an address, "" for none.
func Found(k migration.Kind, address string, objects ...string) migration.Finding {
	f := migration.Finding{Kind: k, Objects: objects, Means: "what follows from " + string(k) + ".", Plan: "do something"}
	if address != "" {
		f.Address = netip.MustParseAddr(address)
	}
	return f
}

// Now is the time at which a command looks at a ServiceCIDR.
var Now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// ServiceCIDR returns one that is ready and three days old.
func ServiceCIDR(name, cidr string, conditions ...metav1.Condition) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(Now.AddDate(0, 0, -3))},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}},
		Status: networkingv1.ServiceCIDRStatus{Conditions: append(conditions,
			metav1.Condition{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue})},
	}
}
