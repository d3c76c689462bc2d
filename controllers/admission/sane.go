package admission

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// insane returns why no API server stores a Service, in words that hold nothing of the request;
// empty if one may. A mutating webhook is asked before the API server validates, so a tenant that
// may create Services can have it look at anything. What is insane is to have no effect at all.
//
// It knows as much of the API server's validation as bounds what is kept of a request: an entry in
// flight holds a name, a namespace and an address for each family. It may be more lenient than an
// API server and never stricter; TestInsaneIsWhatTheAPIServerRefuses holds both together.
func insane(s, old *service) string {
	for _, check := range []func(s, old *service) string{insaneName, insaneLabels, insaneFamilies, insaneAddresses} {
		if why := check(s, old); why != "" {
			return why
		}
	}
	return ""
}

// insaneName looks at names. Since 1.36 those of Services are labels of RFC 1123, before that of
// RFC 1035, which are some of these. An update changes no name.
func insaneName(s, old *service) string {
	m := s.Metadata
	switch {
	case !isLabel(m.Namespace):
		return "the namespace is no DNS label"
	case m.Name != "" && !isLabel(m.Name):
		return "the name is no DNS label"
	case m.Name == "" && m.GenerateName == "":
		return "there is no name"
	case old == nil && m.GenerateName != "" && !beginsLabel(m.GenerateName):
		return "generateName begins no DNS label"
	}
	return ""
}

func isLabel(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// beginsLabel reports whether a DNS label may begin so. Like the API server, it asks whether the
// prefix is a label once a letter replaces a dash at its end and what is before it.
func beginsLabel(prefix string) bool {
	if rest, dash := strings.CutSuffix(prefix, "-"); dash && rest != "" {
		prefix = rest[:len(rest)-1] + "a"
	}
	return isLabel(prefix)
}

// maxLabelKey is a DNS subdomain, a slash and a name.
const maxLabelKey = validation.DNS1123SubdomainMaxLength + 1 + validation.LabelValueMaxLength

func insaneLabels(s, _ *service) string {
	for key, value := range s.Metadata.Labels {
		if len(key) > maxLabelKey || len(value) > validation.LabelValueMaxLength {
			return "a label is too long"
		}
	}
	return ""
}

var (
	knownTypes = []corev1.ServiceType{
		"", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName,
	}
	knownPolicies = []corev1.IPFamilyPolicy{corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack}
)

func insaneFamilies(s, old *service) string {
	families := s.Spec.IPFamilies
	switch {
	case !slices.Contains(knownTypes, s.Spec.Type):
		return "the type is unknown"
	case s.Spec.IPFamilyPolicy != nil && !slices.Contains(knownPolicies, *s.Spec.IPFamilyPolicy):
		return "ipFamilyPolicy is unknown"
	case len(families) > 2 || old != nil && len(old.Spec.IPFamilies) > 2:
		return "there are more than two families"
	case slices.Contains(families, 0):
		return "a family is unknown"
	case len(families) == 2 && families[0] == families[1]:
		return "a family is there twice"
	}
	return ""
}

func insaneAddresses(s, old *service) string {
	ips := s.Spec.ClusterIPs
	if len(ips) > 2 || old != nil && len(old.Spec.ClusterIPs) > 2 {
		return "there are more than two addresses"
	}
	headless := len(ips) == 1 && ips[0].text == corev1.ClusterIPNone
	switch first := s.Spec.ClusterIP; {
	case first.text != "" && first.text != corev1.ClusterIPNone && first.malformed():
		return "clusterIP is no address"
	case !headless && slices.ContainsFunc(ips, clusterIP.malformed):
		return "clusterIPs holds what is no address"
	case len(ips) == 2 && ips[0].address.Is4() == ips[1].address.Is4():
		return "both addresses are of one family"
	case old == nil && len(ips) > 0 && first != ips[0]:
		return "clusterIP is not the first of clusterIPs"
	}
	return ""
}
