package steering

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// MaxFrom is how many ServiceCIDRs one Service may name in v1alpha1.AnnotationAdditionalFrom.
const MaxFrom = 8

// ParseFrom reads the value of v1alpha1.AnnotationAdditionalFrom: names of ServiceCIDRs, separated by commas, in the order in which
// they stand there. Blanks around a name do not matter, and a value of nothing but blanks names none. The error is for
// people and says what is wrong with the first thing that is; there are no names then.
func ParseFrom(annotation string) ([]string, error) {
	if strings.TrimSpace(annotation) == "" {
		return nil, nil
	}
	var names []string
	for part := range strings.SplitSeq(annotation, ",") {
		name := strings.TrimSpace(part)
		switch {
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			return nil, fmt.Errorf("%q is no name of a ServiceCIDR", shortened(name))
		case slices.Contains(names, name):
			return nil, fmt.Errorf("it names ServiceCIDR %q twice", name)
		case len(names) == MaxFrom:
			return nil, fmt.Errorf("it names more than %d ServiceCIDRs", MaxFrom)
		}
		names = append(names, name)
	}
	return names, nil
}

// shortened keeps a piece of an annotation, which may have 256 KiB, fit for a message.
func shortened(text string) string {
	const limit = 64
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// AdditionalRequest is what a Service asks for beside its ClusterIPs. The zero value asks for nothing.
type AdditionalRequest struct {
	// From are the ServiceCIDRs that an address is wanted from.
	From []string
	// IPv4 and IPv6 are the families that the Service has: one address of each is wanted from each ServiceCIDR that offers it.
	IPv4, IPv6 bool
	// Junk says why the annotation cannot be read; From is empty then.
	Junk error
}

// AdditionalRequestOf reads the wish of a Service. Headless and ExternalName Services have no address of their own, so they get no
// additional one whatever they ask for.
func AdditionalRequestOf(s *corev1.Service) AdditionalRequest {
	if s.Spec.Type == corev1.ServiceTypeExternalName || slices.Contains(s.Spec.ClusterIPs, corev1.ClusterIPNone) {
		return AdditionalRequest{}
	}
	w := AdditionalRequest{
		IPv4: slices.Contains(s.Spec.IPFamilies, corev1.IPv4Protocol),
		IPv6: slices.Contains(s.Spec.IPFamilies, corev1.IPv6Protocol),
	}
	w.From, w.Junk = ParseFrom(s.Annotations[v1alpha1.AnnotationAdditionalFrom])
	return w
}

// Keeps reports whether a Service with this wish may keep an address of the family that it was given from the ServiceCIDR.
// While the annotation cannot be read it keeps what it has: a slip of the pen takes nothing out of service.
func (w AdditionalRequest) Keeps(serviceCIDR string, is4 bool) bool {
	return w.has(is4) && (w.Junk != nil || slices.Contains(w.From, serviceCIDR))
}

// Families returns the families of the Service, true for IPv4, in this order.
func (w AdditionalRequest) Families() []bool {
	return slices.DeleteFunc([]bool{true, false}, func(is4 bool) bool { return !w.has(is4) })
}

func (w AdditionalRequest) has(is4 bool) bool {
	if is4 {
		return w.IPv4
	}
	return w.IPv6
}
