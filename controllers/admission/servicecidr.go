package admission

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
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

// ServiceCIDRGuard looks at new ranges while they hold no addresses and are easy to move. It is
// safe for concurrent use, and where it lacks information it lets the request pass.
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

// Handle implements admission.Handler.
func (g *ServiceCIDRGuard) Handle(ctx context.Context, req admission.Request) admission.Response {
	if trusted(req, g.Username) || !g.Index.Synced() {
		return admission.Allowed("")
	}
	added, err := addedPrefixes(req.AdmissionRequest)
	refusal, warnings := guardServiceCIDR(g.Mode, added, g.Index.Overlaps(added, g.Networks))
	return respond(ctx, refusal, warnings, err)
}

// addedPrefixes returns the ranges that a request adds. The API server refuses what is no prefix.
func addedPrefixes(req admissionv1.AdmissionRequest) (added []netip.Prefix, err error) {
	before, after, err := objectsOf[networkingv1.ServiceCIDR](req)
	if err != nil || after == nil {
		return nil, err
	}
	for _, text := range after.Spec.CIDRs {
		p, err := netip.ParsePrefix(text)
		if err == nil && (before == nil || !slices.Contains(before.Spec.CIDRs, text)) {
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
