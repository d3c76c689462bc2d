package watch

import (
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
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

// apiServer lists and watches as informers see it, with faults on demand. It does not select;
// test/integration/agentwatch does that with a real one.
type apiServer struct {
	client *fake.Clientset

	mu       sync.Mutex
	last     int // resource version
	objects  map[string]map[string]apiObject
	watchers map[string][]*apiwatch.RaceFreeFakeWatcher
	refusals map[string]error
}

func newAPIServer() *apiServer {
	a := &apiServer{
		client:  fake.NewClientset(),
		objects: map[string]map[string]apiObject{}, watchers: map[string][]*apiwatch.RaceFreeFakeWatcher{}, refusals: map[string]error{},
	}
	for resource := range emptyLists {
		a.objects[resource] = map[string]apiObject{}
	}
	a.client.PrependReactor("list", "*", a.list)
	a.client.PrependReactor("get", "version", a.version)
	a.client.PrependWatchReactor("*", a.watch)
	return a
}

// emptyLists are the lists of all kinds, by their plural names.
var emptyLists = map[string]runtime.Object{
	"services": &corev1.ServiceList{}, "endpointslices": &discoveryv1.EndpointSliceList{}, "nodes": &corev1.NodeList{},
	"ipaddresses": &networkingv1.IPAddressList{}, "servicecidrs": &networkingv1.ServiceCIDRList{},
}

func resourceOf(o apiObject) string {
	switch o.(type) {
	case *corev1.Service:
		return "services"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	case *corev1.Node:
		return "nodes"
	case *networkingv1.IPAddress:
		return "ipaddresses"
	case *networkingv1.ServiceCIDR:
		return "servicecidrs"
	default:
		panic(fmt.Sprintf("no list of %T", o))
	}
}

// set creates or updates objects and tells the watches.
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
		a.objects[resource][keyOf(o)] = o
		a.tell(resource, kind, o)
	}
}

// remove deletes objects and tells the watches.
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

func keyOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func (a *apiServer) tell(resource string, kind apiwatch.EventType, o apiObject) {
	for _, w := range a.watchers[resource] {
		w.Action(kind, o.DeepCopyObject())
	}
}

// unseen makes a change without an event; then all watches end, their resource version too old.
func (a *apiServer) unseen(happens func()) {
	a.mu.Lock()
	deaf := a.watchers
	a.watchers = map[string][]*apiwatch.RaceFreeFakeWatcher{}
	a.mu.Unlock()
	happens()
	for _, watchers := range deaf {
		for _, w := range watchers {
			expired := apierrors.NewResourceExpired("too old").Status()
			w.Error(&expired)
		}
	}
}

// allNodes stands for requests that do not select the own Node.
const allNodes = "all nodes"

// refuse answers every request for resources with an error. A nil error ends that.
func (a *apiServer) refuse(err error, resources ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, resource := range resources {
		a.refusals[resource] = err
	}
}

var (
	errForbidden = apierrors.NewForbidden(corev1.Resource("x"), "", nil)
	errNotServed = apierrors.NewGenericServerResponse(404, "list", corev1.Resource("x"), "", "not served", 0, true)
)

func (a *apiServer) list(action clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource := action.GetResource().Resource
	refusal := resource
	if resource == "nodes" && action.(clienttesting.ListAction).GetListRestrictions().Fields.Empty() {
		refusal = allNodes
	}
	if err := a.refusals[refusal]; err != nil {
		return true, nil, err
	}
	var items []runtime.Object
	for _, o := range a.objects[resource] {
		items = append(items, o.DeepCopyObject())
	}
	list := emptyLists[resource].DeepCopyObject()
	if err := meta.SetList(list, items); err != nil {
		return true, nil, err
	}
	list.(metav1.ListInterface).SetResourceVersion(strconv.Itoa(a.last))
	return true, list, nil
}

func (a *apiServer) version(clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.refusals["version"]
	return err != nil, nil, err
}

func (a *apiServer) watch(action clienttesting.Action) (bool, apiwatch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource := action.GetResource().Resource
	if err := a.refusals[resource]; err != nil {
		return true, nil, err
	}
	w := apiwatch.NewRaceFreeFake()
	a.watchers[resource] = append(a.watchers[resource], w)
	return true, w, nil
}
