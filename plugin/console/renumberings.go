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
	all := heldFor{}
	err := d.view.EachIPAddress(ctx, func(ip *networkingv1.IPAddress) error {
		all.note(ip)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading IPAddresses: %w", err)
	}
	return all.renumberings(func(name types.NamespacedName) (*corev1.Service, error) { return d.view.Service(ctx, name) })
}

// heldFor are the addresses that renumbering holds, by Service.
type heldFor map[types.NamespacedName][]held

// note notes an IPAddress, if it is one of those.
func (all heldFor) note(ip *networkingv1.IPAddress) {
	a, err := netip.ParseAddr(ip.Name)
	if err != nil || !upstream.HeldAsFormer(ip) {
		return
	}
	one := held{Address: a.String()}
	if at := ip.DeletionTimestamp; at != nil {
		one.Since = at.Unix()
	}
	name := upstream.Service(ip)
	all[name] = append(all[name], one)
}

// renumberings are those in progress, by what IPAddresses say: the owner of a Service, who may
// write anything into its annotations, writes none. read returns a Service, nil if it is gone.
func (all heldFor) renumberings(read func(types.NamespacedName) (*corev1.Service, error)) ([]renumbering, error) {
	out := []renumbering{}
	for name, has := range all {
		s, err := read(name)
		switch {
		case err != nil:
			return nil, err
		case s == nil:
			out = append(out, newRenumbering(name, gone, nil, has))
		default:
			out = append(out, newRenumbering(name, stageOf(s, has), s.Spec.ClusterIPs, has))
		}
	}
	slices.SortFunc(out, func(a, b renumbering) int { return cmp.Compare(a.Service, b.Service) })
	return out, nil
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
