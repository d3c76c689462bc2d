package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func (t *tour) startControlPlane(ctx context.Context) (err error) {
	t.plane, err = framework.Start(ctx, framework.Options{})
	if err != nil {
		return err
	}
	t.stop = t.plane.Stop
	t.say("      kube-apiserver %s at %s", framework.V137.Name, t.plane.URL())
	return nil
}

// apply applies a file (-f) or a kustomization (-k) of the checkout.
func (t *tour) apply(ctx context.Context, flag, path string) error {
	root, err := framework.ModuleRoot()
	if err != nil {
		return err
	}
	t.say("      $ kubectl apply --server-side %s %s", flag, path)
	out, err := framework.Kubectl(ctx, t.plane.Kubeconfig(), "apply", "--server-side", flag, filepath.Join(root, path))
	t.print(out)
	return err
}

func (t *tour) applyConfig(ctx context.Context) error { return t.apply(ctx, "-k", "config/default") }

// startManager runs the manager as a process beside the API server: there is no kubelet for pods.
func (t *tour) startManager(ctx context.Context) error {
	err := t.writeManagerKubeconfig(ctx)
	if err != nil {
		return err
	}
	t.manager, err = t.plane.StartManager(ctx, framework.ManagerOptions{
		Kubeconfig: t.managerKubeconfig(), Args: []string{"--leader-elect", "--namespace=" + operatorNamespace}, Webhooks: true,
	})
	if err != nil {
		return err
	}
	t.metrics = t.manager.Metrics
	t.goOn = func() string {
		return fmt.Sprintf("  curl %s\n  tail -f %s", t.manager.MetricsURL(), t.manager.LogFile())
	}
	if err := errors.Join(t.leadWebhooks(ctx), t.actAsNodes(ctx)); err != nil {
		return err
	}
	if err := t.awaitWebhooks(ctx); err != nil {
		return err
	}
	return t.awaitOperator(ctx)
}

func (t *tour) managerKubeconfig() string {
	return filepath.Join(t.plane.Dir(), "manager.kubeconfig")
}

// writeManagerKubeconfig requests a token of the manager's ServiceAccount. Its tokens end with it:
// the API server takes none of a former ServiceAccount of the same name.
func (t *tour) writeManagerKubeconfig(ctx context.Context) error {
	account, err := t.plane.ConfigForServiceAccount(ctx, operatorNamespace, operatorAccount)
	if err != nil {
		return err
	}
	return framework.WriteKubeconfig(t.managerKubeconfig(), account)
}

// awaitOperator waits until the operator has looked at the default range.
func (t *tour) awaitOperator(ctx context.Context) error {
	return eventually(ctx, "the first condition of the operator", 30*time.Second, func() (bool, error) {
		c, err := t.condition(ctx, v1alpha1.DefaultServiceCIDR, v1alpha1.ConditionNearlyFull)
		return c.Type != "", err
	})
}

// applySamples applies twice at most: the API server refuses Services with an address of their own
// until it has taken notice of their ServiceCIDR.
func (t *tour) applySamples(ctx context.Context) error {
	return eventually(ctx, "the samples", 30*time.Second, func() (bool, error) {
		err := t.apply(ctx, "-k", "config/samples")
		return err == nil, err
	})
}

// showAddresses prints columns of its own: the API server prints IPAddresses with an age but
// without its column, so kubectl's -L stands under the wrong head.
func (t *tour) showAddresses(ctx context.Context) error {
	unlabelled := func() (bool, error) {
		list, err := t.plane.Networking().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: "!" + v1alpha1.LabelBand})
		return err == nil && len(list.Items) == 0, err
	}
	if err := eventually(ctx, "every IPAddress to have its band", 30*time.Second, unlabelled); err != nil {
		return err
	}
	out, err := t.kubectl(ctx, "get", "ipaddresses", "-o",
		`custom-columns=ADDRESS:.metadata.name,SERVICE:.spec.parentRef.name,NAMESPACE:.spec.parentRef.namespace,BAND:.metadata.labels.clusterip-operator\.io/band`)
	if err == nil && (!strings.Contains(out, v1alpha1.BandStatic) || !strings.Contains(out, v1alpha1.BandDynamic)) {
		return fmt.Errorf("want addresses of both bands, got:\n%s", out)
	}
	return err
}

func (t *tour) showRanges(ctx context.Context) error {
	list, err := t.plane.Networking().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	metrics, err := t.metrics(ctx)
	if err != nil {
		return err
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "SERVICECIDR\tRANGE\tBAND\tFROM\tTO\tUSED\tFREE")
	for _, c := range list.Items {
		for _, cidr := range c.Spec.CIDRs {
			r, err := allocator.ParseRange(cidr)
			if err != nil {
				return err
			}
			for _, b := range []allocator.Band{allocator.Static, allocator.Dynamic} {
				free, known := metrics.Value("clusterip_operator_addresses", "servicecidr", c.Name, "cidr", cidr, "band", b.String(), "state", "free")
				used, _ := metrics.Value("clusterip_operator_addresses", "servicecidr", c.Name, "cidr", cidr, "band", b.String(), "state", "allocated")
				if !known {
					return fmt.Errorf("no metric for the %s band of %s", b, cidr)
				}
				s := r.Band(b)
				_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f\n", c.Name, cidr, b, s.First, s.Last, used, free)
			}
		}
	}
	_ = table.Flush()
	t.print(text.String())
	return nil
}

// deleteAddress shows that users may not do it, and both families' repair when a controller does.
func (t *tour) deleteAddress(ctx context.Context) error {
	svc, err := t.plane.Client().CoreV1().Services(samples).Get(ctx, "sample-dual-stack", metav1.GetOptions{})
	if err != nil {
		return err
	}
	back := func(ip string, within time.Duration) error {
		return eventually(ctx, "IPAddress "+ip+" to be back", within, func() (bool, error) {
			_, err := t.plane.Networking().IPAddresses().Get(ctx, ip, metav1.GetOptions{})
			return err == nil, notFoundIsNo(err)
		})
	}
	if err := t.refused(ctx, svc.Name, "delete", "ipaddress", svc.Spec.ClusterIP); err != nil {
		return err
	}
	for _, ip := range svc.Spec.ClusterIPs {
		if _, err := t.kubectl(ctx, "delete", "ipaddress", ip, "--as=system:kube-controller-manager", "--as-group=system:masters"); err != nil {
			return err
		}
		start := time.Now()
		if err := back(ip, 2*time.Second); err != nil {
			return err
		}
		t.say("      back after %.2f s (the API server's own repair looks every 3 minutes)", time.Since(start).Seconds())
	}
	return nil
}

const blockedRange = "sample-dual-stack"

func (t *tour) deleteRange(ctx context.Context) error {
	if _, err := t.kubectl(ctx, "delete", "servicecidr", blockedRange, "--wait=false"); err != nil {
		return err
	}
	c, err := t.raised(ctx, blockedRange, v1alpha1.ConditionDeletionBlocked)
	if err != nil {
		return err
	}
	t.say("      It stays, with the condition %s:\n        %s", c.Type, c.Message)
	if !strings.Contains(c.Message, samples+"/sample-static-dual-stack") {
		return fmt.Errorf("the condition does not name the Service that blocks: %q", c.Message)
	}
	return nil
}

// unblockRange deletes all Services in the range, from which the API server may have drawn.
func (t *tour) unblockRange(ctx context.Context) error {
	services, err := t.plane.Client().CoreV1().Services(samples).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, s := range services.Items {
		if !slices.ContainsFunc(s.Spec.ClusterIPs, func(a string) bool { return inside(a, "10.113.0.0/24") || inside(a, "fd00:10:113::/112") }) {
			continue
		}
		if _, err := t.kubectl(ctx, "-n", samples, "delete", "service", s.Name); err != nil {
			return err
		}
	}
	if _, err := t.kubectl(ctx, "wait", "servicecidr", blockedRange, "--for=delete", "--timeout=40s"); err != nil {
		return err
	}
	t.say("      It is gone, after the 10 s that API servers get to learn of the deletion.")
	return nil
}

// fillRange takes addresses of a /29 one by one until the operator warns.
func (t *tour) fillRange(ctx context.Context) error {
	const name = "sample-small"
	cidr := framework.NewServiceCIDR(name, "10.120.0.0/29", "fd00:10:120::/125")
	if _, err := t.plane.Networking().ServiceCIDRs().Create(ctx, cidr, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := 1; i <= 5; i++ {
		svc := framework.NewService(samples, fmt.Sprintf("small-%d", i), framework.RequireDualStack(),
			framework.WithClusterIPs(fmt.Sprintf("10.120.0.%d", i), fmt.Sprintf("fd00:10:120::%d", i)))
		err := eventually(ctx, "Service "+svc.Name, 15*time.Second, func() (bool, error) {
			_, err := t.plane.Client().CoreV1().Services(samples).Create(ctx, svc, metav1.CreateOptions{})
			return err == nil, err // the range is refused until the API server has taken notice of it
		})
		if err != nil {
			return err
		}
	}
	c, err := t.raised(ctx, name, v1alpha1.ConditionNearlyFull)
	if err != nil {
		return err
	}
	t.say("      5 of 6 IPv4 addresses are in use. The condition %s says:\n        %s", c.Type, c.Message)
	_, err = t.kubectl(ctx, "get", "events", "--field-selector", "involvedObject.kind=ServiceCIDR",
		"-o", "custom-columns=REASON:.reason,OBJECT:.involvedObject.name,MESSAGE:.message")
	return err
}

// raised waits until a condition of a ServiceCIDR is True.
func (t *tour) raised(ctx context.Context, servicecidr, kind string) (c metav1.Condition, err error) {
	err = eventually(ctx, "the condition "+kind, 15*time.Second, func() (bool, error) {
		c, err = t.condition(ctx, servicecidr, kind)
		return c.Status == metav1.ConditionTrue, err
	})
	return c, err
}

// condition returns a condition of a ServiceCIDR, the zero Condition if it has none of the kind.
func (t *tour) condition(ctx context.Context, servicecidr, kind string) (metav1.Condition, error) {
	c, err := t.plane.Networking().ServiceCIDRs().Get(ctx, servicecidr, metav1.GetOptions{})
	if err != nil {
		return metav1.Condition{}, err
	}
	if condition := meta.FindStatusCondition(c.Status.Conditions, kind); condition != nil {
		return *condition, nil
	}
	return metav1.Condition{}, nil
}

func notFoundIsNo(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
