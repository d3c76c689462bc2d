package admission

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// service is what matters of a Service on its way into the cluster. A whole corev1.Service takes
// several times as long to decode, and every creation waits for this. Addresses and families are
// parsed while it is decoded; those that are malformed stay, and insane finds them.
type service struct {
	Metadata struct {
		Name         string            `json:"name"`
		GenerateName string            `json:"generateName"`
		Namespace    string            `json:"namespace"`
		Labels       map[string]string `json:"labels"`
		Annotations  map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Type           corev1.ServiceType     `json:"type"`
		ClusterIP      clusterIP              `json:"clusterIP"`
		ClusterIPs     []clusterIP            `json:"clusterIPs"`
		IPFamilies     []ipFamily             `json:"ipFamilies"`
		IPFamilyPolicy *corev1.IPFamilyPolicy `json:"ipFamilyPolicy"`
	} `json:"spec"`
}

// clusterIP is an address as it is written, and as API servers read it, also with leading zeros.
type clusterIP struct {
	text string
	// address is the zero Addr if the text is no address, None among them.
	address netip.Addr
}

// UnmarshalText implements encoding.TextUnmarshaler. What is no address is no error.
func (c *clusterIP) UnmarshalText(text []byte) error {
	c.text = string(text)
	c.address, _ = addressindex.ParseClusterIP(c.text)
	return nil
}

// malformed is true of an IPv6 address with a zone too.
func (c clusterIP) malformed() bool { return !c.address.IsValid() || c.address.Zone() != "" }

// ipFamily is the zero allocator.Family if it is unknown.
type ipFamily allocator.Family

// UnmarshalText implements encoding.TextUnmarshaler. An unknown family is no error.
func (f *ipFamily) UnmarshalText(text []byte) error {
	switch corev1.IPFamily(text) {
	case corev1.IPv4Protocol:
		*f = ipFamily(allocator.IPv4)
	case corev1.IPv6Protocol:
		*f = ipFamily(allocator.IPv6)
	default:
		*f = 0
	}
	return nil
}

// key names the Service; one whose name the API server has yet to generate has none.
func (s *service) key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Metadata.Namespace, Name: s.Metadata.Name}
}

// ips returns the addresses as the API server reads them: clusterIP counts without clusterIPs.
func (s *service) ips() []clusterIP {
	if len(s.Spec.ClusterIPs) == 0 && s.Spec.ClusterIP.text != "" {
		return []clusterIP{s.Spec.ClusterIP}
	}
	return s.Spec.ClusterIPs
}

func (s *service) needsAddress() bool {
	isNone := func(c clusterIP) bool { return c.text == corev1.ClusterIPNone }
	return s.Spec.Type != corev1.ServiceTypeExternalName && !slices.ContainsFunc(s.ips(), isNone)
}
