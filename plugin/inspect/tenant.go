package inspect

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/nodeports"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// A user who names a namespace and may not list the cluster is answered by the Services of that
// namespace alone. What cannot be told without ranges and policies is said, and not asked for.

// unread is what such a user does not read.
const unread = "ServiceCIDRs, IPAddresses and policies, which you may not list (the ClusterRole clusterip-operator-view has the rights)"

// tenantOf reports whether a user who names a namespace has to be answered by it alone.
func tenantOf(ctx context.Context, s *cli.Cluster, namespace string) (bool, error) {
	if namespace == "" {
		return false, nil
	}
	all, err := s.MayList(ctx)
	return !all, err
}

// openFor opens the cluster, and answers as tenantOf does.
func openFor(ctx context.Context, a *cli.Session, namespace string) (s *cli.Cluster, own bool, err error) {
	if s, err = a.Open(); err == nil {
		own, err = tenantOf(ctx, s, namespace)
	}
	return s, own, err
}

// ownAddresses are the ClusterIPs of the Services of a namespace, in order.
func ownAddresses(ctx context.Context, s *cli.Cluster, namespace string) (all []view.Address, err error) {
	list := &corev1.ServiceList{}
	err = s.EachPage(ctx, list, "Services of namespace "+namespace, func() { all = nil }, func() error {
		all = append(all, claimed(list.Items)...)
		return nil
	}, client.InNamespace(namespace))
	slices.SortFunc(all, func(a, b view.Address) int { return a.Address.Compare(b.Address) })
	return all, err
}

// claimed are the ClusterIPs of Services.
func claimed(services []corev1.Service) (all []view.Address) {
	for i := range services {
		for _, text := range services[i].Spec.ClusterIPs {
			if a, err := netip.ParseAddr(text); err == nil { // headless, or misspelt
				all = append(all, view.Address{Address: a, State: allocator.Allocated.String(), Services: []string{client.ObjectKeyFromObject(&services[i]).String()}})
			}
		}
	}
	return all
}

// tellable returns an error if a filter asks for what Services do not tell.
func (f *filter) tellable() error {
	for _, row := range []struct{ flag, value string }{{"--range", f.serviceCIDR}, {"--band", f.band}, {"--policy", f.policy}} {
		if row.value != "" {
			return fmt.Errorf("%s needs %s", row.flag, unread)
		}
	}
	return nil
}

func printOwnAddresses(ctx context.Context, a *cli.Session, s *cli.Cluster, f filter, out cli.Output) error {
	if err := f.tellable(); err != nil {
		return err
	}
	all, err := ownAddresses(ctx, s, f.namespace)
	if err != nil {
		return err
	}
	cli.Write(a.ErrOut, "These are the ClusterIPs of Services; more is told by %s\n", unread)
	list, err := newAddressList(a, out)
	for _, one := range all {
		if err == nil && f.matches(one) {
			err = addAddress(list, one, time.Now(), "<unknown>")
		}
	}
	if err != nil {
		return err
	}
	return list.End()
}

// ownAnswer is what `why` tells of a subject by the Services of a namespace.
func ownAnswer(ctx context.Context, s *cli.Cluster, namespace string, of cli.Subject, ports nodeports.Range) (out Answer, err error) {
	switch of.Kind {
	case cli.KindService:
		service := &corev1.Service{}
		err = s.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, service)
		if out.Missing = apierrors.IsNotFound(err); err != nil && !out.Missing {
			return out, fmt.Errorf("reading Service %s/%s: %w", of.Namespace, of.Name, err)
		}
		out.Addresses, err = claimed([]corev1.Service{*service}), nil
	case cli.KindAddress:
		out.Addresses, err = ownAddresses(ctx, s, namespace)
		out.Addresses = slices.DeleteFunc(out.Addresses, func(a view.Address) bool { return a.Address.String() != of.Name })
	case cli.KindNamespace:
		if of.Name == namespace {
			out.Addresses, err = ownAddresses(ctx, s, namespace)
		}
	case cli.KindNodePort:
		out.NodePort, err = whyNodePort(ctx, s, of.Name, namespace, ports)
	default:
		return out, fmt.Errorf("%s %s: only users may read it who may list the cluster: ask for the ClusterRole clusterip-operator-view", of.Kind, of.Name)
	}
	out.Partial = "What a new Service would get, and who else has an address, follows from " + unread +
		". `kubectl create --dry-run=server` has the webhook decide about a Service, and stores nothing."
	return out, err
}

// describePartial prints an answer of ownAnswer.
func (o Answer) describePartial(w io.Writer) {
	if o.NodePort != nil {
		o.NodePort.describe(w, true)
		return
	}
	for _, a := range o.Addresses {
		cli.Write(w, "%s is %s\n", a.Address, stateOf(a))
	}
	switch {
	case o.Missing:
		cli.Write(w, "There is no such Service.\n")
	case len(o.Addresses) == 0:
		cli.Write(w, "No Service of yours has an address to tell of here.\n")
	}
	cli.Write(w, "%s\n", o.Partial)
}

// servicesOf are the Services that have an address.
func servicesOf(a view.Address) (all []client.ObjectKey) {
	for _, text := range a.Services {
		namespace, name, _ := strings.Cut(text, "/")
		all = append(all, client.ObjectKey{Namespace: namespace, Name: name})
	}
	return all
}

// ownCharts draws a CIDR with the addresses of a namespace alone, without bands.
func ownCharts(ctx context.Context, s *cli.Cluster, namespace, what string) ([]Chart, error) {
	part, err := netip.ParsePrefix(what)
	if err != nil {
		return nil, fmt.Errorf("give a CIDR instead of %s: where ServiceCIDRs are is told by %s", what, unread)
	}
	all, err := ownAddresses(ctx, s, namespace)
	if err != nil {
		return nil, err
	}
	pool := allocator.NewPool()
	for _, a := range all {
		pool.Observe(a.Address, allocator.Allocated)
	}
	return []Chart{NewChart(Part{part: part.Masked()}, mapBits, pool.Usage, nil)}, nil
}
