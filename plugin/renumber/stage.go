package renumber

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// Stage is how far a Service is.
type Stage string

// The stages, in their order.
const (
	Waiting Stage = "Waiting" // has its old addresses
	Between Stage = "Between" // is of type ExternalName for a moment
	Moved   Stage = "Moved"   // has its new addresses, and the old ones are still kept for it
	Done    Stage = "Done"    // has its new addresses alone
	Left    Stage = "Left"    // its owner has changed or deleted it: it is left as it is
)

// Standing is how far a Service of a plan is.
type Standing struct {
	Item
	Stage Stage `json:"stage"`
	// Why a Service is left.
	Why string `json:"why,omitempty"`
	// Seconds are the second Services that keep addresses for it.
	Seconds []string `json:"secondServices,omitempty"`
}

// StandingOf says how far a Service of a plan is; s is nil for one that does not exist.
func StandingOf(i Item, s *corev1.Service) Standing {
	stage, why := stageOf(i, s)
	return Standing{Item: i, Stage: stage, Why: why}
}

// stageOf says how far a Service is, nil for one that does not exist, and of one that is left why.
func stageOf(i Item, s *corev1.Service) (Stage, string) {
	switch {
	case s == nil:
		return Left, "it was deleted"
	case s.UID != i.UID:
		return Left, "it was deleted, and another one of its name was created"
	case !s.DeletionTimestamp.IsZero():
		return Left, "it is being deleted"
	}
	switch was, err := underway(i, s); {
	case err != nil:
		return Left, err.Error()
	case was != nil:
		return Between, ""
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return Left, "its owner has made it an ExternalName"
	}
	switch now := addresses(s); {
	case slices.Equal(now, i.New) && len(former(s)) > 0:
		return Moved, ""
	case slices.Equal(now, i.New):
		return Done, ""
	case slices.Equal(now, i.Old):
		return Waiting, ""
	default:
		return Left, fmt.Sprintf("it has other addresses than the plan knows: %s", texts(now))
	}
}

// addresses are spec.clusterIPs, none of a headless Service.
func addresses(s *corev1.Service) []netip.Addr { return parse(s.Spec.ClusterIPs) }

// former are the addresses that a Service says it had before. Its owner may write there what it
// likes: they are kept for it as far as their IPAddresses say the same (keptFor).
func former(s *corev1.Service) []netip.Addr {
	parts := strings.SplitN(s.Annotations[v1alpha1.AnnotationFormerIPs], ",", steering.MaxFormer+1)
	return parse(parts[:min(len(parts), steering.MaxFormer)])
}

// keptFor reports whether renumbering keeps the address of an IPAddress for a Service, or is about
// to. No owner of a Service may write IPAddresses. A former address has no UID before renumbering
// has written it: then its Service was there when the API server let go of it.
func keptFor(ip *networkingv1.IPAddress, s *corev1.Service) bool {
	if ip == nil || !held(ip) || !ofService(ip, nameOf(s)) {
		return false
	}
	if uid := ip.Annotations[v1alpha1.AnnotationServiceUID]; uid != "" {
		return uid == string(s.UID)
	}
	return ip.DeletionTimestamp.IsZero() || !s.CreationTimestamp.After(ip.DeletionTimestamp.Time)
}

func parse(all []string) (out []netip.Addr) {
	for _, text := range all {
		if a, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// texts are addresses as an annotation has them.
func texts(all []netip.Addr) string { return strings.Join(strs(all), ",") }

func strs(all []netip.Addr) (out []string) {
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}
