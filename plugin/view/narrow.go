package view

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// Question is what a narrow view is asked about.
type Question struct {
	// Addresses are those of which Address tells.
	Addresses []netip.Addr
	// Explains: Explain is asked, too. It takes all IPAddresses, which tell what is free.
	Explains bool
}

// OpenFor reads of Services and IPAddresses what a question needs: the objects that have to do with
// its addresses, by name and by spec.clusterIP. An API server selects Services by their first
// address alone. So all Services are read, a page at a time, where none is found that has an
// address; and where one has it as its second, another that has it too is not seen, which Audit of
// a View by Open is for. What else a View tells, a narrow one does not know.
func OpenFor(ctx context.Context, c Cluster, q Question) (*View, error) {
	v, err := newView(ctx, c)
	if err != nil {
		return nil, err
	}
	if v.bitmap && q.Explains { // the addresses in use are those of Services
		return v.open(ctx, c)
	}
	v.webhook.Namespaces = c.Live
	if err := v.watch(ctx, c.Policies); err != nil {
		return nil, err
	}
	go func() { _ = v.cache.Start(ctx) }()
	if err := v.read(ctx, c, q); err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	return v, v.await(ctx, c.Policies)
}

// read reads what the question needs.
func (v *View) read(ctx context.Context, c Cluster, q Question) (err error) {
	const once = 1
	if q.Explains {
		_, _, err = v.cache.addresses.listAll(ctx, c.source(&networkingv1.IPAddressList{}, v), 0)
	}
	if err != nil {
		return err
	}
	for _, a := range q.Addresses {
		if err := v.readAddress(ctx, c.Live, a, once); err != nil {
			return err
		}
	}
	lost := slices.DeleteFunc(slices.Clone(q.Addresses), func(a netip.Addr) bool { return len(v.index.Claims(a)) > 0 })
	if len(lost) > 0 {
		list := &corev1.ServiceList{}
		err = Pages(ctx, c.Live, list, c.Page, func(p Page) error {
			c.tell("Services", p, len(list.Items))
			return v.keepClaiming(list.Items, lost, once)
		})
	}
	v.cache.addresses.synced.Store(true)
	v.cache.services.synced.Store(true)
	return err
}

// readAddress reads the IPAddress of an address, the Service that it names, and those that have the
// address as their first.
func (v *View) readAddress(ctx context.Context, live client.Reader, a netip.Addr, pass int) error {
	ip, err := objects.Get(ctx, live, types.NamespacedName{Name: a.String()}, &networkingv1.IPAddress{})
	if err != nil {
		return err
	}
	if ip != nil {
		if err := v.cache.addresses.put(ip, pass); err != nil {
			return err
		}
		if name := upstream.Service(ip); name.Name != "" {
			parent, err := objects.Get(ctx, live, name, &corev1.Service{})
			if err == nil && parent != nil {
				err = v.cache.services.put(parent, pass)
			}
			if err != nil {
				return err
			}
		}
	}
	list := &corev1.ServiceList{}
	return Pages(ctx, live, list, 0, func(Page) error {
		return v.keepClaiming(list.Items, []netip.Addr{a}, pass)
	}, client.MatchingFields{"spec.clusterIP": a.String()})
}

// keepClaiming keeps those of the Services that have one of the addresses.
func (v *View) keepClaiming(services []corev1.Service, addresses []netip.Addr, pass int) error {
	for i := range services {
		has := addressindex.ClusterIPs(&services[i])
		if !slices.ContainsFunc(has, func(a netip.Addr) bool { return slices.Contains(addresses, a) }) {
			continue
		}
		if err := v.cache.services.put(&services[i], pass); err != nil {
			return err
		}
	}
	return nil
}
