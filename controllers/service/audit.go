package service

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Finding is what is wrong with one entry of spec.clusterIPs. Only people can help.
type Finding struct {
	Service types.NamespacedName
	// Drift is the type, as the metric clusterip_operator_drift has it.
	Drift string
	// Text is the entry, which may be no address.
	Text, Note string
}

// Judge says what is wrong with a Service. offered: some ServiceCIDR has the address as usable.
func Judge(s *corev1.Service, offered func(netip.Addr) bool) (all []Finding) {
	for _, f := range decide(s, offered) {
		_, _, note := f.event()
		all = append(all, Finding{types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, string(f.drift), f.text, note})
	}
	return all
}
