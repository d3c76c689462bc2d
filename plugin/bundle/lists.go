package bundle

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

const (
	// onPage is how many objects are read, and written, at once: each may have 1.5 MiB.
	onPage = 100
	// mostObjects is how many of a kind are in a bundle, of events how many are read.
	mostObjects = 100_000
	// mostEvents is how many events are in a bundle: tenants may write some in the operator's name.
	mostEvents = 5_000
)

// pages lists objects a page at a time into list, and calls each for every page. It stops after so
// many objects, and says then whether there are more.
func pages(ctx context.Context, s *cli.Cluster, list client.ObjectList, what string, most int, each func() error) (more bool, err error) {
	for seen, next := 0, ""; ; {
		if err := meta.SetList(list, nil); err != nil { // or what a page lacks would be that of the one before
			return false, err
		}
		list.SetContinue("")
		if err := s.ListNamed(ctx, list, what, &client.ListOptions{Limit: onPage, Continue: next}); err != nil {
			return false, err
		}
		if err := each(); err != nil {
			return false, err
		}
		seen += meta.LenList(list)
		if next = list.GetContinue(); next == "" {
			return false, nil
		}
		if seen >= most {
			return true, nil
		}
	}
}

// addPages writes a list, a file for each page. of is what is kept of an object, nil for nothing.
func (b *bundle) addPages(ctx context.Context, list client.ObjectList, what, folder string, of func(runtime.Object) (any, error)) error {
	files := 0
	more, err := pages(ctx, b.s, list, what, mostObjects, func() error {
		var lines []any
		err := meta.EachListItem(list, func(o runtime.Object) error {
			one, err := of(o)
			if err == nil && one != nil {
				lines = append(lines, one)
			}
			return err
		})
		if err != nil || len(lines) == 0 {
			return err
		}
		files++
		return b.archive.lines(fmt.Sprintf("%s/%04d.jsonl", folder, files), lines, "")
	})
	if more {
		b.say("%s beyond the first %d", what, mostObjects)
	}
	return err
}

func (b *bundle) listNamespaces(ctx context.Context) error {
	return b.addPages(ctx, &corev1.NamespaceList{}, "namespaces", "namespaces", func(o runtime.Object) (any, error) {
		return b.slim(o.(client.Object), ofNamespaces)
	})
}

func (b *bundle) listServices(ctx context.Context) error {
	return b.addPages(ctx, &corev1.ServiceList{}, "Services", "services", func(o runtime.Object) (any, error) {
		s := o.(*corev1.Service)
		for _, in := range s.Status.LoadBalancer.Ingress {
			b.names.addHost(ofHost, in.Hostname)
		}
		if class := s.Spec.LoadBalancerClass; class != nil {
			b.names.add(ofLabel, *class)
		}
		return b.slim(s, ofServices)
	})
}

func (b *bundle) listIPAddresses(ctx context.Context) error {
	return b.addPages(ctx, &networkingv1.IPAddressList{}, "IPAddresses", "ipaddresses", func(o runtime.Object) (any, error) {
		ip := o.(*networkingv1.IPAddress)
		if p := ip.Spec.ParentRef; p != nil && p.Resource == "services" {
			b.learnService(p.Namespace, p.Name, true)
		}
		return b.slim(ip, ofIPAddresses)
	})
}

// slim is what is kept of an object.
func (b *bundle) slim(o client.Object, of fields) (any, error) {
	b.learnObject(o)
	out, err := object(o, b.chosen)
	if err != nil {
		return nil, err
	}
	only(out, of)
	return bounded(out), nil
}
