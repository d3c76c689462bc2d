package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/internal/objects"
)

// mostObjects is how many of a kind are read.
const mostObjects = 500

// custom are kinds of other projects that name Service ranges, if the cluster has them.
var custom = []struct {
	kind   schema.GroupVersionKind
	path   []string
	change string
}{
	{schema.GroupVersionKind{Group: "crd.projectcalico.org", Version: "v1", Kind: "BGPConfiguration"}, []string{"spec", "serviceClusterIPs", "cidr"}, "add the new range, or Calico advertises none of its addresses"},
	{schema.GroupVersionKind{Group: "projectcalico.org", Version: "v3", Kind: "BGPConfiguration"}, []string{"spec", "serviceClusterIPs", "cidr"}, "add the new range, or Calico advertises none of its addresses"},
	{schema.GroupVersionKind{Group: "submariner.io", Version: "v1alpha1", Kind: "Submariner"}, []string{"spec", "serviceCIDR"}, "join the clusters anew with the new range (subctl join --servicecidr): the others route to the old one"},
	{schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "Network"}, []string{"spec", "serviceNetwork"}, "OpenShift does not let it be changed: see docs/platforms.md"},
}

// configured are ConfigMaps that have a list of ranges in a document.
var configured = []struct {
	name           types.NamespacedName
	key            string
	path           []string
	field, meaning string
}{
	{types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"}, "ClusterConfiguration", []string{"networking", "serviceSubnet"}, "networking.serviceSubnet",
		"set the new range when the default one is replaced, or the next upgrade brings the old one back"},
	{types.NamespacedName{Namespace: "linkerd", Name: "linkerd-config"}, "values", []string{"clusterNetworks"}, "clusterNetworks", "add the new range, or Linkerd's proxies take its addresses for such outside of the cluster"},
}

// known is what a look around the cluster has found.
type known struct {
	names []names
	// unseen is what could not be looked at, and why.
	unseen []string
}

// note adds what there was of a kind, or why it was not looked at. A kind that the cluster does not
// have is nothing.
func (k *known) note(what string, err error, more string) {
	switch {
	case err == nil && more == "", meta.IsNoMatchError(err), apierrors.IsNotFound(err), errors.As(err, new(*meta.NoKindMatchError)):
	case err == nil:
		k.unseen = append(k.unseen, fmt.Sprintf("%s beyond the first %d", what, mostObjects))
	case apierrors.IsForbidden(err):
		k.unseen = append(k.unseen, what+": you may not read them")
	default:
		k.unseen = append(k.unseen, fmt.Sprintf("%s: %.200v", what, err))
	}
}

// lookAround reads what else may know a Service range: what other projects keep, what kubeadm and
// Linkerd are configured with, and what the pods of kube-system are started with. Nothing of it is
// needed for a plan: what cannot be read is told.
func lookAround(ctx context.Context, c client.Reader) (k known) {
	for _, one := range custom {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(one.kind.GroupVersion().WithKind(one.kind.Kind + "List"))
		k.note(one.kind.Kind+"s of "+one.kind.Group, c.List(ctx, list, client.Limit(mostObjects)), list.GetContinue())
		for i := range list.Items {
			where := fmt.Sprintf("%s %s (%s), %s", one.kind.Kind, strings.TrimPrefix(list.Items[i].GetNamespace()+"/"+list.Items[i].GetName(), "/"), one.kind.Group, strings.Join(one.path, "."))
			k.names = append(k.names, names{where: where, value: strings.Join(valuesAt(list.Items[i].Object, one.path...), ","), change: one.change})
		}
	}
	for _, one := range configured {
		found, err := objects.Get(ctx, c, one.name, &corev1.ConfigMap{})
		k.note("ConfigMap "+one.name.String(), errors.Unwrap(err), "")
		if err != nil || found == nil {
			continue
		}
		var document map[string]any
		if err := yaml.Unmarshal([]byte(found.Data[one.key]), &document); err != nil {
			k.note("ConfigMap "+one.name.String(), err, "")
			continue
		}
		k.names = append(k.names, names{where: fmt.Sprintf("ConfigMap %s, %s", one.name, one.field), value: strings.Join(valuesAt(document, one.path...), ","), change: one.meaning})
	}
	k.workloads(ctx, c)
	return k
}

// workloads looks at those of kube-system, and at its static pods.
func (k *known) workloads(ctx context.Context, c client.Reader) {
	in, most := client.InNamespace(metav1.NamespaceSystem), client.Limit(mostObjects)
	daemonSets, deployments, statefulSets, pods := &appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}
	k.note("DaemonSets of kube-system", c.List(ctx, daemonSets, in, most), daemonSets.Continue)
	for i := range daemonSets.Items {
		k.names = append(k.names, namesInPod("DaemonSet kube-system/"+daemonSets.Items[i].Name, &daemonSets.Items[i].Spec.Template.Spec)...)
	}
	k.note("Deployments of kube-system", c.List(ctx, deployments, in, most), deployments.Continue)
	for i := range deployments.Items {
		k.names = append(k.names, namesInPod("Deployment kube-system/"+deployments.Items[i].Name, &deployments.Items[i].Spec.Template.Spec)...)
	}
	k.note("StatefulSets of kube-system", c.List(ctx, statefulSets, in, most), statefulSets.Continue)
	for i := range statefulSets.Items {
		k.names = append(k.names, namesInPod("StatefulSet kube-system/"+statefulSets.Items[i].Name, &statefulSets.Items[i].Spec.Template.Spec)...)
	}
	k.note("Pods of kube-system", c.List(ctx, pods, in, most), pods.Continue)
	for i := range pods.Items {
		if _, static := pods.Items[i].Annotations[corev1.MirrorPodAnnotationKey]; static {
			k.names = append(k.names, namesInPod("static Pod kube-system/"+pods.Items[i].Name, &pods.Items[i].Spec)...)
		}
	}
}

// valuesAt are the texts at a path, through lists.
func valuesAt(in any, path ...string) (out []string) {
	switch v := in.(type) {
	case string:
		if len(path) == 0 {
			out = append(out, v)
		}
	case []any:
		for _, one := range v {
			out = append(out, valuesAt(one, path...)...)
		}
	case map[string]any:
		if len(path) > 0 {
			out = valuesAt(v[path[0]], path[1:]...)
		}
	}
	return out
}

// lookElsewhere completes a plan with who else knows the old ranges.
func lookElsewhere(ctx context.Context, c client.Reader, p *Plan) {
	k := lookAround(ctx, c)
	p.Elsewhere, p.NotLookedAt = elsewhere(masked(p.From), masked(p.To), k.names), k.unseen
}

func masked(all []netip.Prefix) (out []netip.Prefix) {
	for _, p := range all {
		out = append(out, p.Masked())
	}
	return out
}
