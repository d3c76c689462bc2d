package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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
	service = framework.NewService(namespace, name, framework.RequireDualStack())
	service, err = t.plane.Client().CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating Service %s/%s: %w", namespace, name, err)
	}
	t.say("      A new Service %s/%s, which asks for no address, got %s.", namespace, name, strings.Join(service.Spec.ClusterIPs, " and "))
	return service, nil
}

// createIn creates a Service, and fails unless it has an address in each range, and no other.
func (t *tour) createIn(ctx context.Context, namespace, name string, cidrs ...string) error {
	service, err := t.create(ctx, namespace, name)
	if err != nil {
		return err
	}
	return each(service.Spec.ClusterIPs, cidrs...)
}

// each fails unless an address is in each range, and no other. A range may be a single address.
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

// tenantRange gives a tenant a range, and keeps other tenants out of it.
func (t *tour) tenantRange(ctx context.Context) error {
	const tenant = "sample-tenant" // the namespace too
	if err := t.program(ctx, "config/samples/servicecidrpolicy_tenant.yaml", tenant); err != nil {
		return err
	}
	if err := t.createIn(ctx, tenant, "web", "10.114.0.0/24", "fd00:10:114::/112"); err != nil {
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
	if err := t.refusedService(ctx, "already allocated", "intruder", "10.116.0.20"); err != nil {
		return err
	}
	if _, err := t.kubectl(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	return t.createIn(ctx, namespace, name, "10.116.0.20/32", "fd00:10:116::20/128")
}

// coolDown deletes a Service in a range that is nearly full: its addresses are not given out again.
func (t *tour) coolDown(ctx context.Context) error {
	const policy, freed4, freed6 = "tour-cool-down", "10.120.0.3", "fd00:10:120::3"
	if err := t.program(ctx, "test/tour/cooldown.yaml", policy); err != nil {
		return err
	}
	if _, err := t.kubectl(ctx, "-n", samples, "delete", "service", "small-3"); err != nil {
		return err
	}
	// .6 is the only other one in 10.120.0.0/29, 6 and 7 are those in fd00:10:120::/125.
	if err := t.createIn(ctx, samples, "newcomer", "10.120.0.6/32", "fd00:10:120::6/127"); err != nil {
		return err
	}
	if err := t.showKept(ctx, v1alpha1.PurposeCooling, freed4+"/32", freed6+"/128"); err != nil {
		return err
	}
	if err := t.refusedService(ctx, "already allocated", "hasty", freed4); err != nil {
		return err
	}
	if _, err := t.kubectl(ctx, "wait", "scp", policy, "--for=jsonpath={.status.summary.cooling}=2", "--timeout=20s"); err != nil {
		return err
	}
	_, err := t.kubectl(ctx, "get", "scp")
	return err
}

// addMore gives a Service addresses beside its ClusterIPs.
func (t *tour) addMore(ctx context.Context) error {
	const service, partner = "sample-dual-stack", "sample-partner"
	if err := t.program(ctx, "config/samples/servicecidrpolicy_additional.yaml", partner); err != nil {
		return err
	}
	if _, err := t.kubectl(ctx, "-n", samples, "label", "service", service, "network=partner"); err != nil {
		return err
	}
	if _, err := t.kubectl(ctx, "-n", samples, "annotate", "service", service, v1alpha1.AnnotationAdditionalFrom+"="+partner); err != nil {
		return err
	}
	cidrs := []string{"10.122.0.0/24", "fd00:10:122::/112"}
	return t.showKept(ctx, v1alpha1.PurposeAdditional, cidrs...)
}

// showKept shows the operator's IPAddresses for a purpose, once there is just one in each range.
func (t *tour) showKept(ctx context.Context, purpose string, cidrs ...string) error {
	ours := labels.Set{networkingv1.LabelManagedBy: v1alpha1.ManagedByOperator, v1alpha1.LabelPurpose: purpose}
	var names []string
	err := eventually(ctx, "IPAddresses with the purpose "+purpose, 15*time.Second, func() (bool, error) {
		list, err := t.plane.Networking().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: ours.String()})
		if err != nil {
			return false, err
		}
		names = nil
		for _, ip := range list.Items {
			names = append(names, ip.Name)
		}
		return true, each(names, cidrs...)
	})
	if err != nil {
		return fmt.Errorf("%w (there: %v)", err, slices.Sorted(slices.Values(names)))
	}
	_, err = t.kubectl(ctx, "get", "ipaddresses", "-l", v1alpha1.LabelPurpose+"="+purpose, "-o",
		"custom-columns=ADDRESS:.metadata.name,PARENT:.spec.parentRef.resource,NAME:.spec.parentRef.name")
	return err
}
