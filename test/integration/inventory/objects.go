// Package inventory takes down what a cluster holds, so that specs can say what has changed.
//
// It models a cluster as [Objects], compared by [Objects.Changes], and the one-to-one relation of
// KEP-1880 between Services' addresses and IPAddresses as [Findings], the list of its breaches. It
// leaves out only what a Kubernetes API server writes unasked. Both answers are lists of sentences:
// empty is good, and what is in them is fit for the report of a failure.
//
// Start with [Everything].
package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Resources that the operator and the controllers beside it work on, as [Of] takes them.
const (
	ServiceCIDRs = "servicecidrs.networking.k8s.io"
	IPAddresses  = "ipaddresses.networking.k8s.io"
	Services     = "services"
	Events       = "events.events.k8s.io"
)

// ownBusiness are resources that an API server writes unasked, or that show another one again.
var ownBusiness = []string{
	"componentstatuses",
	"events", // the same as events.events.k8s.io
	"flowschemas.flowcontrol.apiserver.k8s.io",
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
}

// Objects are objects of a cluster under "resource.group namespace/name", as the API server
// returned them, managed fields and versions included.
type Objects map[string]*unstructured.Unstructured

// Everything takes down all objects that can be listed, but for what API servers write unasked.
func Everything(ctx context.Context, config *rest.Config) (Objects, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // deprecated kinds are counted too
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	listable, err := listable(config)
	if err != nil {
		return nil, err
	}
	all := Objects{}
	for _, resource := range listable {
		if slices.Contains(ownBusiness, resource.GroupResource().String()) {
			continue
		}
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue // announced by an API server that is about to change its version
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource, err)
		}
		all.add(resource.GroupResource(), list.Items)
	}
	return all, nil
}

func listable(config *rest.Config) ([]schema.GroupVersionResource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	lists, err := discovery.ServerPreferredResources(client)
	if err != nil {
		return nil, fmt.Errorf("asking what is served: %w", err)
	}
	var all []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, errors.Join(errors.New("asking what is served"), err)
		}
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, "list") {
				all = append(all, gv.WithResource(resource.Name))
			}
		}
	}
	return all, nil
}

// add leaves out the Leases by which API servers tell each other that they live.
func (o Objects) add(resource schema.GroupResource, items []unstructured.Unstructured) {
	for i := range items {
		item := &items[i]
		if resource.Resource == "leases" && item.GetNamespace() == metav1.NamespaceSystem {
			continue
		}
		o[key(resource.String(), item.GetNamespace(), item.GetName())] = item
	}
}

func key(resource, namespace, name string) string {
	return strings.TrimPrefix(resource+" "+namespace+"/"+name, "/")
}

// Get returns one object, nil if there is none. namespace is empty for cluster-wide resources.
func (o Objects) Get(resource, namespace, name string) *unstructured.Unstructured {
	return o[key(resource, namespace, name)]
}

// Count returns how many objects of a resource there are.
func (o Objects) Count(resource string) (n int) {
	for name := range o {
		if strings.HasPrefix(name, resource+" ") {
			n++
		}
	}
	return n
}

// Without returns the objects whose resource is none of the given ones.
func (o Objects) Without(resources ...string) Objects {
	rest := maps.Clone(o)
	maps.DeleteFunc(rest, func(name string, _ *unstructured.Unstructured) bool {
		resource, _, _ := strings.Cut(name, " ")
		return slices.Contains(resources, resource)
	})
	return rest
}

// Content returns copies without what every write changes: resource version, generation and managed
// fields. They compare by what the objects say, not by how often they were written.
func (o Objects) Content() Objects {
	bare := make(Objects, len(o))
	for name, object := range o {
		object = object.DeepCopy()
		object.SetResourceVersion("")
		object.SetGeneration(0)
		object.SetManagedFields(nil)
		bare[name] = object
	}
	return bare
}

// Changes says of every object that is new, gone or different in later what has become of it, in
// the order of names. It is empty when the two are the same.
func (o Objects) Changes(later Objects) []string {
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		switch now, there := later[name]; {
		case !there:
			changes = append(changes, name+" is gone")
		default:
			if diff := cmp.Diff(o[name].Object, now.Object); diff != "" {
				changes = append(changes, name+" has changed (-before +after):\n"+diff)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(later)) {
		if _, was := o[name]; !was {
			changes = append(changes, name+" is new")
		}
	}
	return changes
}
