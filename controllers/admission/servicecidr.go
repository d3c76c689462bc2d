package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
)

// OverlapMode says what is done about a ServiceCIDR that overlaps a node, pod or declared network.
type OverlapMode string

const (
	// OverlapWarn accepts the ServiceCIDR, and the user sees a warning.
	OverlapWarn OverlapMode = "Warn"
	// OverlapDeny refuses it.
	OverlapDeny OverlapMode = "Deny"
	// OverlapIgnore accepts it without a word.
	OverlapIgnore OverlapMode = "Ignore"
)

// ServiceCIDRGuard looks at new ranges before there are addresses in them: to move them is easy then. It is safe for concurrent use, and
// where it lacks information it lets the request pass.
type ServiceCIDRGuard struct {
	// Mode is OverlapIgnore if it is none of the three.
	Mode OverlapMode
	// Index knows the networks of nodes.
	Index *addressindex.Index
	// Networks are declared by the operator's configuration as used by something else.
	Networks []addressindex.Network
	// Username is the operator's own.
	Username string
}

var _ admission.Handler = (*ServiceCIDRGuard)(nil)

// Handle implements admission.Handler.
func (g *ServiceCIDRGuard) Handle(ctx context.Context, req admission.Request) admission.Response {
	if trusted(req.AdmissionRequest, g.Username) || !g.Index.Synced() {
		return admission.Allowed("")
	}
	added, err := addedPrefixes(req.AdmissionRequest)
	if err != nil {
		log.FromContext(ctx).Error(err, "Letting a ServiceCIDR pass unseen", "serviceCIDR", req.Name, "user", req.UserInfo.Username)
		return admission.Allowed("")
	}
	if len(added) == 0 {
		return admission.Allowed("")
	}
	refusal, warnings := guardServiceCIDR(g.Mode, added, g.Index.Overlaps(added, g.Networks))
	if refusal != "" {
		return admission.Denied(refusal)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// addedPrefixes returns the ranges that a creation or a change adds. What is no prefix is the API server's to refuse.
func addedPrefixes(req admissionv1.AdmissionRequest) ([]netip.Prefix, error) {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return nil, nil
	}
	var before, now networkingv1.ServiceCIDR
	if err := json.Unmarshal(req.Object.Raw, &now); err != nil {
		return nil, fmt.Errorf("reading the ServiceCIDR of the request: %w", err)
	}
	if req.Operation == admissionv1.Update {
		if err := json.Unmarshal(req.OldObject.Raw, &before); err != nil {
			return nil, fmt.Errorf("reading the ServiceCIDR before the request: %w", err)
		}
	}
	var added []netip.Prefix
	for _, text := range now.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil && !slices.Contains(before.Spec.CIDRs, text) {
			added = append(added, p.Masked())
		}
	}
	return added, nil
}

// networksShown bounds what is named: a range may overlap every node.
const networksShown = 5

// guardServiceCIDR returns why ranges are refused, or what the user is warned of.
func guardServiceCIDR(mode OverlapMode, prefixes []netip.Prefix, networks []addressindex.Network) (refusal string, warnings []string) {
	if len(networks) == 0 || mode != OverlapWarn && mode != OverlapDeny {
		return "", nil
	}
	var overlaps []string
	for _, n := range networks[:min(len(networks), networksShown)] {
		i := slices.IndexFunc(prefixes, n.Prefix.Overlaps)
		if i >= 0 {
			overlaps = append(overlaps, fmt.Sprintf("%s overlaps %s (%s)", prefixes[i], n.Prefix, n.Owner))
		}
	}
	if len(overlaps) == 0 {
		return "", nil // networks of other prefixes
	}
	if more := len(networks) - networksShown; more > 0 {
		overlaps = append(overlaps, fmt.Sprintf("and %d more networks", more))
	}
	if mode == OverlapDeny {
		return strings.Join(overlaps, ", ") + "; traffic to these addresses may be taken for Service traffic: choose another range", nil
	}
	overlaps[0] = "traffic to other networks may be taken for Service traffic: " + overlaps[0]
	return "", overlaps
}
