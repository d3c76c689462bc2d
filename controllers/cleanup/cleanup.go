package cleanup

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Options of Run.
type Options struct {
	// Client reads and writes at the API server itself, without a cache.
	Client client.Client
	// APIVersion under which ServiceCIDRs and IPAddresses are served.
	APIVersion string
	// Lease of the manager's leader election. A holder that renewed it lately stops the clean-up.
	Lease client.ObjectKey
	// Namespace is where the certificate of the webhooks is kept.
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

// Run cleans up. What has the API server refuse Services goes first; then the ServiceCIDRs, which are few: their finalizers are what holds others up.
func Run(ctx context.Context, o Options) error {
	if err := o.refuseIfRunning(ctx); err != nil {
		return err
	}
	if err := o.enforcement(ctx); err != nil {
		return err
	}
	if err := o.serviceCIDRs(ctx); err != nil {
		return err
	}
	if err := o.bandLabels(ctx); err != nil {
		return err
	}
	if err := o.ownAddresses(ctx); err != nil {
		return err
	}
	return o.home(ctx)
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

func (o Options) serviceCIDR(ctx context.Context, c *networkingv1.ServiceCIDR) error {
	if ours := ownConditions(c); len(ours) > 0 && o.say("removed the conditions %s of ServiceCIDR %s", strings.Join(ours, ", "), c.Name) {
		if err := o.dropConditions(ctx, c, ours); err != nil {
			return err
		}
	}
	if !slices.Contains(c.Finalizers, v1alpha1.FinalizerServiceCIDR) {
		return nil
	}
	note := ""
	if !c.DeletionTimestamp.IsZero() {
		note = " (it is being deleted: from now on upstream's finalizer alone decides when it goes)"
	}
	if !o.say("removed the finalizer of ServiceCIDR %s%s", c.Name, note) {
		return nil
	}
	return o.patch(ctx, c, types.StrategicMergePatchType, map[string]any{
		"$deleteFromPrimitiveList/finalizers": []string{v1alpha1.FinalizerServiceCIDR},
	})
}

func ownConditions(c *networkingv1.ServiceCIDR) []string {
	var out []string
	for _, condition := range c.Status.Conditions {
		if strings.HasPrefix(condition.Type, v1alpha1.Prefix+"/") {
			out = append(out, condition.Type)
		}
	}
	return out
}

// dropConditions removes conditions by their types, whoever wrote them last: after a restore from a backup or an edit
// by hand our field managers own nothing. Ready stays.
func (o Options) dropConditions(ctx context.Context, c *networkingv1.ServiceCIDR, ours []string) error {
	drop := make([]map[string]string, 0, len(ours))
	for _, kind := range ours {
		drop = append(drop, map[string]string{"$patch": "delete", "type": kind})
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": c.UID}, "status": map[string]any{"conditions": drop},
	})
	if err != nil {
		return err
	}
	target := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}
	err = o.Client.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, body))
	if ignoreGone(err) != nil {
		return fmt.Errorf("removing the conditions of ServiceCIDR %s: %w", c.Name, err)
	}
	return nil
}

// ignoreGone drops the errors of an object that is gone, or is another one by now, which we never touched: the API
// server answers a patch with the wrong UID as invalid, a deletion as a conflict.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

func (o Options) bandLabels(ctx context.Context) error {
	return o.each(ctx, o.addresses(), client.HasLabels{v1alpha1.LabelBand}, func(ip *metav1.PartialObjectMetadata) error {
		if !o.say("removed the label %s of IPAddress %s", v1alpha1.LabelBand, ip.Name) {
			return nil
		}
		return o.patch(ctx, ip, types.MergePatchType, map[string]any{"labels": map[string]any{v1alpha1.LabelBand: nil}})
	})
}

func (o Options) ownAddresses(ctx context.Context) error {
	ours := client.MatchingLabels{networkingv1.LabelManagedBy: v1alpha1.ManagedByOperator}
	return o.each(ctx, o.addresses(), ours, func(ip *metav1.PartialObjectMetadata) error {
		if !o.say("deleted IPAddress %s, which the operator kept for itself", ip.Name) {
			return nil
		}
		err := o.Client.Delete(ctx, ip, client.Preconditions{UID: &ip.UID})
		if ignoreGone(err) != nil {
			return fmt.Errorf("deleting IPAddress %s: %w", ip.Name, err)
		}
		return nil
	})
}

func (o Options) addresses() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: o.APIVersion, Kind: "IPAddress"}
}

// each visits the selected objects of a kind page by page, so that memory does not grow with the cluster.
func (o Options) each(ctx context.Context, kind metav1.TypeMeta, selected client.ListOption, visit func(*metav1.PartialObjectMetadata) error) error {
	list := &metav1.PartialObjectMetadataList{}
	for {
		list.TypeMeta = metav1.TypeMeta{APIVersion: kind.APIVersion, Kind: kind.Kind + "List"}
		if err := o.Client.List(ctx, list, selected, client.Limit(500), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("listing objects of the kind %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			item := &list.Items[i]
			item.TypeMeta = kind
			if err := visit(item); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			return nil
		}
	}
}

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
