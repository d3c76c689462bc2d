package admission

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
)

// service is what matters of a Service on its way into the cluster. A whole corev1.Service takes several times as long to decode, and every
// creation waits for this.
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
		ClusterIP      string                 `json:"clusterIP"`
		ClusterIPs     []string               `json:"clusterIPs"`
		IPFamilies     []corev1.IPFamily      `json:"ipFamilies"`
		IPFamilyPolicy *corev1.IPFamilyPolicy `json:"ipFamilyPolicy"`
	} `json:"spec"`
}

// decode reads the Service of a request, and the one that it replaces; old is nil for a creation.
func decode(req admission.Request) (s, old *service, err error) {
	s = &service{}
	if err := json.Unmarshal(req.Object.Raw, s); err != nil {
		return nil, nil, fmt.Errorf("reading the Service of the request: %w", err)
	}
	s.Metadata.Namespace = req.Namespace
	if req.Operation != admissionv1.Update {
		return s, nil, nil
	}
	old = &service{}
	if err := json.Unmarshal(req.OldObject.Raw, old); err != nil {
		return nil, nil, fmt.Errorf("reading the Service before the request: %w", err)
	}
	return s, old, nil
}

// key names the Service; one whose name the API server has yet to generate has none.
func (s *service) key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Metadata.Namespace, Name: s.Metadata.Name}
}

// ips returns the addresses as the API server will read them: clusterIP counts where clusterIPs is left out.
func (s *service) ips() []string {
	if len(s.Spec.ClusterIPs) == 0 && s.Spec.ClusterIP != "" {
		return []string{s.Spec.ClusterIP}
	}
	return s.Spec.ClusterIPs
}

// keeps returns the addresses that the Service will have without anybody drawing one: those of the request, or else those that it has. An old client
// that knows only clusterIP sends back the first of two; the API server takes both from the Service as it is.
func keeps(s, old *service) []string {
	if old != nil && old.needsAddress() && len(s.Spec.ClusterIPs) == 0 {
		return old.ips()
	}
	return s.ips()
}

// needsAddress reports whether a Service of this kind has addresses at all.
func (s *service) needsAddress() bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && !slices.Contains(s.ips(), corev1.ClusterIPNone)
}

// chosen returns the addresses that the request names and that the Service did not have before.
func chosen(s, old *service) []netip.Addr {
	var before []netip.Addr
	if old != nil && old.needsAddress() {
		before, _ = parseAll(old.ips())
	}
	now, _ := parseAll(keeps(s, old))
	return slices.DeleteFunc(now, func(a netip.Addr) bool { return slices.Contains(before, a) })
}

// parseAll reads addresses as API servers do, with leading zeros too, and whether all of them are some. What is none is the API server's to
// refuse.
func parseAll(texts []string) (all []netip.Addr, ok bool) {
	ok = true
	for _, text := range texts {
		a, valid := addressindex.ParseClusterIP(text)
		if ok = ok && valid; valid {
			all = append(all, a)
		}
	}
	return all, ok
}
