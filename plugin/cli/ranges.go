package cli

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// ValidRange returns an error if a text of a flag can name no range.
func ValidRange(flag, text string) error {
	if _, err := allocator.ParseRange(text); text == "" || strings.Contains(text, "/") && err != nil {
		return fmt.Errorf("%s: %.300q is neither the name of a ServiceCIDR nor a CIDR, such as 10.96.0.0/24", flag, text)
	}
	return nil
}

// NamedRanges are those of ServiceCIDRs that a flag names, and CIDRs, which need be none's.
func NamedRanges(flag string, names []string, cidrs []networkingv1.ServiceCIDR) (out []allocator.Range, err error) {
	for _, name := range names {
		texts := []string{name}
		if i := slices.IndexFunc(cidrs, func(c networkingv1.ServiceCIDR) bool { return c.Name == name }); i >= 0 {
			texts = cidrs[i].Spec.CIDRs
		} else if !strings.Contains(name, "/") {
			return nil, fmt.Errorf("%s: there is no ServiceCIDR %s", flag, name)
		}
		for _, text := range texts {
			r, err := allocator.ParseRange(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", flag, err)
			}
			out = append(out, r)
		}
	}
	return out, nil
}
