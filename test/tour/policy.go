package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// webhooks is the name of both webhook configurations.
const webhooks = "clusterip-operator"

// leadWebhooks leads the API server's questions to the manager on loopback: behind the Service that config/default names are no pods here.
// The manager enters by itself whom the API server may trust.
func (t *tour) leadWebhooks(ctx context.Context) error {
	configurations := t.plane.Client().AdmissionregistrationV1()
	mutating, err := configurations.MutatingWebhookConfigurations().Get(ctx, webhooks, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range mutating.Webhooks {
		t.lead(&mutating.Webhooks[i].ClientConfig)
	}
	if _, err := configurations.MutatingWebhookConfigurations().Update(ctx, mutating, metav1.UpdateOptions{}); err != nil {
		return err
	}
	validating, err := configurations.ValidatingWebhookConfigurations().Get(ctx, webhooks, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range validating.Webhooks {
		t.lead(&validating.Webhooks[i].ClientConfig)
	}
	_, err = configurations.ValidatingWebhookConfigurations().Update(ctx, validating, metav1.UpdateOptions{})
	return err
}

func (t *tour) lead(config *admissionregistrationv1.WebhookClientConfig) {
	_, port, _ := net.SplitHostPort(t.manager.WebhookAddress())
	config.URL = new("https://localhost:" + port + *config.Service.Path)
	config.Service = nil
}

// refused shows a command that the operator refuses, and what it says.
func (t *tour) refused(ctx context.Context, reason string, args ...string) error {
	_, err := t.kubectl(ctx, args...)
	if err == nil {
		return fmt.Errorf("kubectl %s was not refused", strings.Join(args, " "))
	}
	_, message, found := strings.Cut(err.Error(), "denied the request: ")
	if !found || !strings.Contains(message, reason) {
		return fmt.Errorf("want a refusal that says %q, got: %w", reason, err)
	}
	t.say("      refused: %s", strings.TrimSpace(message))
	return nil
}

const (
	tenant       = "sample-tenant"
	tenantPolicy = "config/samples/servicecidrpolicy_tenant.yaml"
)

// steer gives a tenant a range, and keeps others out of it.
func (t *tour) steer(ctx context.Context) error {
	dir, err := root()
	if err != nil {
		return err
	}
	if _, err := framework.Kubectl(ctx, t.plane.Kubeconfig(), "apply", "--server-side", "-f", filepath.Join(dir, tenantPolicy)); err != nil {
		return err
	}
	t.say("      $ kubectl apply --server-side -f %s", tenantPolicy)
	if err := eventually(ctx, "the policy to be programmed", 15*time.Second, func() (bool, error) { return t.programmed(ctx) }); err != nil {
		return err
	}
	if err := t.createForTenant(ctx); err != nil {
		return err
	}
	if err := t.refused(ctx, `ServiceCIDRPolicy "`+tenant+`"`, "-n", samples, "create", "service", "clusterip", "intruder", "--tcp=80", "--clusterip=10.114.0.200"); err != nil {
		return err
	}
	_, err = t.kubectl(ctx, "get", "scp")
	return err
}

func (t *tour) programmed(ctx context.Context) (bool, error) {
	c, err := client.New(t.plane.AdminConfig(), client.Options{})
	if err != nil {
		return false, err
	}
	if err := v1alpha1.AddToScheme(c.Scheme()); err != nil {
		return false, err
	}
	policy := &v1alpha1.ServiceCIDRPolicy{}
	err = c.Get(ctx, client.ObjectKey{Name: tenant}, policy)
	return meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.PolicyProgrammed), err
}

func (t *tour) createForTenant(ctx context.Context) error {
	service, err := t.plane.Client().CoreV1().Services(tenant).
		Create(ctx, framework.NewService(tenant, "web", framework.RequireDualStack()), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	t.say("      A Service of the tenant got %s.", strings.Join(service.Spec.ClusterIPs, " and "))
	if slices.ContainsFunc(service.Spec.ClusterIPs, func(a string) bool {
		return !strings.HasPrefix(a, "10.114.0.") && !strings.HasPrefix(a, "fd00:10:114::")
	}) {
		return fmt.Errorf("the Service did not get its addresses from the tenant's ranges")
	}
	return nil
}
