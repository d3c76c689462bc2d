package service

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/drift"
)

// confirmFor is how long a finding must last: a ServiceCIDR and the Services inside it arrive on two watches.
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
	return "ClusterIPOutOfRange", "ClusterIPAllocation",
		fmt.Sprintf("Cluster IP %s is in no ServiceCIDR; create a ServiceCIDR that holds it, or the Service anew", f.text)
}

// decide returns the complaints about a Service, in the order of spec.clusterIPs. offered reports whether some
// ServiceCIDR has the address as a usable one.
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
		}
	}
	return out
}

// worst is the type under which a Service is tracked: an invalid entry outweighs one out of range.
func worst(findings []finding) drift.Type {
	worst := drift.None
	for _, f := range findings {
		if worst == drift.None || f.drift == drift.Invalid {
			worst = f.drift
		}
	}
	return worst
}
