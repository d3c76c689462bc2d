package service

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/drift"
)

// confirmFor is how long a finding must last: a ServiceCIDR and its Services arrive on two watches.
const confirmFor = 5 * time.Second

// finding is one complaint about one entry of spec.clusterIPs.
type finding struct {
	drift drift.Type
	text  string
}

// event is what the Service is told, with the reasons of the API server's repair loop.
func (f finding) event() (reason, action, note string) {
	if f.drift == drift.Invalid {
		return "ClusterIPNotValid", "ClusterIPValidation", fmt.Sprintf("Cluster IP %q is not an IP address; create the Service anew", f.text)
	}
	if f.drift == drift.Misspelt {
		a, _ := addressindex.ParseClusterIP(f.text)
		return "ClusterIPMisspelt", "ClusterIPValidation", fmt.Sprintf("Cluster IP %s is not written as its IPAddress is named, %s: the API server deletes that IPAddress "+
			"over and over, and without it the address may be given to another Service. Delete the Service and create it anew with %s", f.text, a, a)
	}
	return "ClusterIPOutOfRange", "ClusterIPAllocation",
		fmt.Sprintf("Cluster IP %s is in no ServiceCIDR; create a ServiceCIDR that holds it, or the Service anew", f.text)
}

// decide returns the complaints about a Service, in the order of spec.clusterIPs. offered reports
// whether some ServiceCIDR has the address as a usable one.
func decide(s *corev1.Service, offered func(netip.Addr) bool) []finding {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var out []finding
	for _, text := range s.Spec.ClusterIPs {
		if text == corev1.ClusterIPNone || text == "" {
			continue
		}
		switch a, ok := addressindex.ParseClusterIP(text); {
		case !ok:
			out = append(out, finding{drift.Invalid, text})
		case !offered(a):
			out = append(out, finding{drift.OutOfRange, text})
		case text != a.String():
			out = append(out, finding{drift.Misspelt, text})
		}
	}
	return out
}

// worst is the type to track a Service under: invalid outweighs out of range, and that misspelt.
func worst(findings []finding) drift.Type {
	for _, kind := range []drift.Type{drift.Invalid, drift.OutOfRange, drift.Misspelt} {
		if slices.ContainsFunc(findings, func(f finding) bool { return f.drift == kind }) {
			return kind
		}
	}
	return drift.None
}
