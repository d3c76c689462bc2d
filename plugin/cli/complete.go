package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
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
func (a *Session) Names(ctx context.Context, kind, prefix, word string) (all []string) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	quiet, flags := *a, *a.kube
	if flags.overrides.Timeout == "" {
		flags.overrides.Timeout = completionTime.String() // discovery knows no context
	}
	quiet.kube, quiet.Streams = &flags, Streams{Out: io.Discard, ErrOut: io.Discard} // a shell shows what is said
	s, err := quiet.Open()
	if err != nil {
		return nil
	}
	list, in := s.listOf(kind)
	if list == nil || s.List(ctx, list, in...) != nil {
		return nil
	}
	_ = meta.EachListItem(list, func(o runtime.Object) error { // which returns the errors of the function alone
		if name := prefix + o.(client.Object).GetName(); strings.HasPrefix(name, word) {
			all = append(all, name)
		}
		return nil
	})
	return all
}

// listOf is an empty list of the objects of a kind, and where they are; nil for what is not served.
func (s *Cluster) listOf(kind string) (client.ObjectList, []client.ListOption) {
	switch {
	case kind == KindRange:
		return &networkingv1.ServiceCIDRList{}, nil
	case kind == KindNamespace:
		return &corev1.NamespaceList{}, nil
	case kind == KindService:
		return &corev1.ServiceList{}, []client.ListOption{client.InNamespace(s.Namespace)}
	case kind == KindPolicy && s.Policies:
		return &v1alpha1.ServiceCIDRPolicyList{}, nil
	}
	return nil, nil
}
