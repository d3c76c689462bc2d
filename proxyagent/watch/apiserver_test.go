package watch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// apiObject is an API object with metadata.
type apiObject interface {
	runtime.Object
	metav1.Object
}

// apiServer is as much of an API server as informers see, with faults on demand: it lists, watches and discovers. It does not select;
// test/integration/agentwatch does that with a real one.
type apiServer struct {
	client *fake.Clientset

	mu       sync.Mutex
	last     int // resource version
	objects  map[string]map[string]apiObject
	watchers map[string][]watcher
	served   string // version of networking.k8s.io, empty for none
	refusals map[string]error
}

type watcher struct {
	version string
	*apiwatch.RaceFreeFakeWatcher
}

func newAPIServer() *apiServer {
	a := &apiServer{
		client:  fake.NewClientset(),
		objects: map[string]map[string]apiObject{}, watchers: map[string][]watcher{}, refusals: map[string]error{},
	}
	a.client.PrependReactor("list", "*", a.list)
	a.client.PrependReactor("get", "resource", a.discover)
	a.client.PrependWatchReactor("*", a.watch)
	a.serve("v1")
	return a
}

// resources are the kinds by their plural names.
var resources = map[reflect.Type]string{
	reflect.TypeFor[*corev1.Service]():            "services",
	reflect.TypeFor[*discoveryv1.EndpointSlice](): "endpointslices",
	reflect.TypeFor[*corev1.Node]():               "nodes",
	reflect.TypeFor[*networkingv1.IPAddress]():    "ipaddresses",
	reflect.TypeFor[*networkingv1.ServiceCIDR]():  "servicecidrs",
}

func emptyList(resource, version string) runtime.Object {
	switch resource + "/" + version {
	case "services/v1":
		return &corev1.ServiceList{}
	case "endpointslices/v1":
		return &discoveryv1.EndpointSliceList{}
	case "nodes/v1":
		return &corev1.NodeList{}
	case "ipaddresses/v1":
		return &networkingv1.IPAddressList{}
	case "ipaddresses/v1beta1":
		return &networkingv1beta1.IPAddressList{}
	case "servicecidrs/v1":
		return &networkingv1.ServiceCIDRList{}
	case "servicecidrs/v1beta1":
		return &networkingv1beta1.ServiceCIDRList{}
	default:
		panic("no list of " + resource)
	}
}

// as gives an object the version in which it is asked for. Both versions are the same on the wire.
func as(o apiObject, version string) runtime.Object {
	if version == "v1" {
		return o.DeepCopyObject()
	}
	var beta runtime.Object
	switch o.(type) {
	case *networkingv1.IPAddress:
		beta = &networkingv1beta1.IPAddress{}
	case *networkingv1.ServiceCIDR:
		beta = &networkingv1beta1.ServiceCIDR{}
	}
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, beta)
	}
	if err != nil {
		panic(err)
	}
	return beta
}

// set creates or updates objects and tells those who watch.
func (a *apiServer) set(objects ...apiObject) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range objects {
		resource, kind := resourceOf(o), apiwatch.Added
		if _, ok := a.objects[resource][keyOf(o)]; ok {
			kind = apiwatch.Modified
		}
		a.last++
		o = o.DeepCopyObject().(apiObject)
		o.SetResourceVersion(strconv.Itoa(a.last))
		if a.objects[resource] == nil {
			a.objects[resource] = map[string]apiObject{}
		}
		a.objects[resource][keyOf(o)] = o
		a.tell(resource, kind, o)
	}
}

// remove deletes objects and tells those who watch.
func (a *apiServer) remove(objects ...apiObject) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range objects {
		resource := resourceOf(o)
		gone, ok := a.objects[resource][keyOf(o)]
		if !ok {
			panic(fmt.Sprintf("no %s %s", resource, keyOf(o)))
		}
		delete(a.objects[resource], keyOf(o))
		a.last++
		gone.SetResourceVersion(strconv.Itoa(a.last))
		a.tell(resource, apiwatch.Deleted, gone)
	}
}

func resourceOf(o apiObject) string { return resources[reflect.TypeOf(o)] }

func keyOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func (a *apiServer) tell(resource string, kind apiwatch.EventType, o apiObject) {
	for _, w := range a.watchers[resource] {
		w.Action(kind, as(o, w.version))
	}
}

// unseen makes a change that no watch delivers; then all watches end because their resource version is too old.
func (a *apiServer) unseen(happens func()) {
	a.mu.Lock()
	deaf := a.watchers
	a.watchers = map[string][]watcher{}
	a.mu.Unlock()
	happens()
	for _, watchers := range deaf {
		for _, w := range watchers {
			expired := apierrors.NewResourceExpired("too old").Status()
			w.Error(&expired)
		}
	}
}

// serve changes the version of networking.k8s.io, empty for none, and ends the watches of the one before.
func (a *apiServer) serve(version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.served = version
	for _, resource := range []string{"ipaddresses", "servicecidrs"} {
		for _, w := range a.watchers[resource] {
			expired := apierrors.NewResourceExpired("the API server ends").Status()
			w.Error(&expired)
		}
		delete(a.watchers, resource)
	}
}

// refuse answers every request for a resource with an error; "discovery" is one. A nil error ends that.
func (a *apiServer) refuse(resource string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusals[resource] = err
}

func (a *apiServer) forbid(resource string) {
	a.refuse(resource, apierrors.NewForbidden(corev1.Resource(resource), "", nil))
}

// refusal is called under mu.
func (a *apiServer) refusal(action clienttesting.Action) error {
	resource := action.GetResource()
	if err := a.refusals[resource.Resource]; err != nil {
		return err
	}
	if resource.Group == networkingv1.GroupName && resource.Version != a.served {
		return apierrors.NewGenericServerResponse(404, action.GetVerb(), resource.GroupResource(), "", "not served", 0, true)
	}
	return nil
}

func (a *apiServer) list(action clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refusal(action); err != nil {
		return true, nil, err
	}
	resource, version := action.GetResource().Resource, action.GetResource().Version
	var items []runtime.Object
	for _, o := range a.objects[resource] {
		items = append(items, as(o, version))
	}
	list := emptyList(resource, version)
	if err := meta.SetList(list, items); err != nil {
		return true, nil, err
	}
	list.(metav1.ListInterface).SetResourceVersion(strconv.Itoa(a.last))
	return true, list, nil
}

func (a *apiServer) watch(action clienttesting.Action) (bool, apiwatch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refusal(action); err != nil {
		return true, nil, err
	}
	resource := action.GetResource()
	w := watcher{resource.Version, apiwatch.NewRaceFreeFake()}
	a.watchers[resource.Resource] = append(a.watchers[resource.Resource], w)
	return true, w, nil
}

// discover is called for every question of discovery; what it does not answer is answered from the client's Resources.
func (a *apiServer) discover(clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client.Resources = nil
	if a.served != "" {
		a.client.Resources = []*metav1.APIResourceList{{
			GroupVersion: "networking.k8s.io/" + a.served,
			APIResources: []metav1.APIResource{{Name: "ipaddresses"}, {Name: "servicecidrs"}},
		}}
	}
	err := a.refusals["discovery"]
	return err != nil, nil, err
}

// TestAPIServerSpeaksBothVersions checks the one translation that the fake has of its own.
func TestAPIServerSpeaksBothVersions(t *testing.T) {
	in := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.1"}}
	if out, ok := as(in, "v1beta1").(*networkingv1beta1.IPAddress); !ok || out.Name != "10.0.0.1" {
		t.Errorf("as v1beta1: %v", out)
	}
}
