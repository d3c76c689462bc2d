package console

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// The stages of a Service whose addresses renumbering holds, in the words of `renumber status`.
const (
	waiting = "Waiting" // it still has the address that is held
	between = "Between" // it is of type ExternalName for a moment
	moved   = "Moved"   // it has other addresses; the former ones are kept for it
	gone    = "Gone"    // it was deleted
)

// renumbering is a Service that is being moved, or for which former addresses are kept.
type renumbering struct {
	Service string `json:"service"`
	Stage   string `json:"stage"`
	// Now are its ClusterIPs, Held the addresses that no other Service can be given.
	Now  []string `json:"now"`
	Held []held   `json:"held"`
}

// held is an address that renumbering holds. Since is when the API server let go of it, in seconds;
// 0 before.
type held struct {
	Address string `json:"address"`
	Since   int64  `json:"since,omitempty"`
}

func (d *data) renumberings(ctx context.Context, _ url.Values) (any, error) {
	services, ips := &corev1.ServiceList{}, &networkingv1.IPAddressList{}
	if err := d.view.List(ctx, services); err != nil {
		return nil, fmt.Errorf("reading Services: %w", err)
	}
	if err := d.view.List(ctx, ips); err != nil {
		return nil, fmt.Errorf("reading IPAddresses: %w", err)
	}
	return renumberings(services.Items, ips.Items), nil
}

// renumberings are those in progress, by what IPAddresses say: the owner of a Service, who may
// write anything into its annotations, writes none.
func renumberings(services []corev1.Service, ips []networkingv1.IPAddress) []renumbering {
	all := map[types.NamespacedName][]held{}
	for i := range ips {
		if a, err := netip.ParseAddr(ips[i].Name); err == nil && upstream.HeldAsFormer(&ips[i]) {
			one := held{Address: a.String()}
			if at := ips[i].DeletionTimestamp; at != nil {
				one.Since = at.Unix()
			}
			name := upstream.Service(&ips[i])
			all[name] = append(all[name], one)
		}
	}
	out := []renumbering{}
	for i := range services {
		name := types.NamespacedName{Namespace: services[i].Namespace, Name: services[i].Name}
		if has := all[name]; len(has) > 0 {
			out = append(out, newRenumbering(name, stageOf(&services[i], has), services[i].Spec.ClusterIPs, has))
			delete(all, name)
		}
	}
	for name, has := range all {
		out = append(out, newRenumbering(name, gone, nil, has))
	}
	slices.SortFunc(out, func(a, b renumbering) int { return cmp.Compare(a.Service, b.Service) })
	return out
}

func newRenumbering(name types.NamespacedName, stage string, now []string, has []held) renumbering {
	slices.SortFunc(has, func(a, b held) int { return cmp.Compare(a.Address, b.Address) })
	return renumbering{Service: name.String(), Stage: stage, Now: append([]string{}, now...), Held: has}
}

func stageOf(s *corev1.Service, has []held) string {
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return between
	case slices.ContainsFunc(has, func(h held) bool { return slices.Contains(s.Spec.ClusterIPs, h.Address) }):
		return waiting
	default:
		return moved
	}
}
