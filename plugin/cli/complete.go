package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// completionTime is how long a shell waits for words of the cluster.
const completionTime = 3 * time.Second

// Complete returns a Completion by the names of the objects of one kind, for up to most words, or
// for a flag's value if most is 0. Services are those of the namespace of the flags or of the
// kubeconfig.
func (a *Session) Complete(kind string, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.Names(cmd.Context(), kind, "", word), cobra.ShellCompDirectiveNoFileComp
	}
}

// Names are those of the objects of a kind, behind a prefix, that begin with a word. A cluster that
// is away, or does not let the user list them, has none.
func (a *Session) Names(ctx context.Context, kind, prefix, word string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	s, err := a.within(completionTime).Open() // a shell shows what is said
	if err != nil {
		return nil
	}
	return s.names(ctx, kind, prefix, word)
}

// mostNames is about how many names a shell is given. So many objects are asked for at once.
const mostNames = 500

// names asks for metadata alone, a page at a time, until there are mostNames or an answer is late.
func (s *Cluster) names(ctx context.Context, kind, prefix, word string) (all []string) {
	typed, namespace := s.listOf(kind)
	if typed == nil {
		return nil
	}
	gvk, err := s.GroupVersionKindFor(typed)
	list := &metav1.PartialObjectMetadataList{}
	for more := err == nil; more && len(all) < mostNames; more = list.Continue != "" {
		list.SetGroupVersionKind(gvk)
		if s.List(ctx, list, &client.ListOptions{Namespace: namespace, Limit: mostNames, Continue: list.Continue}) != nil {
			return all
		}
		for i := range list.Items {
			if name := prefix + list.Items[i].Name; strings.HasPrefix(name, word) {
				all = append(all, name)
			}
		}
	}
	return all
}

// listOf is a list of the objects of a kind, and the namespace where they are; nil for what is not
// served.
func (s *Cluster) listOf(kind string) (list client.ObjectList, namespace string) {
	switch {
	case kind == KindRange:
		return &networkingv1.ServiceCIDRList{}, ""
	case kind == KindNamespace:
		return &corev1.NamespaceList{}, ""
	case kind == KindService:
		return &corev1.ServiceList{}, s.Namespace
	case kind == KindPolicy && s.Policies:
		return &v1alpha1.ServiceCIDRPolicyList{}, ""
	}
	return nil, ""
}
