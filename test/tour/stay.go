package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// toStay are the steps after the tour on loopback: they leave a cluster in which the guides work.
func (t *tour) toStay() []step {
	return []step{
		{"Run kube-controller-manager, which ends namespaces, and rolls out DaemonSets, on no node", t.startControllers},
		{"Take away what the tour filled, kept and reserved, for the guides want some of it", t.tidy},
		{"Ask the plugin whether all is well", t.askPlugin},
	}
}

// startControllers starts those controllers that need no nodes.
func (t *tour) startControllers(ctx context.Context) (err error) {
	t.controllers, err = t.plane.StartControllerManager(ctx,
		"namespace-controller", "garbage-collector-controller", "daemonset-controller", framework.ServiceCIDRController)
	return err
}

// tidy leaves config/samples, without the range that the tour has deleted.
func (t *tour) tidy(ctx context.Context) error {
	for _, args := range [][]string{
		{"-n", samples, "annotate", "service", "sample-dual-stack", v1alpha1.AnnotationAdditionalFrom + "-"},
		{"-n", samples, "label", "service", "sample-dual-stack", "network-"},
		{"delete", "namespace", "shop", "sample-tenant"},
		{"-n", samples, "delete", "service", "small-1", "small-2", "small-4", "small-5", "newcomer"},
	} {
		if _, err := t.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	// Additional addresses are given back by the policy that gave them.
	if err := t.showKept(ctx, v1alpha1.PurposeAdditional); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"delete", "scp", "--all"},
		{"delete", "servicecidr", "sample-small", "sample-tenant", "sample-reserved", "sample-partner", "--timeout=60s"},
	} {
		if _, err := t.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// askPlugin builds the plugin, which an admin's next commands need, and shows what it says.
func (t *tour) askPlugin(ctx context.Context) error {
	for _, args := range [][]string{{"clusterip", "status", "--wait=60s"}, {"clusterip", "ranges"}} {
		t.say("      $ kubectl %s %s", args[0], args[1])
		result, err := t.plane.RunPlugin(ctx, framework.PluginOptions{Args: args[1:]})
		if err != nil {
			return err
		}
		t.print(result.Stdout)
		if result.ExitCode != 0 {
			return fmt.Errorf("kubectl %s %s: %s", args[0], args[1], result)
		}
	}
	return nil
}

// process is one that is started again when it has died.
type process interface {
	Running() bool
	Start(ctx context.Context) error
	ExitCode() int
	LogFile() string
}

// revive starts again what has died, in the order in which they need one another.
func (t *tour) revive(ctx context.Context) error {
	for _, p := range []process{t.plane.Etcd, t.plane.API, t.controllers} {
		if err := t.restart(ctx, p); err != nil {
			return err
		}
	}
	return t.reviveManager(ctx)
}

// restart starts a process again unless it runs.
func (t *tour) restart(ctx context.Context, p process) error {
	if p.Running() {
		return nil
	}
	name := strings.TrimSuffix(filepath.Base(p.LogFile()), ".log")
	t.say("\n%s ended with exit code %d and is started again. What it said last is in %s.", name, p.ExitCode(), p.LogFile())
	if err := p.Start(ctx); err != nil {
		return err
	}
	t.say("%s runs again.", name)
	return nil
}

// reviveManager starts the manager again where config/default is installed. An admin who took the
// operator away and applied it again has made another ServiceAccount, so the manager gets a new
// token.
func (t *tour) reviveManager(ctx context.Context) error {
	if t.manager.Running() {
		return nil
	}
	_, err := t.plane.Client().AppsV1().Deployments(operatorNamespace).Get(ctx, operatorDeployment, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the operator was taken away
	}
	if err != nil {
		return fmt.Errorf("looking whether the operator is installed: %w", err)
	}
	if err := t.writeManagerKubeconfig(ctx); err != nil {
		return err
	}
	return t.restart(ctx, t.manager)
}

// stay acts for nodes, and starts again what died, until ctx ends.
func (t *tour) stay(ctx context.Context) error {
	said := ""
	for t.manager != nil {
		err := t.keep(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != said { // an outage is told once
			said = err.Error()
			t.say("%s", said)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (t *tour) keep(ctx context.Context) error {
	if err := t.revive(ctx); err != nil {
		return err
	}
	return errors.Join(t.actAsNodes(ctx), t.leadAgain(ctx))
}

// status is the patch that says that all pods of a Deployment run. The manager does, as a process.
func status(d appsv1.Deployment) ([]byte, error) {
	n := *d.Spec.Replicas
	return json.Marshal(map[string]any{"status": appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
	}})
}

// actAsNodes reports the pods of the operator's Deployments as ready.
func (t *tour) actAsNodes(ctx context.Context) error {
	deployments := t.plane.Client().AppsV1().Deployments(operatorNamespace)
	list, err := deployments.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Deployments: %w", err)
	}
	for _, d := range list.Items {
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		patch, err := status(d)
		if err != nil {
			return err
		}
		if _, err := deployments.Patch(ctx, d.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("reporting the pods of %s as ready: %w", d.Name, err)
		}
	}
	return nil
}

// leadAgain leads the webhooks to the manager when an admin has applied config/default again.
func (t *tour) leadAgain(ctx context.Context) error {
	c, err := t.plane.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, webhooks, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the operator was taken away
	}
	if err != nil || len(c.Webhooks) == 0 || c.Webhooks[0].ClientConfig.URL != nil {
		return err
	}
	return t.leadWebhooks(ctx)
}
