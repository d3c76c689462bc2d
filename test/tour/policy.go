package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// program applies a file with a ServiceCIDRPolicy, and waits until the policy is in force.
func (t *tour) program(ctx context.Context, file, policy string) error {
	if err := t.apply(ctx, "-f", file); err != nil {
		return err
	}
	_, err := t.kubectl(ctx, "wait", "scp", policy, "--for=condition="+v1alpha1.PolicyProgrammed, "--timeout=20s")
	return err
}

// create creates a Service of both families that leaves the choice of its addresses to the cluster.
func (t *tour) create(ctx context.Context, namespace, name string) (service *corev1.Service, err error) {
	service, err = t.plane.Client().CoreV1().Services(namespace).Create(ctx, framework.NewService(namespace, name, framework.RequireDualStack()), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating Service %s/%s: %w", namespace, name, err)
	}
	t.say("      A new Service %s/%s, which asks for no address, got %s.", namespace, name, strings.Join(service.Spec.ClusterIPs, " and "))
	return service, nil
}

// each fails unless there is an address in each of the ranges, and no other. A range may be a single address.
func each(addresses []string, cidrs ...string) error {
	for _, cidr := range cidrs {
		if !slices.ContainsFunc(addresses, func(a string) bool { return inside(a, cidr) }) {
			return fmt.Errorf("want an address of %s, got %v", cidr, addresses)
		}
	}
	if len(addresses) != len(cidrs) {
		return fmt.Errorf("want addresses of %v and no others, got %v", cidrs, addresses)
	}
	return nil
}

// inside reports whether what may be an address lies in a range.
func inside(address, cidr string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && netip.MustParsePrefix(cidr).Contains(a)
}

// tenantRange gives a tenant a range, and keeps others out of it.
func (t *tour) tenantRange(ctx context.Context) error {
	const tenant = "sample-tenant" // the namespace too
	if err := t.program(ctx, "config/samples/servicecidrpolicy_tenant.yaml", tenant); err != nil {
		return err
	}
	service, err := t.create(ctx, tenant, "web")
	if err != nil {
		return err
	}
	if err := each(service.Spec.ClusterIPs, "10.114.0.0/24", "fd00:10:114::/112"); err != nil {
		return err
	}
	return t.refusedService(ctx, `ServiceCIDRPolicy "`+tenant+`"`, "intruder", "10.114.0.200")
}

// reserve keeps addresses for a Service that does not exist yet.
func (t *tour) reserve(ctx context.Context) error {
	const namespace, name = "shop", "gateway"
	if err := t.program(ctx, "config/samples/servicecidrpolicy_reservations.yaml", "sample-reservations"); err != nil {
		return err
	}
	if err := t.refusedService(ctx, "for Service "+namespace+"/"+name, "intruder", "10.116.0.20"); err != nil {
		return err
	}
	if _, err := t.kubectl(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	service, err := t.create(ctx, namespace, name)
	if err != nil {
		return err
	}
	return each(service.Spec.ClusterIPs, "10.116.0.20/32", "fd00:10:116::20/128")
}
