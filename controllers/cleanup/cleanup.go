package cleanup

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/history"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/internal/webhook"
)

// Options of Run.
type Options struct {
	// Client reads and writes at the API server itself, without a cache.
	Client client.Client
	// Lease of the manager's leader election. A holder that renewed it lately stops the clean-up.
	Lease client.ObjectKey
	// Namespace is where the webhooks' certificate and the ConfigMaps are kept.
	Namespace string
	// Force works although a manager seems to run.
	Force bool
	// DryRun only says what would be done.
	DryRun bool
	// Out takes one line for each change.
	Out io.Writer
	// Now is the present time.
	Now time.Time
}

// Run cleans up. What has the API server refuse Services goes first: without its binding the
// ValidatingAdmissionPolicy, which stays as part of the manifests, is not evaluated. Then come the
// ServiceCIDRs, which are few and whose finalizers hold up deletions.
func Run(ctx context.Context, o Options) error {
	if err := o.refuseIfRunning(ctx); err != nil {
		return err
	}
	binding := metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicyBinding"}
	if err := o.remove(ctx, binding, client.ObjectKey{Name: v1alpha1.ExclusiveName}); err != nil {
		return err
	}
	if err := o.remove(ctx, metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, client.ObjectKey{Namespace: o.Namespace, Name: v1alpha1.ExclusiveName}); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{o.serviceCIDRs, o.bandLabels, o.formerAddresses, o.ownAddresses} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for shard := range history.Shards {
		if err := o.remove(ctx, metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, client.ObjectKey{Namespace: o.Namespace, Name: history.NameOf(shard)}); err != nil {
			return err
		}
	}
	return o.remove(ctx, metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, client.ObjectKey{Namespace: o.Namespace, Name: webhook.SecretName})
}

// refuseIfRunning refuses while a manager renews the Lease.
func (o Options) refuseIfRunning(ctx context.Context) error {
	if o.Force || o.DryRun {
		return nil
	}
	lease := &coordinationv1.Lease{}
	if err := o.Client.Get(ctx, o.Lease, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Lease %s: %w", o.Lease, err)
	}
	s := lease.Spec
	if s.HolderIdentity == nil || s.RenewTime == nil || s.LeaseDurationSeconds == nil || *s.HolderIdentity == "" ||
		o.Now.Sub(s.RenewTime.Time) > time.Duration(*s.LeaseDurationSeconds)*time.Second {
		return nil
	}
	return fmt.Errorf("the manager %s is running and would write everything anew; scale its Deployment to 0 first, or use --force", *s.HolderIdentity)
}

// say prints a step, and returns whether it is to be done.
func (o Options) say(format string, args ...any) bool {
	prefix := ""
	if o.DryRun {
		prefix = "would have "
	}
	_, _ = fmt.Fprintf(o.Out, prefix+format+"\n", args...)
	return !o.DryRun
}

// remove deletes an object, if there is one.
func (o Options) remove(ctx context.Context, kind metav1.TypeMeta, key client.ObjectKey) error {
	object, name := &metav1.PartialObjectMetadata{TypeMeta: kind}, strings.TrimPrefix(key.String(), "/")
	switch err := o.Client.Get(ctx, key, object); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
	}
	if !o.say("deleted %s %s", kind.Kind, name) {
		return nil
	}
	if err := ignoreGone(o.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID})); err != nil {
		return fmt.Errorf("deleting %s %s: %w", kind.Kind, name, err)
	}
	return nil
}

func (o Options) serviceCIDRs(ctx context.Context) error {
	list := &networkingv1.ServiceCIDRList{}
	if err := o.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	for i := range list.Items {
		if err := o.serviceCIDR(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// serviceCIDR removes conditions by their types, whichever manager wrote them last: after a restore
// from a backup or an edit by hand our field managers own nothing. Ready stays.
func (o Options) serviceCIDR(ctx context.Context, c *networkingv1.ServiceCIDR) error {
	var kinds []string
	var conditions []map[string]string
	for _, condition := range c.Status.Conditions {
		if strings.HasPrefix(condition.Type, v1alpha1.Prefix+"/") {
			kinds, conditions = append(kinds, condition.Type), append(conditions, map[string]string{"$patch": "delete", "type": condition.Type})
		}
	}
	if len(kinds) > 0 && o.say("removed the conditions %s of ServiceCIDR %s", strings.Join(kinds, ", "), c.Name) {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": c.UID}, "status": map[string]any{"conditions": conditions}})
		if err == nil {
			err = ignoreGone(o.Client.Status().Patch(ctx, c.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, body)))
		}
		if err != nil {
			return fmt.Errorf("removing the conditions of ServiceCIDR %s: %w", c.Name, err)
		}
	}
	if _, counted := c.Annotations[v1alpha1.AnnotationUsage]; counted && o.say("removed the annotation %s of ServiceCIDR %s", v1alpha1.AnnotationUsage, c.Name) {
		if err := o.patch(ctx, c.DeepCopy(), types.MergePatchType, map[string]any{"annotations": map[string]any{v1alpha1.AnnotationUsage: nil}}); err != nil {
			return err
		}
	}
	if !slices.Contains(c.Finalizers, v1alpha1.FinalizerServiceCIDR) {
		return nil
	}
	note := ""
	switch {
	case !c.DeletionTimestamp.IsZero() && slices.Contains(c.Finalizers, v1alpha1.FinalizerUpstream):
		note = " (it is being deleted: from now on upstream's finalizer alone decides when it goes)"
	case !c.DeletionTimestamp.IsZero():
		note = " (it is being deleted, and goes)"
	}
	if !o.say("removed the finalizer of ServiceCIDR %s%s", c.Name, note) {
		return nil
	}
	return o.patch(ctx, c, types.StrategicMergePatchType, map[string]any{
		"$deleteFromPrimitiveList/finalizers": []string{v1alpha1.FinalizerServiceCIDR},
	})
}

// patch changes metadata of an object, if it is still the same one.
func (o Options) patch(ctx context.Context, target client.Object, kind types.PatchType, metadata map[string]any) error {
	metadata["uid"] = target.GetUID()
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	name := target.GetName()
	if err := o.Client.Patch(ctx, target, client.RawPatch(kind, body)); ignoreGone(err) != nil {
		return fmt.Errorf("patching %s: %w", name, err)
	}
	return nil
}

// ignoreGone drops the errors of an object that is gone or is another one by now, which we never
// touched: the API server answers a patch with the wrong UID as invalid, a deletion as a conflict.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

func (o Options) bandLabels(ctx context.Context) error {
	return o.each(ctx, client.HasLabels{v1alpha1.LabelBand}, func(ip *networkingv1.IPAddress) error {
		if !o.say("removed the label %s of IPAddress %s", v1alpha1.LabelBand, ip.Name) {
			return nil
		}
		return o.patch(ctx, ip, types.MergePatchType, map[string]any{"labels": map[string]any{v1alpha1.LabelBand: nil}})
	})
}

// formerAddresses takes off renumbering's finalizers, at whatever stage its Services are: an admin
// who uninstalls may not be able to read Services. Nothing selects IPAddresses by finalizers.
func (o Options) formerAddresses(ctx context.Context) error {
	return o.each(ctx, client.MatchingLabels{}, func(ip *networkingv1.IPAddress) error {
		note := ""
		if !ip.DeletionTimestamp.IsZero() {
			note = ": the address is free, also if renumbering was under way"
		}
		if !slices.Contains(ip.Finalizers, v1alpha1.FinalizerFormer) || !o.say("removed the finalizer of IPAddress %s of Service %s%s", ip.Name, upstream.Service(ip), note) {
			return nil
		}
		return o.patch(ctx, ip, types.StrategicMergePatchType, map[string]any{
			"$deleteFromPrimitiveList/finalizers": []string{v1alpha1.FinalizerFormer},
		})
	})
}

// ownAddresses deletes the IPAddresses of ours.
func (o Options) ownAddresses(ctx context.Context) error {
	written := client.MatchingLabels{networkingv1.LabelManagedBy: v1alpha1.ManagedByOperator}
	return o.each(ctx, written, func(ip *networkingv1.IPAddress) error {
		if ofClusterIP(ip) || upstream.Former(ip) || !o.say("deleted IPAddress %s, which the operator kept for itself", ip.Name) {
			return nil
		}
		if err := ignoreGone(o.Client.Delete(ctx, ip, client.Preconditions{UID: &ip.UID})); err != nil {
			return fmt.Errorf("deleting IPAddress %s: %w", ip.Name, err)
		}
		return nil
	})
}

// ofClusterIP reports whether an IPAddress labelled as ours is that of a ClusterIP: it names a
// Service, and is not additional. It stays, or the API server would give the address away.
func ofClusterIP(ip *networkingv1.IPAddress) bool {
	return upstream.Service(ip).Name != "" && ip.Labels[v1alpha1.LabelPurpose] != v1alpha1.PurposeAdditional
}

// each visits the selected IPAddresses page by page, so that memory does not grow with the cluster.
func (o Options) each(ctx context.Context, selected client.ListOption, visit func(*networkingv1.IPAddress) error) error {
	list := &networkingv1.IPAddressList{}
	for {
		if err := o.Client.List(ctx, list, selected, client.Limit(500), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("listing IPAddresses: %w", err)
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			return nil
		}
	}
}
