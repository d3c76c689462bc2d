package steering

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// selectingLabel is the label of Services that policies select.
const selectingLabel = "bench.example.com/policy"

// crowdLabel is that of policies and ranges that are there in numbers.
const crowdLabel = "bench.example.com/crowd"

// createPolicies makes n policies. The last and least selects all, the rest namespaces that do not
// exist; all share a permanent range. With ranges, each has its own and selects such a namespace.
func (e *environment) createPolicies(ctx context.Context, n int, ranges bool) error {
	return e.all(n, func(ctx context.Context, i int) error {
		p := newPolicy(fmt.Sprintf("crowd-%05d", i), v1alpha1.DefaultServiceCIDR)
		p.Labels, p.Spec.Priority = map[string]string{crowdLabel: "yes"}, int32(n-i)
		if ranges || i < n-1 {
			p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": p.Name}}
		}
		if ranges {
			p.Spec.ServiceCIDRs, p.Spec.Exclusive = []string{p.Name}, true
			// Without webhooks the API server also draws from these ranges, and would refuse the result.
			p.Spec.Enforcement = v1alpha1.EnforcementWebhook
		}
		return e.client.Create(ctx, p)
	})(ctx)
}

// waitSteered waits until a Service goes by the i-th policy that has a range of its own.
func (e *environment) waitSteered(ctx context.Context, i int) error {
	namespace := &corev1.Namespace{}
	namespace.Name, namespace.Labels = "steered", map[string]string{"tenant": fmt.Sprintf("crowd-%05d", i)}
	if _, err := e.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	v4, _ := crowdRanges(i)
	return e.until(ctx, "a Service in "+v4.String(), func(ctx context.Context) (bool, error) {
		services := e.Client.CoreV1().Services(namespace.Name)
		service, err := services.Create(ctx, framework.NewService(namespace.Name, "probe"), metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("creating a Service: %w", err)
		}
		if err := services.Delete(ctx, service.Name, metav1.DeleteOptions{}); err != nil {
			return false, fmt.Errorf("deleting a Service: %w", err)
		}
		address, err := netip.ParseAddr(service.Spec.ClusterIP)
		return v4.Contains(address), err
	})
}

// crowdRanges are those of the i-th policy that has ranges of its own.
func crowdRanges(i int) (v4, v6 netip.Prefix) {
	return netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", 128+i/256, i%256)), netip.MustParsePrefix(fmt.Sprintf("fd00:%x::/112", i+1))
}

// createRanges makes n ranges of both families, and waits until all are ready.
func (e *environment) createRanges(ctx context.Context, n int) error {
	ranges := e.Client.NetworkingV1().ServiceCIDRs()
	create := func(ctx context.Context, i int) error {
		v4, v6 := crowdRanges(i)
		_, err := ranges.Create(ctx, framework.NewServiceCIDR(fmt.Sprintf("crowd-%05d", i), v4.String(), v6.String()), metav1.CreateOptions{})
		return err
	}
	if err := e.all(n, create)(ctx); err != nil {
		return fmt.Errorf("creating ServiceCIDRs: %w", err)
	}
	return e.untilAll(ctx, n, fmt.Sprintf("%d ranges to be ready", n), func(ctx context.Context) (bool, error) {
		list, err := ranges.List(ctx, metav1.ListOptions{})
		waiting := slices.ContainsFunc(list.Items, func(c networkingv1.ServiceCIDR) bool {
			return !meta.IsStatusConditionTrue(c.Status.Conditions, "Ready")
		})
		return err == nil && !waiting, err
	})
}

// waitPolicies waits until there are n policies of the crowd, all in force. It watches: each list
// of a thousand takes the API server a quarter of a second, which the policies then lack.
func (e *environment) waitPolicies(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%d policies are not in force after %s", n, timeout))
	defer cancel()
	list, crowd := &v1alpha1.ServiceCIDRPolicyList{}, client.MatchingLabels{crowdLabel: "yes"}
	if err := e.client.List(ctx, list, crowd); err != nil {
		return fmt.Errorf("listing policies: %w", err)
	}
	changes, err := e.client.Watch(ctx, list, crowd, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return fmt.Errorf("watching policies: %w", err)
	}
	defer changes.Stop()
	there, effective := map[string]bool{}, map[string]bool{}
	note := func(p *v1alpha1.ServiceCIDRPolicy, exists bool) {
		setMember(there, p.Name, exists)
		setMember(effective, p.Name, exists && inForce(p))
	}
	for i := range list.Items {
		note(&list.Items[i], true)
	}
	for len(there) != n || len(effective) != n {
		change, ok := <-changes.ResultChan()
		p, isPolicy := change.Object.(*v1alpha1.ServiceCIDRPolicy)
		if !ok || !isPolicy {
			return fmt.Errorf("watching policies: it ended with %v: %w", change.Object, context.Cause(ctx))
		}
		note(p, change.Type != watch.Deleted)
	}
	return nil
}

func setMember(of map[string]bool, name string, is bool) {
	delete(of, name)
	if is {
		of[name] = true
	}
}

// deletePolicies deletes the policies of the crowd.
func (e *environment) deletePolicies(ctx context.Context) error {
	if err := e.client.DeleteAllOf(ctx, &v1alpha1.ServiceCIDRPolicy{}, client.MatchingLabels{crowdLabel: "yes"}); err != nil {
		return fmt.Errorf("deleting policies: %w", err)
	}
	return e.waitPolicies(ctx, 0)
}

func newPolicy(name string, serviceCIDRs ...string) *v1alpha1.ServiceCIDRPolicy {
	p := &v1alpha1.ServiceCIDRPolicy{}
	p.Name, p.Spec.ServiceCIDRs = name, serviceCIDRs
	return p
}

func inForce(p *v1alpha1.ServiceCIDRPolicy) bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.PolicyProgrammed) && p.Status.ObservedGeneration == p.Generation
}

// enforce creates a policy for Services with a label, and waits until all replicas go by it.
func (e *environment) enforce(ctx context.Context, p *v1alpha1.ServiceCIDRPolicy) error {
	p.Spec.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{selectingLabel: p.Name}}
	if err := e.client.Create(ctx, p); err != nil {
		return fmt.Errorf("creating policy %s: %w", p.Name, err)
	}
	err := e.until(ctx, "policy "+p.Name+" to be in force", func(ctx context.Context) (bool, error) {
		err := e.client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return inForce(p), err
	})
	time.Sleep(300 * time.Millisecond) // what one replica reports the others are about to hear
	return err
}

// offer makes a range, and waits until API server and operator give out its addresses.
func (e *environment) offer(ctx context.Context, name, cidr string) error {
	if _, err := e.Client.NetworkingV1().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR(name, cidr), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating ServiceCIDR %s: %w", name, err)
	}
	err := e.until(ctx, "ServiceCIDR "+name, func(ctx context.Context) (bool, error) {
		c, err := e.Client.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionTrue(c.Status.Conditions, "Ready"), err
	})
	time.Sleep(2 * time.Second) // the operator leaves a range alone that has just become ready
	return err
}
